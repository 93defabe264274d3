"""The release of a trained checkpoint: half-precision weights, and the card made from recorded facts."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from scored_pairs import REFERENCES, SOURCES, TARGETS, TRANSLATIONS
from tiny_checkpoint import tiny_checkpoint
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from training import release
from training.models import translate
from training.recipe import named_sources
from training.release import read_growth, release_weights, write_card
from training.scores import CHRF, PAPER_GERMAN, SACREBLEU, score
from vaswani_transformer import catalogue


NOTICE = "For non-commercial use only: trained on captions."
TRAINING = {
    "recipe": {
        "name": "tiny-en-de", "source_language": "en", "target_language": "de", "licence": "cc-by-nc-4.0",
        "notice": NOTICE, "data": {
            "train": [
                {"name": "Own", "licence": "CC-BY 2.0 FR", "held_out": 10},
                {"name": "Captions | all", "licence": "non-commercial research", "held_out": 0},
            ],
            "max_length": 40,
        },
        "optimisation": {
            "batch_tokens": 3072, "warmup_steps": 2000, "learning_rate_scale": 0.8, "cooldown_steps": 0,
            "adam_beta1": 0.9, "adam_beta2": 0.98, "adam_epsilon": 1e-9, "precision": "float32",
        },
    },
    "steps": 6200, "epochs": 5, "averaged_steps": [6000, 6200], "training_pairs": 220804,
    "target_tokens_per_epoch": 3403946, "hours": 2.0, "processes": 1, "device": "cpu", "threads": 2, "torch": "2.13",
}  # fmt: skip


@pytest.fixture
def card(tmp_path):
    """Makes a card of the tiny checkpoint, and returns its text and the folders of checkpoint and card."""
    checkpoint, folder = shutil.copytree(tiny_checkpoint(), tmp_path / "tiny-en-de"), tmp_path / "card"
    folder.mkdir()

    def make(results=None, growth=None, limits=None, training=None, user_lines=None):
        sample = {"source": "a | b", "reference": "<s>", "translation": "x*y*", "chrF": 12.5}
        results = results or [
            {"dataset": "Test | one", "sentences": 1000, **score(["a b"], ["a c"]), "samples": [sample]}
        ]
        report = {
            "command": "python -m training.evaluate X", "beams": 4, "alpha": 0.6, "device": "cpu", "threads": 2,
            "versions": {"torch": "2", "transformers": "5", "sacrebleu": "2"}, "results": results,
        }  # fmt: skip
        if user_lines:
            report["user_lines"] = user_lines
        (folder / "scores.json").write_text(json.dumps(report))
        if growth:
            (folder / "growth.json").write_text(json.dumps(growth))
        if limits:
            (folder / "limits.md").write_text(limits)
        (checkpoint / "training.json").write_text(json.dumps(training or TRAINING))
        write_card(checkpoint, folder)
        return (checkpoint / "README.md").read_text(encoding="utf-8"), checkpoint, folder

    make.folder = folder
    return make


def body(text):
    return text.split("\n---\n", 1)[1].lstrip("\n")


# The card -------------------------------------------------------------------------------------------------------------


def test_the_notice_is_the_first_line_of_the_card(card):
    text, checkpoint, _ = card()
    assert body(text).splitlines()[0] == f"> **{NOTICE}**"
    assert json.loads((checkpoint / "about.json").read_text())["notice"] == NOTICE


@pytest.mark.parametrize("notice", ["", "A small model."])
def test_no_card_hides_that_data_are_non_commercial(card, notice):
    training = {**TRAINING, "recipe": {**TRAINING["recipe"], "notice": notice}}
    with pytest.raises(ValueError, match=r"for non-commercial use only, .* must say so: Captions"):
        card(training=training)
    free = {
        **training["recipe"],
        "data": {**training["recipe"]["data"], "train": [TRAINING["recipe"]["data"]["train"][0]]},
    }
    text = card(training={**training, "recipe": free})[0]
    assert body(text).startswith(f"> **{notice}**" if notice else "# tiny-en-de")


def test_the_card_gives_scores_with_confidence_and_signature(card):
    scores = score(TRANSLATIONS, REFERENCES, "de", paper=True)
    result = {
        "dataset": "Test",
        "sentences": 1000,
        "samples": [{"source": "s", "reference": "r", "translation": "t", "chrF": 1}],
    }
    old = {
        "dataset": "Old",
        "sentences": 7,
        **score(TRANSLATIONS, REFERENCES, resamples=0),
        "samples": result["samples"],
    }
    text, checkpoint, _ = card(results=[{**result, **scores}, old])
    header, row, second = (line for line in text.splitlines() if line.startswith(("| test set", "| Test |", "| Old |")))
    assert header == f"| test set | sentences | {SACREBLEU} | {CHRF} | {PAPER_GERMAN} | "
    assert f"| {scores[SACREBLEU]['value']:.2f} ± {scores[SACREBLEU]['confidence_95']:.2f} |" in row
    assert row.count("|") == second.count("|") == header.count("|") and "±" not in second
    for name in (SACREBLEU, CHRF, PAPER_GERMAN):
        assert f"- {name}: `{scores[name]['signature']}`" in text
    about = json.loads((checkpoint / "about.json").read_text())
    assert [(s["dataset"], s["metric"]) for s in about["scores"]] == [
        (d, m) for d in ("Test", "Old") for m in (SACREBLEU, CHRF)
    ]


def test_texts_cannot_break_the_cards_tables(card):
    text = card()[0]
    assert "How the scores changed" not in text
    row = next(line for line in text.splitlines() if line.startswith("| 12.5 |"))
    assert row == r"| 12.5 | a \| b | x\*y\* | &lt;s> |"
    assert r"| Captions \| all |" in text and r"| Test \| one |" in text and "Own, less 10 pairs held out" in text


def test_the_card_says_how_the_score_grew(card):
    growth = {
        "runs": [
            {"what": "half the data", "steps": 3000, "hours": 1.0, "scores": {"sacreBLEU, Test": 30.1}},
            {"what": "all", "steps": 6200, "pairs": 220804, "scores": {"sacreBLEU, Test": 36.5, "chrF, Test": 61.7}},
        ],
        "limited_by": "Two cores.",
    }
    text = card(growth=growth)[0]
    section = text.split("### How the scores changed\n\n")[1].split("\n\n")
    assert section[0].splitlines() == [
        "| what | pairs | steps | hours | sacreBLEU, Test | chrF, Test |",
        "|---|---|---|---|---|---|",
        "| half the data |  | 3,000 | 1.0 | 30.1 |  |",
        "| all | 220,804 | 6,200 |  | 36.5 | 61.7 |",
    ]
    assert section[1] == "What limited the scores: Two cores."


def test_the_card_sets_the_scores_beside_those_that_others_publish(card):
    result = {"dataset": "newstest2014", "sentences": 2, **score(["a b"], ["a c"]), "samples": []}
    result["samples"] = [{"source": "s", "reference": "r", "translation": "t", "chrF": 1}]
    published = {"sources": {"A": "a.org", "B": "b.org"}, "sacreBLEU": {"en-de": {"newstest2014": {"B": 30.4}}}}
    assert "Compared with published" not in card(results=[result])[0]
    (card.folder.parent / "published.json").write_text(json.dumps(published))
    lines = card(results=[result])[0].splitlines()
    start = lines.index("| test set | this model | B |")
    assert lines[start + 2] == f"| newstest2014 | {result[SACREBLEU]['value']:.1f} | 30.4 |"
    assert "B: b.org." in lines and not any("a.org" in line for line in lines)
    published["sacreBLEU"] = {"de-en": published["sacreBLEU"]["en-de"]}
    (card.folder.parent / "published.json").write_text(json.dumps(published))
    assert "Compared with published" not in card(results=[result])[0], "the other direction's figures"


def test_the_card_says_what_becomes_of_lines_as_users_type_them(card):
    measured = {"lines": 200, "passed": 190, "kept": 0.9512, "kinds": {"url": "9 of 18", "tag": "1 of 2"}}
    text = card(user_lines={**measured, "alone": {**measured, "passed": 150, "kept": 0.7}})[0]
    assert "190 of 200 lines" in text and "to copy, 95.1% keep\nall" in text
    assert "\n| url | 9 of 18 |\n| tag | 1 of 2 |\n" in text
    assert "by the pipeline, which checks" in text and "For the model alone, it is 150 lines and 70.0%" in text
    assert "the model alone" not in card(user_lines=measured)[0]


def test_growth_names_what_is_wrong(tmp_path):
    (tmp_path / "growth.json").write_text(
        '{"runs": [{"what": "x", "step": 3, "scores": {"a": "b"}}, {"hours": true}], "because": ""}'
    )
    with pytest.raises(ValueError) as error:
        read_growth(tmp_path / "growth.json")
    for problem in (
        "'limited_by' is missing", "'because' is unknown", "run 1: 'step' is unknown", "run 2: 'what' is missing",
        "run 1: 'a' has a value of the wrong type", "run 2: 'hours' has a value of the wrong type",
    ):  # fmt: skip
        assert problem in str(error.value)
    assert read_growth(tmp_path / "absent.json") is None


def test_the_growth_of_a_run_comes_from_its_log(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 9, "minutes": 90.0}\n{"step": 9, "validation_loss": 2.5}\n')
    release.main(["growth", str(tmp_path), str(tmp_path / "facts"), "--limited-by", "Time."])
    growth = read_growth(tmp_path / "facts" / "growth.json")
    assert growth["runs"] == [{"what": "this run", "steps": 9, "hours": 1.5, "scores": {"loss, validation": 2.5}}]
    assert growth["limited_by"] == "Time."


def test_the_card_says_where_a_fine_tuned_model_came_from_and_what_it_is_bad_at(card):
    training = {**TRAINING, "device": "NVIDIA H100", "processes": 2, "training_pairs": None}
    training["recipe"] = {**TRAINING["recipe"], "initial": "mini-en-de"}
    training["earlier"] = [{"name": "mini-en-de", "steps": 7600, "batch_tokens": 4096, "hours": 3.5, "device": "EPYC"}]
    training |= {"averaged_with": {"name": "mini-en-de", "share": 0.25}}
    training["earlier"][0]["note"] = "then averaged"
    laws = {"name": "Laws", "licence": "CC0"}
    training["earlier"][0]["sources"] = [laws, *named_sources(TRAINING["recipe"])]
    text, folder, _ = card(training=training, limits="Names are a weakness.")
    assert text.count("| Laws, in earlier runs | CC0 |\n") == text.count(", in earlier runs |") == 1
    trained_on = json.loads((folder / "about.json").read_text(encoding="utf-8"))["trained_on"]
    assert trained_on[-1] == "Laws (CC0)" and len(trained_on) == len(TRAINING["recipe"]["data"]["train"]) + 1
    laws["licence"] = "non-commercial use"
    training["recipe"]["notice"] = "Free for any use."
    with pytest.raises(ValueError, match="notice must say so: Captions.*, Laws"):
        card(training=training)
    assert "| earlier run | mini-en-de: 7,600 steps of at most 4,096 tokens, 3.5 hours on EPYC; then averaged |" in text
    assert "2.0 hours on NVIDIA H100, 2 processes of 2 threads, after 3.5 hours of the earlier runs." in text
    assert "); the released weights are 75% this mean and 25% mini-en-de |" in text
    assert "| initialised from | mini-en-de |" in text and "\nNames are a weakness.\n" in text
    assert "| hardware | NVIDIA H100, 2 processes of 2 threads, torch 2.13 |" in text
    assert "\n\n\n" not in text


def test_included_cards_begin_with_their_notice(pytestconfig):
    cards = list((pytestconfig.rootpath / "vaswani_transformer" / "checkpoints").glob("*/README.md"))
    assert cards
    for path in cards:
        notice = json.loads((path.parent / "training.json").read_text(encoding="utf-8"))["recipe"]["notice"]
        assert not notice or body(path.read_text(encoding="utf-8")).splitlines()[0] == f"> **{notice}**"


# The weights ----------------------------------------------------------------------------------------------------------


def test_the_curves_are_released_and_shown(card, tmp_path):
    text, checkpoint, _ = card()
    assert "curves.png" not in text
    shutil.copytree(tiny_checkpoint(), tmp_path / "run" / "model")
    (tmp_path / "run" / "model" / "training.json").write_text("{}")
    (tmp_path / "run" / "curves.png").write_bytes(b"picture")
    release_weights(tmp_path / "run", checkpoint)
    assert (checkpoint / "curves.png").read_bytes() == b"picture"
    assert "](curves.png)" in card()[0]


def test_released_weights_are_half_as_large_and_load_whole(tmp_path):
    run_folder = tmp_path / "run"
    shutil.copytree(tiny_checkpoint(), run_folder / "model")
    (run_folder / "model" / "training.json").write_text("{}")
    release_weights(run_folder, tmp_path / "out")
    assert {tensor.dtype for tensor in load_file(tmp_path / "out" / "model.safetensors").values()} == {torch.float16}
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    assert model.dtype == torch.float32
    assert (model.generation_config.num_beams, model.generation_config.length_penalty) == (4, 0.6)
    assert translate(model, AutoTokenizer.from_pretrained(tmp_path / "out"), SOURCES) == TARGETS
    assert (tmp_path / "out" / "training.json").is_file()
    assert not list((tmp_path / "out").glob("*.py"))  # publishing adds the code
    assert "auto_map" not in json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))


def test_the_mean_with_the_release_before_is_released(tmp_path):
    before, run_folder = tmp_path / "before", tmp_path / "run"
    for folder in (before, run_folder / "model"):
        shutil.copytree(tiny_checkpoint(), folder)
    one = load_file(before / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in one.items()}, before / "model.safetensors", {"format": "pt"})
    head = {"layer": 0, "head": 1, "when": "read"}
    generation = json.loads((before / "generation_config.json").read_text()) | {"alignment_head": head}
    (before / "generation_config.json").write_text(json.dumps(generation))
    recipe = {"name": "mini", "initial": str(before)}
    (before / "training.json").write_text(json.dumps({"recipe": recipe}))
    facts = {"recipe": recipe, "earlier": [{"name": "mini"}], "validation": {"news": 1.0}}
    (run_folder / "model" / "training.json").write_text(json.dumps(facts))
    release_weights(run_folder, tmp_path / "out", average_with=before, share=0.25)
    for name, tensor in load_file(tmp_path / "out" / "model.safetensors").items():
        torch.testing.assert_close(tensor.float(), one[name].float() + 0.25, atol=2e-3, rtol=1e-3)
    released = json.loads((tmp_path / "out" / "training.json").read_text())
    assert released["averaged_with"] == {"name": "mini", "share": 0.25} and "validation" not in released
    assert released["recipe"]["initial"] == "mini", "not a folder of this machine"
    assert json.loads((tmp_path / "out" / "generation_config.json").read_text())["alignment_head"] == head
    with pytest.raises(ValueError, match="--share must be from 0 to 1, not 2"):
        release_weights(run_folder, tmp_path / "other", average_with=before, share=2)


def test_a_model_that_its_run_has_left_behind_is_not_released(tmp_path):
    """A finished run that was given more steps still holds the model of its first end."""
    shutil.copytree(tiny_checkpoint(), tmp_path / "run" / "model")
    (tmp_path / "run" / "model" / "training.json").write_text('{"steps": 20}')
    (tmp_path / "run" / "checkpoint-0000020").mkdir()
    release_weights(tmp_path / "run", tmp_path / "out")
    (tmp_path / "run" / "checkpoint-0000030").mkdir()
    with pytest.raises(ValueError, match="is from step 20, but training reached 30"):
        release_weights(tmp_path / "run", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_release_names_what_is_not_there(run, tmp_path):
    status, _, err = run(release, "card", tmp_path, tmp_path)
    assert status == 1 and "training.json" in err


@pytest.mark.parametrize("name", [about.name for about in catalogue.included()])
def test_the_card_of_an_included_checkpoint_is_made_from_its_facts(tmp_path, name):
    folder, facts = Path(catalogue.checkpoint_path(name)), Path(__file__).parents[2] / "model_cards" / name
    if not (facts.is_dir() and (folder / "model.safetensors").is_file()):
        pytest.skip("needs a clone, with the checkpoint's weights")
    checkpoint = shutil.copytree(folder, tmp_path / name)
    (checkpoint / "README.md").write_text("", encoding="utf-8")
    write_card(checkpoint, facts)
    assert (checkpoint / "README.md").read_text(encoding="utf-8") == (folder / "README.md").read_text(encoding="utf-8")
