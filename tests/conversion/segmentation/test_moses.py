"""Moses before and after the subwords, with a vocabulary for each side."""

import json
import pickle
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

import pytest
import sacremoses
from segmentation_texts import CODES, FILES, piece_ids, subword_nmt_on, vocabulary
from transformers import AutoTokenizer
from typer.testing import CliRunner

from conversion import segmentation
from conversion.segmentation import MosesSettings, fairseq
from vaswani_transformer import TranslationPipeline, VaswaniTokenizer
from vaswani_transformer.commands import app


MOSES_TEXTS = ["Anna's x-ray: mü re 42?", "“bo”, shobike & ro… (1984)", "", "  düki\u00a0ma  "]


def test_moses_comes_first_and_last(fairseq_moses):
    tokenizer, bpe = fairseq_moses.tokenizer, subword_nmt_on(CODES)
    sides = [
        fairseq.read_dictionary(FILES / "fairseq" / "tieddec" / f"dict.{side}.txt", size)
        for side, size in (("src", fairseq_moses.config.vocab_size), ("trg", fairseq_moses.config.decoder_vocab_size))
    ]
    english, german = sacremoses.MosesTokenizer("en"), sacremoses.MosesTokenizer("de")
    batch = tokenizer(MOSES_TEXTS, text_target=MOSES_TEXTS)
    for ids, moses, known in ((batch.input_ids, english, sides[0]), (batch.labels, german, sides[1])):
        words = [moses.tokenize(text, aggressive_dash_splits=True, return_str=True) for text in MOSES_TEXTS]
        assert ids == [piece_ids(bpe.segment(line).split(), known) for line in words]
    ids = piece_ids("bo@@ ma &amp; ro , 42 @-@ .".split(), sides[1])
    pieces = [sides[1].tokens[i] for i in ids if i > 3]
    text = " ".join(pieces).replace("@@ ", "")
    assert tokenizer.decode(ids, skip_special_tokens=True) == sacremoses.MosesDetokenizer("de").detokenize(text.split())


def test_moses_may_escape_nothing(tmp_path):
    known = vocabulary(["&", "&amp;"])
    for escape, number in ((True, 5), (False, 4)):
        tokenizer = segmentation.words(known, moses=MosesSettings("en", "de", escape=escape)).tokenizer
        assert tokenizer("&").input_ids == [number, 2]
        tokenizer.save_pretrained(tmp_path / str(escape))
        assert VaswaniTokenizer.from_pretrained(tmp_path / str(escape))("&").input_ids == [number, 2]


@pytest.fixture(scope="module")
def moses_folder(fairseq_moses, tmp_path_factory):
    folder = tmp_path_factory.mktemp("moses") / "model"
    fairseq_moses.model().save_pretrained(folder)
    fairseq_moses.tokenizer.save_pretrained(folder)
    return folder


def test_pipeline_and_command_line_tokenize_and_put_together(moses_folder, fairseq_moses):
    model, tokenizer = fairseq_moses.model(), fairseq_moses.tokenizer
    expected = []
    for text in MOSES_TEXTS[:2]:
        best = model.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=9)[0]
        expected.append(tokenizer.decode(best, skip_special_tokens=True))
    translate = TranslationPipeline(model=model, tokenizer=AutoTokenizer.from_pretrained(moses_folder))
    assert [r["translation_text"] for r in translate(MOSES_TEXTS[:2], max_new_tokens=9, batch_size=2)] == expected
    model.generation_config.max_new_tokens = 9
    model.generation_config.save_pretrained(moses_folder)
    options = ["--checkpoint", str(moses_folder), "--device", "cpu"]
    result = CliRunner().invoke(app, ["translate", *options, *MOSES_TEXTS[:2]])
    # Without a length of the caller's own, both try suspicious translations again.
    assert result.stdout.splitlines() == [record["translation_text"] for record in translate(MOSES_TEXTS[:2])]


def test_a_lone_surrogate_is_refused(fairseq_moses):
    for texts in ("ab\ud800", ["a", "ab\ud800"]):
        with pytest.raises(ValueError, match=r"Invalid Unicode \(a lone surrogate\) at position 2 of a text"):
            fairseq_moses.tokenizer(texts)
    assert fairseq_moses.tokenizer("ab").input_ids


