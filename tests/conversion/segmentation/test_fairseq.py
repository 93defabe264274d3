"""Texts of fairseq checkpoints: dictionaries, and what a checkpoint records of its segmentation."""

import argparse
import json
import shutil

import numpy as np
import pytest
import torch
from segmentation_texts import CODES, FILES, vocabulary

from conversion import segmentation
from conversion.files.fairseq import FairseqCheckpoint
from conversion.options import ConversionError
from conversion.segmentation.fairseq import UNRECORDED, files_in, read_dictionary
from conversion.toolkits import fairseq


def recorded(kind: str) -> tuple[list[str], list[str], dict, np.lib.npyio.NpzFile]:
    said = json.loads((FILES / "fairseq" / kind / "reference.json").read_text())
    texts = [[line.replace("@@ ", "") for line in said[f"{side}_bpe"]] for side in ("source", "reference")]
    return *texts, said, np.load(FILES / "fairseq" / kind / "reference.npz")


@pytest.mark.parametrize("kind", ["base", "tieddec"])
def test_ids_and_texts_are_those_that_fairseq_gave(kind):
    tokenizer = fairseq.convert(FILES / "fairseq" / kind, codes=CODES).tokenizer
    sources, targets, said, arrays = recorded(kind)
    batch = tokenizer(sources, text_target=targets, padding=True, return_tensors="np")
    assert (batch["input_ids"] == arrays["input_ids"]).all()
    assert (batch["attention_mask"] == arrays["attention_mask"]).all()
    expected = [row[mask == 1][1:].tolist() + [2] for row, mask in
                zip(arrays["decoder_input_ids"], arrays["decoder_attention_mask"], strict=True)]  # fmt: skip
    assert [ids[: len(e)] for ids, e in zip(batch["labels"].tolist(), expected, strict=True)] == expected
    for sentence in next(iter(said["generate"].values())):
        text = f"{sentence[0]['tokens']} ".replace("@@ ", "").rstrip()
        assert tokenizer.decode(sentence[0]["ids"], skip_special_tokens=True) == text.replace("<unk> ", "")


