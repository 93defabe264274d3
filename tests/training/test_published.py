"""The paper's task with published archives: the guide's command, on an archive and a test set of the same layout."""

import json
import os
import re
import urllib.error

import pytest
import sacrebleu.dataset
from sacremoses import MosesDetokenizer
from stand_ins import FAIRSEQ, fairseq_archive
from stand_ins import run as start

from training import evaluate
from training.evaluate import read_sacrebleu
from training.scores import PAPER_GERMAN, SACREBLEU
from vaswani_transformer import cache
from vaswani_transformer.locating import locate


ARCHIVE = "wmt16.en-de.joined-dict.transformer.tar.bz2"
MODELS = [f"model{i}.pt" for i in range(1, 5)]  # of an ensemble, such as wmt19.en-de.joined-dict.ensemble


def plain(lines: list[str], language: str) -> list[str]:
    """Segmented lines as users write them."""
    detokenizer = MosesDetokenizer(language)
    return [detokenizer.detokenize(line.replace("@@ ", "").split()) for line in lines]


def test_an_archive_is_scored_on_a_test_set_of_sacrebleu(tmp_path):
    """Plain text is translated as fairseq translated its segmented text, with the search of Ott et al. (2018)."""
    recorded = json.loads((FAIRSEQ / "reference.json").read_text("utf-8"))
    theirs = [hypotheses[0]["tokens"] for hypotheses in recorded["generate"]["beam4_lenpen0.6"]]
    sides = {"src": plain(recorded["source_bpe"], "en"), "ref": plain(theirs, "de")}
    assert sides["src"][0] == "x-ray mü rema bo?"  # for Moses, two words
    newstest = tmp_path / "sacrebleu" / "wmt14" / "full"
    newstest.mkdir(parents=True)
    for field in ("src", "ref", "docid", "genre", "origlang"):
        lines = sides.get(field, ["any"] * len(theirs))
        (newstest / f"wmt14_full.en-de.{field}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    archive, output = fairseq_archive(tmp_path / ARCHIVE), tmp_path / "scores.json"
    command = f"evaluate {archive} --sacrebleu wmt14/full/en-de --beams 4 --alpha 0.6 --paper-bleu --output {output}"
    script = "import sys; from vaswani_transformer.__main__ import main; sys.argv[0] = 'vaswani'; main()"
    process = start(script, *command.split(), SACREBLEU=tmp_path / "sacrebleu", VASWANI_CACHE=tmp_path / "cache")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "wmt14/full/en-de: 8 sentences" in out and "Texts are tokenized by Moses" in err
    [result] = json.loads(output.read_text("utf-8"))["results"]
    assert result[SACREBLEU]["value"] == result[PAPER_GERMAN]["value"] == pytest.approx(100)


def test_an_ensemble_is_refused_and_one_of_its_models_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("VASWANI_CACHE", str(tmp_path / "cache"))
    archive = fairseq_archive(tmp_path / "wmt19.en-de.joined-dict.ensemble.tar.bz2", *MODELS)
    message = re.escape(f"contains several checkpoints ({', '.join(MODELS)}). One model can be used at a time")
    with pytest.raises(ValueError, match=message) as error:
        locate(str(archive))
    assert ".unpacked" not in str(error.value) and cache.entries() == []
    assert locate(str(tmp_path / "wmt19.en-de.joined-dict.ensemble" / "model4.pt"))


def test_a_test_set_that_sacrebleu_does_not_have(monkeypatch):
    for name in ("wmt14/full", "wmt14/full/en-xx", "wmt99/en-de", "en-de"):
        with pytest.raises(ValueError, match=f"sacrebleu has no test set '{name}'"):
            read_sacrebleu(name)


@pytest.mark.parametrize("error", [urllib.error.URLError("no route"), SystemExit(1)])
def test_a_test_set_that_cannot_be_downloaded(monkeypatch, run, tmp_path, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(sacrebleu.dataset.DATASETS["wmt14/full"], "get_files", fail)
    status, _, err = run(evaluate, "mini-en-de", "--sacrebleu", "wmt14/full/en-de")
    assert status == 1 and "sacrebleu cannot provide wmt14/full/en-de" in err and f"wmt14{os.sep}full" in err


def test_a_test_set_with_several_references_is_refused(monkeypatch):
    dataset = sacrebleu.dataset.DATASETS["wmt20/tworefs"]
    monkeypatch.setattr(dataset, "get_files", lambda pair: ["file"] * len(dataset.fieldnames(pair)))
    with pytest.raises(ValueError, match="has several references"):
        read_sacrebleu("wmt20/tworefs/de-en")
