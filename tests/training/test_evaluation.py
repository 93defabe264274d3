"""Scoring, averaging, learning a vocabulary, and the release of a checkpoint with its card."""

import gzip
import json
import lzma
import math
import re
import shutil
import sys
from collections import Counter

import pytest
import sacrebleu
import torch
import zstandard
from safetensors.torch import load_file, save_file
from tiny_checkpoint import PAIRS, tiny_checkpoint
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from training import average, evaluate, files, release, tokenizer
from training.average import average_checkpoints, last_checkpoints
from training.evaluate import evaluate_pairs, translate
from training.release import read_growth, release_weights, write_card
from training.scores import (
    CHRF,
    LOWER_CASED,
    PAPER,
    PAPER_GERMAN,
    SACREBLEU,
    Multi30kTokeniser,
    PaperTokeniser,
    multi_bleu,
    pick_samples,
    score,
)


SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())


@pytest.fixture(scope="module")
def loaded():
    folder = tiny_checkpoint()
    return AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a module's `main` and returns (exit status, standard output, standard error)."""

    def call(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, arguments)])
        status = 0
        try:
            module.main()
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return call


def write_tsv(path, pairs):
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    return path


# Tokenised BLEU ------------------------------------------------------------------------------------------------------


def reference_multi_bleu(translations, references):
    """BLEU of Papineni et al. 2002 over a corpus, as multi-bleu.perl prints it: no smoothing, words between spaces."""
    logs = 0.0
    for n in range(1, 5):
        matched = total = 0
        for translation, reference in zip(translations, references, strict=True):
            grams = [
                Counter(zip(*(w[i:] for i in range(n)), strict=False)) for w in (translation.split(), reference.split())
            ]
            matched += (grams[0] & grams[1]).total()
            total += grams[0].total()
        if not matched:
            return 0.0
        logs += math.log(matched / total) / 4
    lengths = [sum(len(text.split()) for text in side) for side in (translations, references)]
    return 100 * math.exp(logs + min(0.0, 1 - lengths[1] / lengths[0]))


@pytest.mark.parametrize(
    "translations, references",
    [
        (["the cat sat on the mat .", "a b c d e"], ["the cat is on the mat .", "a b c d f"]),
        (["the the the the the the", "one two three four"], ["the cat the dog", "one two three four five six seven"]),
        (["a b c"], ["a b c"]),  # no four words in a row
        (["A ##AT##-##AT## b c d ."], ["a ##AT##-##AT## b c d ."]),
        (["x &quot; y z . w", ""], ["x &quot; y z . v", "something else here now"]),
    ],
    ids=["two sentences", "repeated words, short", "no 4-grams", "cased", "an empty translation"],
)
def test_multi_bleu_is_that_of_the_script(translations, references):
    expected = reference_multi_bleu(translations, references)
    assert multi_bleu(translations, references, 0)["value"] == pytest.approx(expected, abs=0.005)


def test_moses_tokens_of_the_paper():
    """The expected lines are what tokenizer.perl -l de prints, then split at hyphens."""
    lines = [
        "„Rich-Text-Editor“ z. B. kostet 3.50 € – d.h. wenig… (ca. 5%)",
        "E-Mail: a-b-c, Müller's Hund & Katz'.",
    ]
    assert PaperTokeniser("de")(lines) == [
        "&quot; Rich ##AT##-##AT## Text ##AT##-##AT## Editor &quot; z. B. kostet 3.50 € – d.h. wenig ... ( ca. 5 % )",
        "E ##AT##-##AT## Mail : a ##AT##-##AT## b-c , Müller &apos; s Hund &amp; Katz &apos; .",
    ]
    assert PaperTokeniser("fr")(["l'arc-en-ciel d'aujourd'hui"]) == ["l&apos; arc-en-ciel d&apos; aujourd&apos; hui"]


