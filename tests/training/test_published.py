"""Published models: the guide's commands, on archives and a test set of the same layout."""

import json
import os
import re
import subprocess
import sys
import urllib.error
from functools import partial
from pathlib import Path

import pytest
import sacrebleu.dataset
from sacremoses import MosesDetokenizer
from stand_ins import FAIRSEQ, fairseq_archive

from training import evaluate
from training.evaluate import read_sacrebleu
from training.scores import CHRF, PAPER, PAPER_GERMAN, SACREBLEU
from vaswani_transformer import cache
from vaswani_transformer.locating import locate


ROOT = Path(__file__).parents[2]
ARCHIVES = [f"{name}.joined-dict.transformer.tar.bz2" for name in ("wmt16.en-de", "wmt14.en-fr")]
MODELS = [f"model{i}.pt" for i in range(1, 5)]  # of an ensemble, such as wmt19.en-de.joined-dict.ensemble


def plain(lines: list[str], language: str) -> list[str]:
    """Segmented lines as users write them."""
    detokenizer = MosesDetokenizer(language)
    return [detokenizer.detokenize(line.replace("@@ ", "").split()) for line in lines]


@pytest.fixture
def network(tmp_path, monkeypatch) -> Path:
    """An empty folder, in which `curl` gets stand-ins of fairseq's archives, and sacrebleu has a test set."""
    recorded = json.loads((FAIRSEQ / "reference.json").read_text("utf-8"))
    theirs = [hypotheses[0]["tokens"] for hypotheses in recorded["generate"]["beam4_lenpen0.6"]]
    newstest = tmp_path / "sacrebleu" / "wmt14" / "full"
    newstest.mkdir(parents=True)
    for archive in ARCHIVES:
        fairseq_archive(tmp_path / "archives" / archive)
        target = archive.split(".")[1].partition("-")[2]
        sides = {"src": plain(recorded["source_bpe"], "en"), "ref": plain(theirs, target)}
        assert sides["src"][0] == "x-ray mü rema bo?"  # Moses splits the last word
        for field in ("src", "ref", "docid", "genre", "origlang"):
            lines = sides.get(field, ["any"] * len(theirs))
            file = newstest / f"wmt14_full.en-{target}.{field}"
            file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    curl = tmp_path / "bin" / "curl"
    curl.parent.mkdir()
    curl.write_text(f'#!/bin/bash\ncp "{tmp_path}/archives/$(basename "${{@: -1}}")" .\n')
    curl.chmod(0o755)
    folders = (curl.parent, Path(sys.executable).parent)
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, folders), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("SACREBLEU", str(tmp_path / "sacrebleu"))
    monkeypatch.setenv("VASWANI_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def test_the_commands_of_the_guide(network):
    """Plain text is translated as fairseq translated its segmented text, with the search of Ott et al. (2018)."""
    guide = (ROOT / "docs" / "guide" / "published.md").read_text("utf-8")
    use, score = re.findall(r"<!-- needs the network -->\n```bash\n(.*?)```", guide, re.DOTALL)
    bash = ["bash", "-euo", "pipefail", "-c"]
    run = partial(subprocess.run, cwd=network, capture_output=True, text=True)
    scored = run([*bash, score])
    assert scored.returncode == 0, scored.stderr
    for target in ("de", "fr"):
        assert f"wmt14/full/en-{target}: 8 sentences" in scored.stdout
    names = (SACREBLEU, CHRF, PAPER_GERMAN, SACREBLEU, CHRF, PAPER)
    lines = [line.split("  ") for line in scored.stdout.splitlines() if "nrefs:1" in line]
    assert [line[1] for line in lines] == [*names]
    assert scored.stdout.count(" 100.00 ") == len(names)
    assert scored.stderr.count("Texts are tokenized by Moses") == 2
    used = run([*bash, use])
    assert used.returncode == 0 and used.stdout.strip(), used.stderr


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
