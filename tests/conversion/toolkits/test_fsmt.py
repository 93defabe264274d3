"""transformers' FSMT, beside what transformers' own model and tokenizer do."""

import json
import random
import sys
from pathlib import Path

import pytest
import sacremoses
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    FSMTConfig,
    FSMTForConditionalGeneration,
    FSMTTokenizer,
)

from conversion import __main__
from conversion.options import ConversionError
from conversion.toolkits import fsmt as from_fsmt


SIZES = dict(
    d_model=16, encoder_layers=2, decoder_layers=3, encoder_ffn_dim=24, decoder_ffn_dim=40,
    encoder_attention_heads=2, decoder_attention_heads=4, max_position_embeddings=32,
)  # fmt: skip
ROOT = Path(__file__).parents[3]
DOCUMENTS = ROOT / "tests" / "fixtures" / "documents"
ENGLISH = [
    line for name in ("readme", "contributing") for line in (DOCUMENTS / f"{name}.md").read_text("utf-8").splitlines()
]
GERMAN = [
    "Ein Mann fährt auf einem Fahrrad durch den Park.", "Die Brücke über den Fluß wurde 1984 gebaut; sie ist schön.",
    "Könnten Sie mir bitte sagen, wo der Bahnhof ist?", "\"Natürlich\", sagte er, \"aber es ist ziemlich weit.\"",
    "Größere Übersetzungsmodelle brauchen mehr Zeit – und mehr Geduld.", "Das kostet 3,50 € (ungefähr).",
]  # fmt: skip
UNUSUAL = [
    "", " ", "  two  spaces ", "日本語 in English", "café & <tag> | [x] 'quoted' \"so\"", "well-known e-mails",
    "“Curly” ‘quotes’ – dashes — and…", "Mr. Smith's 1,000.50 km/h", "U.S.A. vs. the U.K.", "no\u00a0break",
    "naïve ﬁn ½ ²",
]  # fmt: skip


def randomised(model: torch.nn.Module) -> torch.nn.Module:
    """Every parameter random, so that a swap of two of them shows."""
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            parameter.data = parameter.data + 0.3 * torch.randn_like(parameter)
    return model.eval()


def fsmt(folder: Path, **fields) -> FSMTForConditionalGeneration:
    config = FSMTConfig(**{**SIZES, "src_vocab_size": 48, "tgt_vocab_size": 48, **fields})
    model = randomised(FSMTForConditionalGeneration(config))
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    """As on the Hub: one list of merges, and vocabularies of source and target that lack some pieces."""
    folder = tmp_path_factory.mktemp("fsmt")
    trained = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    moses = sacremoses.MosesTokenizer("en")
    words = [moses.tokenize(line, aggressive_dash_splits=True, return_str=True) for line in [*ENGLISH, *GERMAN]]
    trainer = trainers.BpeTrainer(vocab_size=400, end_of_word_suffix="</w>", show_progress=False)
    trained.train_from_iterator(words, trainer)
    model = json.loads(trained.to_str())["model"]
    (folder / "merges.txt").write_text("".join(f"{a} {b} 7\n" for a, b in model["merges"]), "utf-8")
    pieces, sizes = sorted(model["vocab"]), {}
    for name, kept in (("src", pieces[::-1]), ("tgt", [p for i, p in enumerate(pieces) if i % 9])):
        kept = [piece for i, piece in enumerate(kept) if i % 13]
        ids = {token: i for i, token in enumerate(("<s>", "<pad>", "</s>", "<unk>", *kept))}
        (folder / f"vocab-{name}.json").write_text(json.dumps(ids), "utf-8")
        sizes[f"{name}_vocab_size"] = len(ids)
    (folder / "tokenizer_config.json").write_text(json.dumps({"langs": ["en", "de"], "model_max_length": 1024}))
    torch.manual_seed(0)
    fsmt(folder, **sizes)
    return folder


@pytest.mark.parametrize(
    "fields",
    [
        dict(tgt_vocab_size=40, pad_token_id=3),
        dict(tie_word_embeddings=True, activation_function="gelu", scale_embedding=False),
    ],
    ids=str,
)
def test_logits_and_translations_are_those_of_transformers(tmp_path, fields):
    reference = fsmt(tmp_path, **fields)
    converted = from_fsmt.convert(tmp_path)
    model = converted.model()
    parity = from_fsmt.compare_live(tmp_path, converted, model)
    assert parity.holds and parity.max_difference < 2e-5 and parity.translations == 4
    # Its own settings: 5 beams.
    source, pad = torch.randint(4, 40, (6, 9)), reference.config.pad_token_id
    theirs = reference.generate(source, max_new_tokens=12, bad_words_ids=[[pad]], renormalize_logits=True)
    ours = model.generate(source, max_new_tokens=12)
    assert model.generation_config.num_beams == 5
    assert ours.tolist() == theirs.tolist()


def test_files_that_keep_the_output_matrix_once(tmp_path):
    config = FSMTConfig(**SIZES, src_vocab_size=48, tgt_vocab_size=40)
    tensors = randomised(FSMTForConditionalGeneration(config)).state_dict()
    del tensors["model.decoder.output_projection.weight"]
    config.save_pretrained(tmp_path)
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    converted = from_fsmt.convert(tmp_path)
    assert converted.config.share_embeddings == "target"
    assert from_fsmt.compare_live(tmp_path, converted, converted.model()).holds


def test_other_positions_are_refused(tmp_path):
    tensors = fsmt(tmp_path).state_dict()
    (tmp_path / "model.safetensors").unlink()
    tensors["model.encoder.embed_positions.weight"] = torch.randn(32, 16)
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(ConversionError, match="Unsupported positions"):
        from_fsmt.convert(tmp_path)


def test_another_model_is_refused(tmp_path):
    fsmt(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "bart"}))
    with pytest.raises(ConversionError, match="model_type='bart'"):
        from_fsmt.convert(tmp_path)


def test_texts_are_encoded_and_put_together_as_by_fsmt_tokenizer(repository):
    theirs, converted = FSMTTokenizer.from_pretrained(repository), from_fsmt.convert(repository)
    ours = converted.tokenizer
    texts = [*ENGLISH, *GERMAN, *UNUSUAL, "co\u00adoperate\tnow\u200b", "（全角）：！", "a\x00b\x1fc"]
    for text in texts:
        assert ours(text).input_ids == theirs(text).input_ids, text
    draw = random.Random(0)
    for _ in range(200):
        ids = [2, *draw.choices(range(4, theirs.tgt_vocab_size), k=draw.randint(1, 20)), 2, 1]
        assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)
    assert converted.facts["tokenizer_differences"] == []
    assert (ours.model_max_length, ours.pad_token_id, ours.eos_token_id) == (1024, 1, 2)


def test_the_command_converts_model_and_tokenizer(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["conversion", "fsmt", str(repository), str(tmp_path / "out")])
    __main__.main()
    assert "FSMT: largest difference" in capsys.readouterr().out
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out", trust_remote_code=True)
    reference, theirs = (
        FSMTForConditionalGeneration.from_pretrained(repository),
        FSMTTokenizer.from_pretrained(repository),
    )
    for text in ENGLISH[:3]:
        settings = dict(max_new_tokens=10, bad_words_ids=[[1]], renormalize_logits=True)
        wanted = reference.generate(**theirs(text, return_tensors="pt"), **settings)
        translations = model.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=10)
        wanted, translations = (
            t.batch_decode(x, skip_special_tokens=True) for t, x in ((theirs, wanted), (tokenizer, translations))
        )
        assert translations == wanted