def test_moses_tokens_of_multi30k():
    """The expected lines are what lowercase, normalize-punctuation.perl and tokenizer.perl print one after another."""
    lines = ['Er sagte: "Nein."', "Ein „ÄLTERER“ Mann – mit T-Shirt", "A girl's   dog"]
    assert Multi30kTokeniser("de")(lines[:2]) == [
        "er sagte : &quot; nein &quot; .",
        "ein &quot; älterer &quot; mann - mit t-shirt",
    ]
    assert Multi30kTokeniser("en")(lines[2:]) == ["a girl &apos;s dog"]


# Scores --------------------------------------------------------------------------------------------------------------

TRANSLATIONS = ["Ein Mann mit T-Shirt fährt Rad.", "Zwei Hunde rennen.", "Das ist ein Haus am See."] * 4
REFERENCES = ["Ein Mann im T-Shirt fährt Fahrrad.", "Zwei Hunde Rennen.", "Das ist ein Haus am See."] * 4


def test_scores_are_sacrebleus_with_its_own_bootstrap():
    scores = score(TRANSLATIONS, REFERENCES)
    assert list(scores) == [SACREBLEU, CHRF]
    for name, metric in ((SACREBLEU, sacrebleu.BLEU()), (CHRF, sacrebleu.CHRF())):
        expected = metric.corpus_score(TRANSLATIONS, [REFERENCES], n_bootstrap=1000)
        assert scores[name]["value"] == round(expected.score, 2)
        assert scores[name]["signature"] == str(metric.get_signature())
        assert f"{scores[name]['bootstrap_mean']:.2f} ± {scores[name]['confidence_95']:.2f}" in str(expected)
    assert "tok:13a" in scores[SACREBLEU]["signature"] and "bs:1000" in scores[SACREBLEU]["signature"]
    assert "confidence_95" not in score(TRANSLATIONS, REFERENCES, resamples=0)[SACREBLEU]


def test_no_score_can_be_taken_for_another():
    scores = score(TRANSLATIONS, REFERENCES, "de", paper=True, lower_cased=True)
    assert list(scores) == [SACREBLEU, CHRF, PAPER_GERMAN, LOWER_CASED]
    assert len({scored["value"] for scored in scores.values()}) == 4
    assert len({scored["signature"] for scored in scores.values()}) == 4
    assert (
        "case:mixed" in scores[PAPER_GERMAN]["signature"] and "moses+compounds-de" in scores[PAPER_GERMAN]["signature"]
    )
    assert "case:lc" in scores[LOWER_CASED]["signature"] and "tok:none" not in scores[LOWER_CASED]["signature"]
    french = score(["a b c d"], ["a b c e"], "fr", paper=True, resamples=0)
    assert PAPER in french and "compounds" not in french[PAPER]["signature"]


def test_scores_are_those_of_the_tokens():
    scores = score(TRANSLATIONS, REFERENCES, "de", paper=True, lower_cased=True, resamples=0)
    for name, tokenise in ((PAPER_GERMAN, PaperTokeniser("de")), (LOWER_CASED, Multi30kTokeniser("de"))):
        expected = reference_multi_bleu(tokenise(TRANSLATIONS), tokenise(REFERENCES))
        assert scores[name]["value"] == pytest.approx(expected, abs=0.005)


