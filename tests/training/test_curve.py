"""The curve of a released checkpoint, from a run's log or from its recorded growth."""

import json

from training.curve import MAX_POINTS, curve_from_growth, curve_from_log, growth_from_log


def test_a_log_gives_a_point_for_each_step_with_what_was_recorded(tmp_path):
    lines = [
        {"step": 50, "loss": 4.0, "learning_rate": 0.1},
        {"step": 100, "loss": 3.0},
        {"step": 100, "validation_loss": 2.5, "validation_loss/val": 2.5, "validation_bleu": 10.0},
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert curve_from_log(log) == [
        {"step": 50, "train_loss": 4.0, "validation_loss": None, "bleu": None},
        {"step": 100, "train_loss": 3.0, "validation_loss": 2.5, "bleu": 10.0},
    ]


def test_a_long_log_is_thinned_but_for_its_validations(tmp_path):
    lines = [
        {"step": step, "loss": 1.0} | ({"validation_loss": 2.0} if step % 997 == 0 else {}) for step in range(5000)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    points = curve_from_log(log)
    assert len(points) < MAX_POINTS + 10
    assert [point["step"] for point in points if point["validation_loss"]] == [0, 997, 1994, 2991, 3988, 4985]


def test_of_recorded_growth_only_the_runs_own_steps_count():
    runs = [
        {"what": "a short run", "steps": 9, "scores": {"validation loss": 9.0}},
        {"what": "this run at step 1,000", "steps": 1000, "scores": {"validation loss": 2.0}},
        {"what": "this run at step 2,000", "steps": 2000, "scores": {"sacreBLEU of Multi30k val, greedy": 31.0}},
    ]
    assert curve_from_growth(runs) == [
        {"step": 1000, "train_loss": None, "validation_loss": 2.0, "bleu": None},
        {"step": 2000, "train_loss": None, "validation_loss": None, "bleu": 31.0},
    ]


def test_a_log_gives_a_row_of_growth_for_each_validation_with_every_set(tmp_path):
    lines = [
        {"step": 50, "loss": 4.0, "minutes": 3.0},
        {"step": 100, "loss": 3.0, "minutes": 30.0},
        {"step": 100, "validation_loss": 2.5, "validation_loss/news, all": 2.456, "validation_loss/Own": 2.6},
        {"step": 100, "validation_bleu": 10.0, "validation_bleu/news, all": 9.96, "validation_bleu/Own": 11.0},
        {"step": 150, "loss": 2.9, "minutes": 45.0},
        {"step": 200, "validation_loss": 2.0},
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    first = {"loss, news": 2.46, "loss, Own": 2.6, "greedy sacreBLEU, news": 10.0, "greedy sacreBLEU, Own": 11.0}
    assert growth_from_log(log) == [
        {"what": "this run", "steps": 100, "hours": 0.5, "scores": first},
        {"what": "this run", "steps": 200, "hours": 0.8, "scores": {"loss, validation": 2.0}},
    ]