def test_dictionaries_may_name_words_twice(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text("the 9\na@@ 5\nthe 3 #fairseq:overwrite\n<unk> 1 #fairseq:overwrite\nmadeupword0000 0\n")
    known = read_dictionary(path, 9)
    tokenizer = segmentation.words(known).tokenizer
    assert tokenizer("the a@@ other madeupword0000").input_ids == [6, 5, 3, 8, 2]
    assert len(tokenizer) == 9
    for content, message in (
        ("the 9\nthe\n", "line 2 is not a token"),
        ("the 9\n", "does not match the model"),
        ("the 9\nthe 3\n", "line 2 repeats 'the'"),
        ("the 9\n<unk> 3\n", "line 2 repeats '<unk>'"),
    ):
        path.write_text(content)
        with pytest.raises(ConversionError, match=message):
            read_dictionary(path, 6)


def test_what_the_checkpoint_records_of_its_text_is_used(fairseq_folder):
    vocabularies = [vocabulary(["a", "b"])] * 2
    said = {"cfg": {"tokenizer": {"_name": "moses", "source_lang": "en", "target_lang": "de", "moses_no_escape": True}}}
    nothing = (None, None)
    made = fairseq.tokenizer(
        FairseqCheckpoint.from_saved(said), fairseq_folder, vocabularies, nothing, None, None, None
    ).tokenizer
    settings = {name: value for name, value in made.init_kwargs.items() if name.startswith("moses_")}
    assert not any(settings.pop(f"moses_{name}") for name in ("normalize", "clean", "escape"))
    assert settings == {"moses_source": "en", "moses_target": "de", "moses_dash_splits": True}
    shutil.copy(CODES, fairseq_folder / "other.codes")
    said = {"_name": "subword_nmt", "bpe_codes": "/data/other.codes"}
    assert files_in(fairseq_folder, "subword_nmt", said) == (fairseq_folder / "other.codes", None)
    assert files_in(fairseq_folder, None, {}) == (fairseq_folder / "bpecodes", None)
    assert files_in(FILES / "joeynmt" / "base", None, {})[1].name == "joint.model"
    said = {"cfg": {"bpe": {"_name": "gpt2"}, "tokenizer": {"_name": "nltk"}}}
    with pytest.raises(ConversionError, match=r"tokenizer='nltk' .*; bpe='gpt2'"):
        fairseq.tokenizer(FairseqCheckpoint.from_saved(said), fairseq_folder, vocabularies, nothing, None, None, None)
    with pytest.raises(ConversionError, match="Pass --languages"):
        fairseq.tokenizer(FairseqCheckpoint.from_saved({}), fairseq_folder, vocabularies, nothing, None, None, True)


def test_languages_tell_dictionaries_apart(fairseq_folder, tmp_path):
    with torch.serialization.safe_globals([argparse.Namespace]):
        saved = torch.load(fairseq_folder / "checkpoint_last.pt", weights_only=True)
    saved["cfg"]["task"]["source_lang"] = None
    torch.save(saved, tmp_path / "model.pt")
    for side in ("src", "trg"):
        shutil.copy(fairseq_folder / f"dict.{side}.txt", tmp_path)
    with pytest.raises(ConversionError, match="Pass --languages SOURCE TARGET"):
        fairseq.convert(tmp_path)
    named = fairseq.convert(tmp_path, codes=CODES, languages=("src", "trg"))
    expected = fairseq.convert(fairseq_folder).tokenizer
    assert named.tokenizer.get_vocab() == expected.get_vocab()
    assert named.tokenizer(text_target="pésa").input_ids == expected(text_target="pésa").input_ids


def test_pieces_without_what_cuts_them_are_joined():
    for pieces, option in ((["a@@", "b", "c"], "--codes"), (["\u2581a", "b", "\u2581c"], "--spm")):
        known = vocabulary(pieces)
        made = fairseq.tokenizer(
            FairseqCheckpoint.from_saved({}), FILES, (known, known), (None, None), None, None, False
        )
        assert option in made.differences[0]
        assert made.tokenizer(" ".join(pieces)).input_ids == [4, 5, 6, 2]
        assert made.tokenizer.decode([4, 5, 6, 2], skip_special_tokens=True) == "ab c"


def test_moses_is_recognised_by_its_escapes(fairseq_folder):
    """fairseq's published checkpoints record no tokenizer, and their vocabularies have Moses' escapes."""
    languages, unrecorded = ("en", "de"), FairseqCheckpoint.from_saved({"args": {}})

    def make(tokens, moses=None, checkpoint=unrecorded):
        vocabularies = [vocabulary(tokens)] * 2
        return fairseq.tokenizer(checkpoint, fairseq_folder, vocabularies, languages, None, None, moses)

    made = make(["a", "&quot;"])
    assert made.tokenizer.init_kwargs["moses_source"] == "en" and not made.tokenizer.init_kwargs["moses_dash_splits"]
    assert (
        made.differences[-1].startswith("Texts are tokenized by Moses")
        and "has &quot;. --no-moses" in made.differences[-1]
    )
    assert make(["a", "&apos;", "@-@"]).tokenizer.init_kwargs["moses_dash_splits"]
    recorded = FairseqCheckpoint.from_saved({"cfg": {"tokenizer": {"_name": "space"}}})
    note = "Input must already be tokenized by Moses: the vocabulary has &quot;."
    for plain in (make(["a", "&quot;"], moses=False), make(["a", "&quot;"], checkpoint=recorded)):
        assert "moses_source" not in plain.tokenizer.init_kwargs and plain.differences[-1] == note
    plain = make(["a", '"'])
    assert "moses_source" not in plain.tokenizer.init_kwargs and plain.differences[-1] == UNRECORDED
    assert UNRECORDED not in make(["a", '"'], moses=False).differences