def test_scores_need_as_many_references_and_a_language():
    with pytest.raises(ValueError, match="2 translations cannot be scored with 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="0 translations"):
        score([], [])
    with pytest.raises(ValueError, match="target language"):
        score(["a"], ["a"], paper=True)


def test_samples_are_spread_from_worst_to_best():
    pairs = [(str(i), "abcdefghij") for i in range(50)]
    samples = pick_samples(pairs, ["abcdefghij"[: i // 5] for i in range(50)], count=5)
    ratings = [sample["chrF"] for sample in samples]
    assert len(samples) == 5 and ratings == sorted(ratings) and ratings[0] == 0
    assert len(pick_samples(pairs[:2], ["", "abc"])) == 2


# Translating ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_translations_keep_their_order(loaded, batch_size):
    texts = [SOURCES[0], "", *SOURCES[1:], " ", SOURCES[0]]
    assert translate(*loaded, texts, batch_size) == [TARGETS[0], "", *TARGETS[1:], "", TARGETS[0]]
    assert translate(*loaded, []) == []


@pytest.mark.parametrize("num_beams", [None, 1])
def test_pairs_can_be_evaluated_between_two_steps_of_training(loaded, num_beams, recwarn):
    model, tokens = loaded
    model.train()
    scores, translations = evaluate_pairs(model, tokens, list(PAIRS.items()), num_beams=num_beams)
    assert translations == TARGETS and scores[SACREBLEU]["value"] == 100
    assert model.training
    batch = tokens(SOURCES[:1], text_target=TARGETS[:1], return_tensors="pt")
    model(**batch).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.zero_grad()
    model.eval()
    assert not [str(w.message) for w in recwarn if "early_stopping" in str(w.message)]


# python -m training.evaluate -----------------------------------------------------------------------------------------


def test_each_kind_of_test_set_is_scored(run, tmp_path):
    pairs = list(PAIRS.items())
    with lzma.open(tmp_path / "a.tsv.xz", "wt", encoding="utf-8") as file:
        file.writelines(f"{target}\t{source}\n" for source, target in pairs)
    write_tsv(tmp_path / "b.tsv", [(t, s) for s, t in pairs[:2]] + [("Falsch, alles ganz falsch!", "Thanks")])
    (tmp_path / "c.en").write_text("\n".join(SOURCES[:3]) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "c.de.gz", "wt", encoding="utf-8") as file:
        file.write("\r\n".join(TARGETS[:3]))
    sets = ["--tsv", tmp_path / "a.tsv.xz", "--tsv", tmp_path / "b.tsv", "--source-column", 1, "--target-column", 0]
    sets += ["--source", tmp_path / "c.en", "--reference", tmp_path / "c.de.gz"]
    results = ["--output", tmp_path / "new" / "scores.json", "--hypotheses", tmp_path / "texts", "--resamples", 20]
    status, out, err = run(evaluate, tiny_checkpoint(), *sets, *results)
    assert status == 0, err
    report = json.loads((tmp_path / "new" / "scores.json").read_text(encoding="utf-8"))
    assert [(r["dataset"], r["sentences"]) for r in report["results"]] == [("a.tsv.xz", 6), ("b.tsv", 3), ("c.en", 3)]
    values = [result[SACREBLEU]["value"] for result in report["results"]]
    assert values[0] == values[2] == 100 > values[1]
    for result in report["results"]:
        assert {SACREBLEU, CHRF, PAPER_GERMAN, LOWER_CASED} <= result.keys()
        assert f"{result[SACREBLEU]['value']:6.2f} ± " in out and result[SACREBLEU]["signature"] in out
    assert (report["beams"], report["alpha"]) == (4, 0.6)
    assert "tokenised" not in out
    assert (tmp_path / "texts" / "a.tsv.xz.txt").read_text(encoding="utf-8").splitlines() == TARGETS


def test_tokenised_scores_are_shown_when_asked_for(run, tmp_path):
    test = write_tsv(tmp_path / "t.tsv", PAIRS.items())
    status, out, err = run(evaluate, tiny_checkpoint(), "--tsv", test, "--paper-bleu", "--lowercase-tokenised")
    assert status == 0, err
    assert [line.strip().split("  ")[0] for line in out.splitlines()[1:]] == [
        SACREBLEU,
        CHRF,
        PAPER_GERMAN,
        LOWER_CASED,
    ]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--tsv", "absent.tsv"], "absent.tsv"),
        (["--tsv", "empty.tsv"], "empty.tsv has no pairs"),
        (["--source", "two.txt", "--reference", "three.txt"], "two.txt has 2 lines, three.txt 3"),
        (["--source", "empty.tsv", "--reference", "empty.tsv"], "empty.tsv has no pairs"),
        (["--source", "latin1.txt", "--reference", "two.txt"], "latin1.txt, line 2: not UTF-8 (byte 0xfc)"),
        (["--source", "two.txt"], "--source needs --reference"),
        ([], "give --recipe, --tsv, or --source and --reference"),
        (["--tsv", "good.tsv", "--source-column", "7"], "good.tsv, line 1"),
        (["--tsv", "good.tsv", "--device", "cuda:99"], "--device cpu"),
        (["--tsv", "good.tsv", "--batch-size", "0"], "--batch-size: must be 1 or more"),
        (["--tsv", "good.tsv", "--output", "."], "is a folder, not a file"),
    ],
)
def test_evaluation_says_what_is_wrong_before_it_translates(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.txt").write_text("a\nb\n")
    (tmp_path / "three.txt").write_text("a\nb\nc\n")
    (tmp_path / "latin1.txt").write_bytes("a\nfür\n".encode("latin-1"))
    (tmp_path / "empty.tsv").touch()
    write_tsv(tmp_path / "good.tsv", PAIRS.items())
    monkeypatch.setattr(evaluate, "translate", lambda *arguments, **kwargs: pytest.fail("it translated"))
    status, out, err = run(evaluate, tiny_checkpoint(), *arguments)
    assert (status > 0, out) == (True, "") and message in err


def test_evaluation_of_what_is_no_model(run, tmp_path):
    test = write_tsv(tmp_path / "t.tsv", PAIRS.items())
    (tmp_path / "config.json").write_text('{"model_type": "unheard-of"}')
    for model, message in (("no-such-model", "checkpoint called 'no-such-model'"), (tmp_path, "Cannot load")):
        status, _, err = run(evaluate, model, "--tsv", test)
        assert status == 1 and message in err


def test_the_language_of_tokenised_scores_must_be_known(run, tmp_path):
    test = write_tsv(tmp_path / "t.tsv", PAIRS.items())
    model = shutil.copytree(tiny_checkpoint(), tmp_path / "model")
    (model / "about.json").unlink()
    status, _, err = run(evaluate, model, "--tsv", test, "--paper-bleu")
    assert status == 1 and "needs --target-language" in err
    status, out, _ = run(evaluate, model, "--tsv", test, "--paper-bleu", "--target-language", "fr", "--resamples", 0)
    assert status == 0 and PAPER in out


def test_no_scores_are_written_when_a_later_test_set_fails(run, tmp_path, monkeypatch):
    tests = [x for name in "ab" for x in ("--tsv", write_tsv(tmp_path / f"{name}.tsv", PAIRS.items()))]
    (tmp_path / "scores.json").write_text("before")
    calls = []

    def fail_at_second(model, tokenizer, texts, *arguments, **settings):
        calls.append(texts)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return ["x"] * len(texts)

    monkeypatch.setattr(evaluate, "translate", fail_at_second)
    with pytest.raises(RuntimeError):
        run(evaluate, tiny_checkpoint(), *tests, "--output", tmp_path / "scores.json", "--resamples", 0)
    assert (tmp_path / "scores.json").read_text() == "before"


# Files ---------------------------------------------------------------------------------------------------------------


def test_lines_of_every_compression(tmp_path):
    text = "\ufefffür\u2028alle\r\n\nohne Ende".encode()
    expected = ["für\u2028alle", "", "ohne Ende"]
    packed = {"": text, ".gz": gzip.compress(text), ".xz": lzma.compress(text), ".zst": zstandard.compress(text)}
    for suffix, content in packed.items():
        path = tmp_path / f"text.txt{suffix}"
        path.write_bytes(content)
        assert list(files.read_lines(path)) == expected
        if suffix:
            path.write_bytes(content[: len(content) // 2] if suffix != ".zst" else b"no zstandard file")
            with pytest.raises(ValueError, match=f"text.txt{suffix}"):
                list(files.read_lines(path))
    with pytest.raises(FileNotFoundError):
        list(files.read_lines(tmp_path / "absent"))


@pytest.mark.parametrize(
    "whole, write",
    [(files.whole_file, lambda p: p.write_text("half")), (files.whole_folder, lambda p: (p / "half").touch())],
)
def test_whole_or_not_at_all(tmp_path, whole, write):
    target = tmp_path / "name.v1"
    with pytest.raises(RuntimeError), whole(target) as partial:
        write(partial)
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):  # the second takes the place of the first
        with whole(target) as partial:
            write(partial)
            assert partial != target
    assert list(tmp_path.iterdir()) == [target]


# python -m training.average ------------------------------------------------------------------------------------------


def save(path, **tensors):
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: torch.tensor(value) for name, value in tensors.items()}, path)
    return path


def test_mean_in_float32(tmp_path):
    for i, value in enumerate((1.0, 2.0, 6.0)):
        save_file({"w": torch.full((2,), value, dtype=torch.bfloat16)}, tmp_path / f"{i}.safetensors")
    mean = average_checkpoints(sorted(tmp_path.iterdir()))
    assert mean["w"].dtype == torch.float32 and mean["w"].tolist() == [3.0, 3.0]


def test_files_folders_and_parts_are_averaged(run, tmp_path):
    file = save(tmp_path / "a.safetensors", v=[1.0], w=[2.0])
    save(tmp_path / "folder" / "model.safetensors", v=[3.0], w=[4.0])
    save(tmp_path / "parts" / "model-1.safetensors", v=[5.0])
    save(tmp_path / "parts" / "model-2.safetensors", w=[9.0])
    index = {"weight_map": {"v": "model-1.safetensors", "w": "model-2.safetensors"}}
    (tmp_path / "parts" / "model.safetensors.index.json").write_text(json.dumps(index))
    output = tmp_path / "mean.safetensors"
    status, out, err = run(average, output, file, tmp_path / "folder", tmp_path / "parts")
    assert status == 0, err
    assert {name: tensor.tolist() for name, tensor in load_file(output).items()} == {"v": [3.0], "w": [5.0]}


def test_the_last_checkpoints_of_a_run(run, tmp_path):
    for step in (900, 1000, 1100, 20):
        save(tmp_path / "run" / f"checkpoint-{step}" / "model.safetensors", w=[float(step)])
    save(tmp_path / "run" / "checkpoint-1200.partial" / "model.safetensors", w=[1e9])
    assert [folder.name for folder in last_checkpoints(tmp_path / "run", 3)] == [
        f"checkpoint-{s}" for s in (900, 1000, 1100)
    ]
    output = tmp_path / "mean.safetensors"
    assert run(average, output, tmp_path / "run", "--last", 2)[0] == 0
    assert load_file(output)["w"].tolist() == [1050.0]
    for arguments, message in (
        ([tmp_path / "run"], "say how many of them with --last N"),
        ([tmp_path / "run", "--last", 5], "has 4 checkpoints"),
        ([tmp_path / "run", "--last", 0], "--last: must be 1 or more"),
        ([tmp_path / "run", tmp_path / "run", "--last", 1], "nothing else"),
    ):
        status, _, err = run(average, tmp_path / "other.safetensors", *arguments)
        assert status > 0 and message in err


def test_averaging_names_what_is_wrong(run, tmp_path):
    good = save(tmp_path / "good.safetensors", v=[1.0], w=[2.0])
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(good.read_bytes()[:-3])
    torch.save({"w": torch.zeros(1)}, tmp_path / "pickle.safetensors")
    cases = {
        save(tmp_path / "missing.safetensors", v=[1.0]): "w is missing",
        save(tmp_path / "more.safetensors", v=[1.0], w=[1.0], x=[1.0]): "x is not in the checkpoints before it",
        save(tmp_path / "shape.safetensors", v=[1.0], w=[1.0, 2.0]): "w has shape [2] instead of [1]",
        save(tmp_path / "nan.safetensors", v=[1.0], w=[math.nan]): "w has values that are not finite",
        damaged: "is damaged",
        tmp_path / "pickle.safetensors": "is a pickle",
        tmp_path / "absent.safetensors": "No such file or folder",
    }
    (tmp_path / "before").mkdir()
    before = save(tmp_path / "before" / "mean.safetensors", w=[7.0]).read_bytes()
    for path, message in cases.items():
        status, out, err = run(average, tmp_path / "before" / "mean.safetensors", good, path)
        assert (status > 0, out) == (True, "") and message in err and path.name in err
    assert [path.read_bytes() for path in (tmp_path / "before").iterdir()] == [before]
    assert "not the name of a .safetensors file" in run(average, tmp_path / "mean.pt", good)[2]
    with pytest.raises(ValueError, match="no checkpoints"):
        average_checkpoints([])


# python -m training.tokenizer ----------------------------------------------------------------------------------------


def test_a_vocabulary_of_files(run, tmp_path):
    (tmp_path / "a.en").write_text("the cat sat\n\nthe dog\n" * 20, encoding="utf-8")
    with gzip.open(tmp_path / "b.de.gz", "wt", encoding="utf-8") as file:
        file.write("die Katze saß\n" * 20)
    arguments = (tmp_path / "out", "--vocab-size", 275, tmp_path / "a.en", tmp_path / "b.de.gz")
    status, out, err = run(tokenizer, *arguments)
    assert status == 0, err
    learned = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert len(learned) == 275
    rows = {line.split()[0]: line.split() for line in out.splitlines() if str(tmp_path) in line or "together" in line}
    tokens = 0
    for name, texts, sides in (("a.en", 60, ["the cat sat", "", "the dog"]), ("b.de.gz", 20, ["die Katze saß"])):
        ids = [i for text in sides for i in learned(text, add_special_tokens=False).input_ids]
        words = sum(len(text.split()) for text in sides) * 20
        tokens += 20 * len(ids)
        ratio = f"{20 * len(ids) / words:.3f}"
        assert rows[str(tmp_path / name)][1:] == [
            str(texts),
            str(words),
            f"{20 * len(ids):,}",
            ratio,
            f"{len(set(ids)) / 275:.1%}",
        ]
    assert rows["together"][3] == f"{tokens:,}"
    status, _, err = run(tokenizer, *arguments)
    assert status == 2 and "--overwrite" in err
    assert run(tokenizer, *arguments, "--overwrite", "--vocab-size", 270)[0] == 0
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out")) == 270


def test_a_vocabulary_of_a_recipe(run, tmp_path):
    write_tsv(tmp_path / "train.tsv", list(PAIRS.items()) * 3)
    (tmp_path / "recipe.yaml").write_text(
        "{name: r, source_language: en, target_language: de, preset: tiny, vocab_size: 280,"
        " data: {train: [{path: train.tsv}], validation: []}}"
    )
    status, out, err = run(tokenizer, tmp_path / "out", "--recipe", tmp_path / "recipe.yaml", "--data", tmp_path)
    assert status == 0, err
    assert [line.split()[:2] for line in out.splitlines()[3:]] == [["en", "18"], ["de", "18"], ["together", "36"]]
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out")) == 280


def test_learning_a_vocabulary_says_what_is_wrong(run, tmp_path):
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "small").write_text("ab\n")
    (tmp_path / "broken.gz").write_bytes(b"not packed")
    for arguments, message in (
        ([], "give either text files or --recipe"),
        ([tmp_path / "small"], "need --vocab-size"),
        ([tmp_path / "empty", "--vocab-size", 300], "there is no text in"),
        ([tmp_path / "small", "--vocab-size", 300], "The texts give only"),
        ([tmp_path / "small", "--vocab-size", 100], "at least 258"),
        ([tmp_path / "absent", "--vocab-size", 300], "absent"),
        ([tmp_path / "broken.gz", "--vocab-size", 300], "broken.gz cannot be read"),
    ):
        status, out, err = run(tokenizer, tmp_path / "out", *arguments)
        assert (status > 0, out) == (True, "") and message in err
    assert not (tmp_path / "out").exists()
    assert "is a file" in run(tokenizer, tmp_path / "small", "--vocab-size", 300, tmp_path / "empty", "--overwrite")[2]


# The release and its card --------------------------------------------------------------------------------------------

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


def test_the_notice_is_the_first_line_of_the_card(card):
    text, checkpoint, _ = card()
    assert body(text).splitlines()[0] == f"> **{NOTICE}**"
    assert json.loads((checkpoint / "about.json").read_text())["notice"] == NOTICE


@pytest.mark.parametrize("notice", ["", "A small model."])
def test_no_card_hides_that_data_are_non_commercial(card, notice):
    training = {**TRAINING, "recipe": {**TRAINING["recipe"], "notice": notice}}
    with pytest.raises(ValueError, match=r"non-commercial: so are Captions"):
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
    assert "How the score grew" not in text
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
    section = text.split("### How the score grew\n\n")[1].split("\n\n")
    assert section[0].splitlines() == [
        "| what | pairs | steps | hours | sacreBLEU, Test | chrF, Test |",
        "|---|---|---|---|---|---|",
        "| half the data |  | 3,000 | 1.0 | 30.1 |  |",
        "| all | 220,804 | 6,200 |  | 36.5 | 61.7 |",
    ]
    assert section[1] == "What limited it: Two cores."


def test_the_card_sets_the_scores_beside_those_that_others_publish(card):
    result = {"dataset": "newstest2014", "sentences": 2, **score(["a b"], ["a c"]), "samples": []}
    result["samples"] = [{"source": "s", "reference": "r", "translation": "t", "chrF": 1}]
    published = {"sources": {"A": "a.org", "B": "b.org"}, "sacreBLEU": {"en-de": {"newstest2014": {"B": 30.4}}}}
    assert "Beside others" not in card(results=[result])[0]
    (card.folder.parent / "published.json").write_text(json.dumps(published))
    lines = card(results=[result])[0].splitlines()
    start = lines.index("| test set | this model | B |")
    assert lines[start + 2] == f"| newstest2014 | {result[SACREBLEU]['value']:.1f} | 30.4 |"
    assert "B: b.org." in lines and not any("a.org" in line for line in lines)
    published["sacreBLEU"] = {"de-en": published["sacreBLEU"]["en-de"]}
    (card.folder.parent / "published.json").write_text(json.dumps(published))
    assert "Beside others" not in card(results=[result])[0], "the other direction's figures"


def test_the_card_says_what_becomes_of_lines_as_users_type_them(card):
    text = card(user_lines={"lines": 200, "passed": 150, "kept": 0.9512, "kinds": {"url": "9 of 18", "tag": "1 of 2"}})[
        0
    ]
    assert "Of 200 lines" in text and "95.1% of those" in text and "\nurl 9 of 18, tag 1 of 2.\n" in text


def test_the_curves_are_released_and_shown(card, tmp_path):
    text, checkpoint, _ = card()
    assert "curves.png" not in text
    shutil.copytree(tiny_checkpoint(), tmp_path / "run" / "model")
    (tmp_path / "run" / "model" / "training.json").write_text("{}")
    (tmp_path / "run" / "curves.png").write_bytes(b"picture")
    release_weights(tmp_path / "run", checkpoint)
    assert (checkpoint / "curves.png").read_bytes() == b"picture"
    assert "](curves.png)" in card()[0]


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


def test_the_card_says_where_a_fine_tuned_model_came_from_and_what_it_is_bad_at(card):
    training = {**TRAINING, "device": "NVIDIA H100", "processes": 2, "training_pairs": None}
    training["recipe"] = {**TRAINING["recipe"], "initial": "mini-en-de"}
    text = card(training=training, limits="Names are a weakness.")[0]
    assert "| initialised from | mini-en-de |" in text and "\nNames are a weakness.\n" in text
    assert "| hardware | NVIDIA H100, 2 processes of 2 threads, torch 2.13 |" in text
    assert "\n\n\n" not in text


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


def test_release_names_what_is_not_there(run, tmp_path):
    status, _, err = run(release, "card", tmp_path, tmp_path)
    assert status == 1 and "training.json" in err


@pytest.mark.parametrize("module", [evaluate, average, tokenizer, release])
def test_modules_explain_themselves(run, module):
    status, out, _ = run(module, "--help")
    assert status == 0 and re.match(rf"usage: (python -m {module.__name__}|vaswani evaluate) ", out)


def test_shipped_cards_begin_with_their_notice(pytestconfig):
    cards = list((pytestconfig.rootpath / "vaswani_transformer" / "checkpoints").glob("*/README.md"))
    assert cards
    for path in cards:
        notice = json.loads((path.parent / "training.json").read_text(encoding="utf-8"))["recipe"]["notice"]
        assert not notice or body(path.read_text(encoding="utf-8")).splitlines()[0] == f"> **{notice}**"
