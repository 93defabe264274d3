"""What people watch: the progress bar, the log, TensorBoard, and the picture of the curves."""

import fcntl
import json
import os
import re
import struct
import sys
import termios
import threading
from functools import partial

import pytest
from matplotlib import image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from toy_data import arguments, finish, logged, start
from waiting import TIMEOUT

from training.report import Report, duration, plot_curves


def use_terminal(name):
    os.dup2(os.open(name, os.O_RDWR), sys.stderr.fileno())


@pytest.fixture(scope="module")
def watched(toy, tmp_path_factory):
    """A run in a terminal: (its folder, what the terminal showed)."""
    folder = tmp_path_factory.mktemp("watched")
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 160, 0, 0))
    shown = []

    def read():
        try:
            while chunk := os.read(master, 10_000):
                shown.append(chunk)
        except OSError:  # Linux's way to say that the other end of the terminal is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    overrides = ["checkpointing.trackers=[tensorboard]", "checkpointing.bleu_steps=6", "optimisation.max_steps=6"]
    log = folder / "out"
    process = start(arguments(toy, folder / "run", *overrides), log, before=partial(use_terminal, os.ttyname(slave)))
    code, text = finish(process, log)
    os.close(slave)
    reader.join(TIMEOUT)
    os.close(master)
    terminal = b"".join(shown).decode()
    assert code == 0, text + terminal
    return folder / "run", text + terminal


def test_the_padding_of_translations_does_not_stay_in_the_tokenizer(watched):
    """Whoever encodes with what is inside, as fast programs do, would get padding among the tokens."""
    assert json.loads((watched[0] / "model" / "tokenizer.json").read_text(encoding="utf-8"))["padding"] is None


def test_a_bar_shows_speed_loss_rate_and_time_left(watched):
    bars = re.findall(r"6/6 \[.*?\]", watched[1])
    assert bars
    assert re.search(r"\d\d:\d\d<\d\d:\d\d, .*step.*loss=\d\.\d{3}, rate=\d\.\d\de-\d\d, tokens/s=[\d,]+\]", bars[-1])


def test_translations_are_shown_beside_their_references(watched, toy):
    run, text = watched
    assert re.search(r"step 6  sacreBLEU \d+\.\d\d on 22 validation sentences, greedy", text)
    for line in (toy / "test.tsv").read_text(encoding="utf-8").splitlines()[:3]:
        source, target = line.split("\t")
        assert f"source       {source}" in text and f"reference    {target}" in text
    assert text.count("  translation  ") == 2 * 3, "three of each set"
    assert list(logged(run, "validation_bleu")) == [6]


def test_tensorboard_has_the_losses(watched):
    run, _ = watched
    (events,) = {file.parent for file in run.rglob("events.out.tfevents.*") if file.parent.name == "toy-en-de"}
    accumulator = EventAccumulator(str(events))
    accumulator.Reload()
    for key in ("loss", "learning_rate", "validation_loss", "validation_bleu"):
        assert {event.step: event.value for event in accumulator.Scalars(key)} == pytest.approx(logged(run, key))


def test_the_log_says_what_a_plot_needs(watched):
    lines = [json.loads(line) for line in (watched[0] / "log.jsonl").read_text().splitlines()]
    first = lines[0]
    assert first.keys() == {"step", "epoch", "loss", "learning_rate", "tokens_per_second", "minutes"}
    assert first["tokens_per_second"] > 0 and first["minutes"] > 0


def test_the_curves_are_a_picture(watched):
    picture = image.imread(watched[0] / "curves.png")
    assert picture.ndim == 3 and min(picture.shape[:2]) > 300
    assert picture[..., :3].std() > 0.05, "blank"


def test_the_curves_are_those_of_the_log(tmp_path, monkeypatch):
    from matplotlib import pyplot

    lines = [{"step": step, "loss": 9.0 - step, "learning_rate": step / 10} for step in range(1, 5)]
    lines += [{"step": step, "validation_loss": 8.0 - step} for step in (2, 4)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    plot_curves(tmp_path / "log.jsonl", tmp_path / "curves.png", "a title")
    figure = pyplot.gcf()
    curves = [[line.get_xydata().tolist() for line in axis.lines] for axis in figure.axes]
    losses, rates = [[s, 9.0 - s] for s in range(1, 5)], [[s, s / 10] for s in range(1, 5)]
    assert curves == [[losses, [[2, 6], [4, 4]]], [rates]]
    assert figure.axes[0].get_title() == "a title"
    monkeypatch.undo()
    pyplot.close(figure)


class NoTrackers:
    is_main_process, log_with = True, []

    def log(self, values, step):
        pass


def test_the_log_of_a_resumed_run_has_no_step_twice(tmp_path):
    report = Report(NoTrackers(), tmp_path, "run", {}, 100)
    report.start(0)
    for step in (10, 20, 30):
        report.log(step, 0, loss=1.0 / step)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 40, "ep')  # as a kill in the middle leaves it
    resumed = Report(NoTrackers(), tmp_path, "run", {}, 100)
    resumed.start(20)
    resumed.log(30, 0, loss=0.5)
    assert logged(tmp_path) == {10: 0.1, 20: 0.05, 30: 0.5}
    assert (tmp_path / "log.jsonl").read_text().count("\n") == 3


def test_durations_read_as_people_say_them():
    assert [duration(seconds) for seconds in (0, 119, 3600, 100_000)] == ["0 min", "2 min", "1 h 00 min", "27 h 47 min"]


@pytest.mark.parametrize("content", ["", '{"step": 1', '[]\n3\n{"step": 2}\n', "\0\0\n"])
def test_a_log_without_figures_gives_no_picture_and_no_error(tmp_path, content):
    (tmp_path / "log.jsonl").write_text(content)
    plot_curves(tmp_path / "log.jsonl", tmp_path / "curves.png", "toy")
    assert not (tmp_path / "curves.png").exists()