def test_padding_truncation_and_pairs(fairseq_moses):
    tokenizer = fairseq_moses.tokenizer
    batch = tokenizer(MOSES_TEXTS, padding=True, truncation=True, max_length=6, return_tensors="pt")
    assert batch.input_ids.shape == batch.attention_mask.shape == (4, 6)
    assert batch.input_ids[2].tolist() == [2, 1, 1, 1, 1, 1] and batch.attention_mask[2].tolist() == [1, 0, 0, 0, 0, 0]
    assert batch.input_ids[0, -1] == 2 and batch.attention_mask[0].all()
    assert tokenizer.pad({"input_ids": [[4, 2], [2]]}, padding=True)["input_ids"] == [[4, 2], [2, 1]]
    source = tokenizer("mü &").input_ids
    assert tokenizer(text_target="mü &").input_ids != source
    with pytest.raises(ValueError, match="text input must be"):
        tokenizer(text_target=3)
    assert tokenizer.tokenize("mü &") and tokenizer("mü &").input_ids == source  # sources again after an error


def test_saved_copied_pickled_and_in_threads(fairseq_moses, moses_folder, tmp_path):
    tokenizer = fairseq_moses.tokenizer
    assert {path.name for path in moses_folder.iterdir()} >= {
        "tokenizer.json", "target_tokenizer.json", "tokenizer_config.json", "tokenization_vaswani.py"
    }  # fmt: skip
    again = AutoTokenizer.from_pretrained(moses_folder)
    assert type(again) is VaswaniTokenizer
    again.save_pretrained(tmp_path / "again")
    targets, sources = tokenizer(text_target=MOSES_TEXTS).input_ids, tokenizer(MOSES_TEXTS).input_ids
    assert targets != sources
    texts = tokenizer.batch_decode(targets, skip_special_tokens=True)
    for copy in (again, AutoTokenizer.from_pretrained(tmp_path / "again"), pickle.loads(pickle.dumps(tokenizer))):
        assert copy(MOSES_TEXTS).input_ids == sources
        assert copy(text_target=MOSES_TEXTS).input_ids == targets
        assert copy.batch_decode(targets, skip_special_tokens=True) == texts
        assert (len(copy), copy.vocab_size) == (len(tokenizer), tokenizer.vocab_size)
        assert copy.get_vocab() == tokenizer.get_vocab()
    with ThreadPoolExecutor(4) as pool:
        decoded = pool.map(lambda _: again.batch_decode(targets, skip_special_tokens=True), range(40))
        encoded = [again(MOSES_TEXTS).input_ids for _ in range(40)]
    assert all(batch == texts for batch in decoded) and all(batch == sources for batch in encoded)


# For an isolated interpreter without this package; see test_remote_code.py.
SCRIPT = """
import json, sys
sys.path += [{site_packages!r}]
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "vaswani_transformer":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
from transformers import AutoTokenizer
folder, again, texts = json.loads(sys.argv[1])
AutoTokenizer.from_pretrained(folder, trust_remote_code=True).save_pretrained(again)
tokenizer = AutoTokenizer.from_pretrained(again, trust_remote_code=True)
batch = tokenizer(texts, text_target=texts)
decoded = tokenizer.batch_decode(batch["labels"], skip_special_tokens=True)
print(json.dumps([type(tokenizer).__module__, batch["input_ids"], batch["labels"], decoded]))
"""


def test_its_code_works_where_this_package_is_not_installed(moses_folder, fairseq_moses, tmp_path):
    script = SCRIPT.format(site_packages=sysconfig.get_path("purelib"))
    arguments = json.dumps([str(moses_folder), str(tmp_path / "again"), MOSES_TEXTS])
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, arguments],
        cwd=tmp_path,
        env={"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    module, *results = json.loads(result.stdout.splitlines()[-1])
    batch = fairseq_moses.tokenizer(MOSES_TEXTS, text_target=MOSES_TEXTS)
    decoded = fairseq_moses.tokenizer.batch_decode(batch.labels, skip_special_tokens=True)
    assert module.startswith("transformers_modules.")
    assert results == [batch.input_ids, batch.labels, decoded]


def test_moses_needs_its_package(fairseq_moses, monkeypatch):
    copy = pickle.loads(pickle.dumps(fairseq_moses.tokenizer))
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    copy.__dict__.pop("_moses_by_language", None)
    with pytest.raises(ImportError, match="pip install sacremoses"):
        copy("mü")
