"""transformers' MarianMTModel, beside what transformers' own model and tokenizer do, and back to MarianMTModel."""

import functools
import json
import random
import sys
from pathlib import Path

import pytest
import sentencepiece
import torch
from hub_server import Hub
from huggingface_hub import ModelCard, snapshot_download
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianConfig, MarianMTModel, MarianTokenizer

from conversion import __main__
from conversion.files import hf_folder
from conversion.options import ConversionError
from conversion.parity.recorded import compare_searches
from conversion.parity.scores import Parity
from conversion.runtimes import marian as to_marian
from conversion.toolkits import hf_marian as from_hf_marian
from vaswani_transformer import catalogue
from vaswani_transformer.learn_bpe import learn_tokenizer
from vaswani_transformer.loading import load_model
from vaswani_transformer.model.texts_vaswani import TrainingTexts


SIZES = dict(
    d_model=16, encoder_layers=2, decoder_layers=3, encoder_ffn_dim=24, decoder_ffn_dim=40,
    encoder_attention_heads=2, decoder_attention_heads=4, max_position_embeddings=64,
)  # fmt: skip
ROOT = Path(__file__).parents[3]
DOCUMENTS = ROOT / "tests" / "fixtures" / "documents"
SOURCES = (DOCUMENTS / "readme.md").read_text("utf-8").splitlines()
TARGETS = [
    "Ein Mann fährt auf einem Fahrrad durch den Park.", "Die Brücke über den Fluß wurde 1984 gebaut; sie ist schön.",
    "Könnten Sie mir bitte sagen, wo der Bahnhof ist?", "„Natürlich“, sagte er, „aber es ist ziemlich weit.“",
    "Größere Übersetzungsmodelle brauchen mehr Zeit – und mehr Geduld.", "Das kostet 3,50 € (ungefähr).",
    *(DOCUMENTS / "contributing.md").read_text("utf-8").splitlines(),
]  # fmt: skip
UNUSUAL = [
    "", " ", "  two  spaces ", "tab\there", "日本語 in English", "café & <tag> | [x]", "no\u00a0break \u200b zero",
    "ﬁn ½ ² Ⅷ", "ｆｕｌｌ　ｗｉｄｔｈ", "soft\u00adhyphen", "▁ literal ▁▁", "😀😀 Ω≈ç",
    ">>deu<< A code.", ">>deu<<", "a" * 300, "words end in space ",
]  # fmt: skip


def randomised(model: torch.nn.Module) -> torch.nn.Module:
    """Every parameter and bias random, so that a swap of two of them shows."""
    for name, parameter in [*model.named_parameters(), *model.named_buffers()]:
        if "embed_positions" not in name:
            parameter.data = parameter.data + 0.3 * torch.randn_like(parameter)
    return model.eval()


def marian(folder, safe=True, vocab_size=48, **fields) -> MarianMTModel:
    ids = dict(
        pad_token_id=vocab_size - 1, decoder_start_token_id=vocab_size - 1, eos_token_id=0, forced_eos_token_id=0
    )
    config = MarianConfig(**{**SIZES, **ids, "vocab_size": vocab_size, **fields})
    model = randomised(MarianMTModel(config))
    settings = dict(bad_words_ids=[[config.pad_token_id]], renormalize_logits=True, num_beams=4, max_length=40)
    model.generation_config.update(**settings, forced_eos_token_id=0)
    model.save_pretrained(folder)
    if not safe:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return model


@pytest.mark.parametrize(
    "fields",
    [
        {},
        dict(activation_function="swish", scale_embedding=True),
        dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=60),
        dict(share_encoder_decoder_embeddings=False, tie_word_embeddings=False),
        dict(tie_word_embeddings=False),
        dict(decoder_start_token_id=0, eos_token_id=2, pad_token_id=1),
    ],
    ids=str,
)
def test_logits_are_those_of_transformers(tmp_path, fields):
    marian(tmp_path, **fields)
    converted = from_hf_marian.convert(tmp_path)
    parity = from_hf_marian.compare_live(tmp_path, converted, converted.model())
    assert parity.holds and parity.max_difference < 2e-5


def test_pickled_weights_are_read_too(tmp_path):
    marian(tmp_path, safe=False)
    converted = from_hf_marian.convert(tmp_path)
    assert from_hf_marian.compare_live(tmp_path, converted, converted.model()).holds


def test_translations_are_those_of_transformers_by_the_settings_of_the_folder(tmp_path):
    reference = marian(tmp_path)
    model = from_hf_marian.convert(tmp_path).model()
    source = torch.randint(1, 47, (6, 9))
    assert model.generate(source).tolist() == reference.generate(source).tolist()
    assert model.generation_config.forced_eos_token_id == 0
    # The same, but for the penalty; and up to a limit, where </s> is forced.
    settings = dict(max_length=8, length_penalty=0.4, early_stopping=True)
    ours, theirs = model.generate(source, **settings), reference.generate(source, **settings)
    assert ours.tolist() == theirs.tolist() and ours[:, -1].eq(0).any()


OLD = dict(
    add_bias_logits=False, add_final_layer_norm=False, classif_dropout=0.0, extra_pos_embeddings=48, init_std=0.02,
    id2label={"0": "LABEL_0"}, normalize_before=False, normalize_embedding=False, static_position_embeddings=True,
    num_beams=6, max_length=512,
    bad_words_ids=[[47]], model_type="marian", architectures=["MarianMTModel"], num_hidden_layers=2,
    scale_embedding=True, activation_function="swish",
)  # fmt: skip


def test_the_files_of_2020(tmp_path):
    """One config.json for model and search, a pickle in half precision, with the tables of positions and each tied
    matrix three times."""
    model = marian(tmp_path, safe=False, **{name: OLD[name] for name in ("activation_function", "scale_embedding")})
    tensors = {name: tensor.half() for name, tensor in model.state_dict().items()}
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    config = json.loads((tmp_path / "config.json").read_text())
    for name in ("dtype", "tie_word_embeddings", "share_encoder_decoder_embeddings", "decoder_vocab_size"):
        config.pop(name, None)
    (tmp_path / "config.json").write_text(json.dumps({**config, **OLD}))
    (tmp_path / "generation_config.json").unlink()
    converted = from_hf_marian.convert(tmp_path)
    parity = from_hf_marian.compare_live(tmp_path, converted, converted.model())
    assert parity.holds and parity.translations_agree == 4
    generation = converted.generation
    assert (generation.num_beams, generation.max_length, generation.length_penalty) == (6, 512, 1.0)
    assert (generation.bad_words_ids, generation.length_penalty_offset) == ([[47]], 0)


def test_recorded_translations_may_have_ended_at_a_limit(tmp_path):
    """Where the recorded search forced no </s>, though the settings of the folder say so."""
    reference = marian(tmp_path)
    model = from_hf_marian.convert(tmp_path).model()
    source = torch.randint(1, 47, (6, 9))
    reference.generation_config.forced_eos_token_id = None
    translations = reference.generate(source, max_length=5)[:, 1:]
    recorded = [[{"ids": [i for i in row if i != 47]}] for row in translations.tolist()]
    assert any(0 not in sentence[0]["ids"] for sentence in recorded)
    inputs = {"input_ids": source, "attention_mask": torch.ones_like(source)}
    assert compare_searches(model, inputs, {"beam4_lenpen1.0": recorded}) == ({"same": 6}, ())
    assert model.generation_config.forced_eos_token_id == 0


def test_what_is_not_supported_is_named_at_once(tmp_path):
    marian(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= dict(model_type="bart", normalize_before=True, static_position_embeddings=False)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConversionError, match="model_type='bart'.*normalize_before=True.*static_position_embeddings"):
        from_hf_marian.convert(tmp_path)


def test_a_stored_table_of_other_positions_is_refused(tmp_path):
    model = marian(tmp_path, safe=False)
    tensors = {**model.state_dict(), "model.encoder.embed_positions.weight": torch.randn(32, 16)}
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(ConversionError, match="Unsupported positions"):
        from_hf_marian.convert(tmp_path)


def test_only_tables_of_positions_may_have_another_shape_in_the_reference(tmp_path):
    """transformers would initialise such a weight randomly."""
    marian(tmp_path)
    path, name = tmp_path / "model.safetensors", "model.decoder.layers.0.fc1.weight"
    weights = {key: value.clone() for key, value in load_file(path).items()}
    save_file(weights | {name: weights[name][:-1].clone()}, path, {"format": "pt"})
    with pytest.raises(ConversionError, match=r"decoder\.layers\.0\.fc1\.weight \[39, 16\], not \[40, 16\]"):
        hf_folder.load_reference(MarianMTModel, tmp_path)


def test_damaged_weights_are_refused(tmp_path):
    marian(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConversionError, match="damaged"):
        from_hf_marian.convert(tmp_path)


def test_a_pickle_that_asks_for_more_is_not_run(tmp_path):
    class Hostile:
        def __reduce__(self):
            return Path.touch, (tmp_path / "run",)

    marian(tmp_path, safe=False)
    torch.save({"x": Hostile()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ConversionError, match="contains more than weights"):
        from_hf_marian.convert(tmp_path)
    assert not (tmp_path / "run").exists()


class Weights(dict):
    """A state dict that `weights_only` does not know."""


def test_unsafe_weights_are_read_on_request(tmp_path):
    tensors = Weights(marian(tmp_path, safe=False).state_dict())
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    with pytest.raises(ConversionError, match="add --unsafe"):
        from_hf_marian.convert(tmp_path)
    converted = from_hf_marian.convert(tmp_path, unsafe=True)
    assert torch.equal(converted.weights["lm_head.bias"], tensors["final_logits_bias"][0])
    assert from_hf_marian.compare_live(tmp_path, converted, converted.model()) is None  # transformers refuses it


@pytest.mark.parametrize("value", ["wide", -16, None])
def test_an_impossible_configuration_is_refused(tmp_path, value):
    marian(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "d_model": value}))
    with pytest.raises(ConversionError, match="d_model"):
        from_hf_marian.convert(tmp_path)


def test_a_folder_that_transformers_did_not_write_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file or folder: .*config.json"):
        from_hf_marian.convert(tmp_path)


# Repositories -------------------------------------------------------------------------------------------------------


def pieces_of(file: Path, lines: list[str]) -> list[str]:
    """Those of a model trained on `lines`, without its special ones."""
    with file.open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([line for line in lines if line]), model_writer=writer, vocab_size=400,
            hard_vocab_limit=False, num_threads=1, minloglevel=2,
        )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [model.id_to_piece(i) for i in range(3, len(model))]


@pytest.fixture(scope="module", params=["shared", "separate"])
def repository(request, tmp_path_factory) -> Path:
    """As Helsinki-NLP's: two SentencePiece models, of which the vocabularies lack some pieces, in an order of their
    own; a language to translate into, and padding at the end."""
    folder = tmp_path_factory.mktemp(request.param)
    sides = [pieces_of(folder / f"{name}.spm", lines) for name, lines in (("source", SOURCES), ("target", TARGETS))]
    if separate := request.param == "separate":
        size = min(map(len, sides))
        sides = [pieces[:size] for pieces in sides]
    else:
        sides = [[*sides[0], *sides[1]]] * 2
    draw = random.Random(0)
    for name, side in zip(("vocab.json", "target_vocab.json"), sides, strict=True):
        kept = [piece for i, piece in enumerate(dict.fromkeys(side)) if i % 11]
        draw.shuffle(kept)
        ids = {token: i for i, token in enumerate(("</s>", "<unk>", *kept, ">>deu<<", "<pad>"))}
        if separate or name == "vocab.json":
            (folder / name).write_text(json.dumps(ids), "utf-8")
    settings = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# opus-mt\n")
    torch.manual_seed(0)
    marian(folder, vocab_size=len(ids), share_encoder_decoder_embeddings=not separate)
    return folder


@pytest.fixture(scope="module")
def converted(repository):
    return from_hf_marian.convert(repository)


def same_tokenizers(ours, theirs):
    """Texts, batches of them, translations to learn from, and what they give when decoded."""
    texts = [*SOURCES, *TARGETS, *UNUSUAL]
    for text in texts:
        assert ours(text).input_ids == theirs(text).input_ids, text
        target = theirs(text_target=text).input_ids
        assert ours(text_target=text).input_ids == target, text
        assert ours.decode(target, skip_special_tokens=True) == theirs.decode(target, skip_special_tokens=True)
    batch = [tokenizer(texts, padding=True, truncation=True, max_length=50) for tokenizer in (ours, theirs)]
    assert batch[0].input_ids == batch[1].input_ids and batch[0].attention_mask == batch[1].attention_mask
    settings = ("model_max_length", "pad_token_id", "eos_token_id", "unk_token_id", "padding_side")
    assert [getattr(ours, name) for name in settings] == [getattr(theirs, name) for name in settings]


def test_texts_are_encoded_and_put_together_as_by_marian_tokenizer(repository, converted):
    same_tokenizers(converted.tokenizer, MarianTokenizer.from_pretrained(repository))
    assert not [difference for difference in converted.facts["tokenizer_differences"] if "random" in difference]


def test_facts_are_those_of_the_card(converted):
    assert [converted.facts[name] for name in ("licence", "source_language", "target_language")] == [
        "cc-by-4.0",
        "en",
        "de",
    ]


def test_the_command_converts_model_and_tokenizer(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["conversion", "hf-marian", str(repository), str(tmp_path / "out")])
    __main__.main()
    assert "4 of 4 translations the same" in capsys.readouterr().out
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out", trust_remote_code=True)
    reference, theirs = MarianMTModel.from_pretrained(repository), MarianTokenizer.from_pretrained(repository)
    texts = dict(text=SOURCES[:4], return_tensors="pt", padding=True, truncation=True, max_length=60)
    wanted = theirs.batch_decode(reference.generate(**theirs(**texts)), skip_special_tokens=True)
    assert tokenizer.batch_decode(model.generate(**tokenizer(**texts)), skip_special_tokens=True) == wanted


def test_a_tokenizer_in_part_or_of_another_model_is_refused(repository, tmp_path):
    for name in ("source.spm", "vocab.json"):
        (tmp_path / name).write_bytes((repository / name).read_bytes())
    marian(tmp_path, vocab_size=30)
    with pytest.raises(FileNotFoundError, match="missing in .*: target.spm"):
        from_hf_marian.convert(tmp_path)
    (tmp_path / "target.spm").write_bytes((repository / "target.spm").read_bytes())
    with pytest.raises(ConversionError, match="which has ids 0 to 29. Tokens with other ids: "):
        from_hf_marian.convert(tmp_path)
    (tmp_path / "target.spm").write_bytes(b"damaged")
    with pytest.raises(ConversionError, match="Cannot read the tokenizer in"):
        from_hf_marian.convert(tmp_path)


def test_a_repository_is_named_by_its_id(repository, converted, tmp_path, monkeypatch):
    files = {file.name: file.read_bytes() for file in repository.iterdir()}
    with Hub() as hub:
        hub.repos["Helsinki-NLP/opus-mt-en-de"] = repo = {"private": False, "refs": {}, "commits": {}}
        hub.commit(repo, "main", {**files, "tf_model.h5": b"of another framework"}, None)
        download = functools.partial(snapshot_download, endpoint=hub.url, cache_dir=tmp_path, token=False)
        monkeypatch.setattr("huggingface_hub.snapshot_download", download)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        downloaded = from_hf_marian.convert(Path("Helsinki-NLP/opus-mt-en-de"))
        assert not hub.asked(".*tf_model") and downloaded.facts["repository"] == "Helsinki-NLP/opus-mt-en-de"
        with pytest.raises(ConversionError, match="no such repository on the Hub"):
            from_hf_marian.convert(Path("Helsinki-NLP/opus-mt-en-xx"))
        hub.shutdown()
    assert all(torch.equal(downloaded.weights[name], tensor) for name, tensor in converted.weights.items())


# Back to MarianMTModel ----------------------------------------------------------------------------------------------


OURS = dict(
    position_layout="concatenated", layer_norm_eps=1e-5, zero_pad_embedding=False, position_divisor="half"
)  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        {},
        dict(attention_bias=True, softmax_bias=True),
        dict(feed_forward_bias=False, share_embeddings="target", decoder_vocab_size=40),
        dict(share_embeddings="none", zero_pad_embedding=True, decoder_d_ff=56, scale_embedding=False),
    ],
    ids=str,
)
def test_a_model_of_ours_is_the_same_as_a_marian_model(tmp_path, tiny_model, fields):
    ours = tiny_model(**{**OURS, **fields})
    ours.save_pretrained(tmp_path / "ours")
    to_marian.export(str(tmp_path / "ours"), tmp_path / "out")
    theirs = MarianMTModel.from_pretrained(tmp_path / "out").eval()
    source, target = torch.randint(2, 40, (3, 9)), torch.randint(2, 40, (3, 7))
    target[:, 0] = 0
    mask = torch.ones_like(source)
    mask[0, 5:] = 0
    with torch.no_grad():
        wanted = ours(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
        logits = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
    torch.testing.assert_close(logits, wanted, atol=1e-5, rtol=1e-5)


def test_there_and_back_again(repository, converted, tmp_path):
    converted.model().save_pretrained(tmp_path / "ours")
    converted.tokenizer.save_pretrained(tmp_path / "ours")
    to_marian.export(str(tmp_path / "ours"), tmp_path / "out")
    first, second = (MarianMTModel.from_pretrained(folder) for folder in (repository, tmp_path / "out"))
    changed = [
        name for name, tensor in first.state_dict().items() if not torch.equal(tensor, second.state_dict()[name])
    ]
    assert all("embed_positions" in name for name in changed)  # the tables end elsewhere, that is all
    source = torch.randint(2, 100, (3, 9))
    assert first.generate(source).tolist() == second.generate(source).tolist()
    tokenizer = MarianTokenizer.from_pretrained(tmp_path / "out")
    assert isinstance(AutoTokenizer.from_pretrained(tmp_path / "out"), MarianTokenizer)
    same_tokenizers(tokenizer, MarianTokenizer.from_pretrained(repository))
    names = ("vocab.json", "target_vocab.json") if tokenizer.separate_vocabs else ("vocab.json",)
    for name in names:
        written, wanted = (json.loads((folder / name).read_text("utf-8")) for folder in (tmp_path / "out", repository))
        assert written == wanted


def test_a_tokenizer_of_another_kind_stays_as_it_is(tmp_path, tiny_model, capsys):
    tiny_model(**OURS).save_pretrained(tmp_path / "ours")
    tokenizer = learn_tokenizer(SOURCES, vocab_size=300)
    tokenizer.save_pretrained(tmp_path / "ours")
    to_marian.export(str(tmp_path / "ours"), tmp_path / "out")
    assert "keeping tokenizer.json" in capsys.readouterr().out
    text = "Ein Mann"
    assert AutoTokenizer.from_pretrained(tmp_path / "out")(text).input_ids == tokenizer(text).input_ids


def test_everything_that_marian_cannot_represent_is_named(tmp_path, tiny_model):
    model = tiny_model(norm_position="pre", position_offset=2, position_divisor="half_minus_one", d_k=4, d_v=8)
    model.save_pretrained(tmp_path / "ours")
    with pytest.raises(ConversionError) as error:
        to_marian.export(str(tmp_path / "ours"), tmp_path / "out")
    for name in ("norm_position", "decoder_norm_position", "position_offset", "position_divisor", "position_layout",
                 "layer_norm_eps", "d_k", "zero_pad_embedding"):  # fmt: skip
        assert name in str(error.value)
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_where_the_result_differs(tmp_path, tiny_model, monkeypatch):
    tiny_model(**OURS).save_pretrained(tmp_path / "ours")
    other = Parity("transformers", 1, 1, 1.0, True)
    monkeypatch.setattr(to_marian, "compare_models", lambda *arguments: other)
    with pytest.raises(ConversionError, match="differs from ours"):
        to_marian.export(str(tmp_path / "ours"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_different_readings_of_codes_and_special_tokens_are_reported(repository, converted):
    theirs = MarianTokenizer.from_pretrained(repository)
    for text, word in ((">>xyz<< A code.", "code"), ("A >>deu<< code.", "code"), ("An </s> end.", "special token")):
        assert converted.tokenizer(text).input_ids != theirs(text).input_ids
        assert any(word in difference for difference in converted.facts["tokenizer_differences"])


def test_ids_of_tokens_are_ids_of_the_model(converted):
    tokens = converted.tokenizer.tokenize("Zebra xylophone 1984")
    ids = converted.tokenizer.convert_tokens_to_ids(tokens)
    assert max(ids) < converted.config.vocab_size and converted.tokenizer.unk_token_id in ids


@pytest.mark.parametrize(
    "fields",
    [
        {"eos_token_id": -1},
        {"eos_token_id": []},
        {"pad_token_id": None},
        {"encoder_layers": 10**9},
        {"architectures": 5},
        {"dtype": "x"},
    ],
    ids=str,
)
def test_impossible_values_are_refused(tmp_path, fields):
    marian(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | fields
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConversionError):
        from_hf_marian.convert(tmp_path)


def test_positions_of_a_width_that_no_memory_holds_are_not_computed(tmp_path):
    model = marian(tmp_path, safe=False)
    tensors = {**model.state_dict(), "model.encoder.embed_positions.weight": torch.zeros(32, 16)}
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    config = json.loads((tmp_path / "config.json").read_text()) | {"d_model": 10**12}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConversionError, match="d_model is 1000000000000; it must be at most 65536"):
        from_hf_marian.convert(tmp_path)


@pytest.mark.parametrize("card", ["---\nlicense: [\n---\n", "---\nlicense: [a, b]\n---\n", "---\n- a\n---\n"])
def test_a_card_that_cannot_be_read_names_no_licence(tmp_path, card):
    marian(tmp_path)
    (tmp_path / "README.md").write_text(card)
    assert from_hf_marian.convert(tmp_path).facts["licence"] is None


def test_settings_of_search_in_old_files_are_all_read(tmp_path):
    marian(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text()) | {"num_beams": 4, "forced_bos_token_id": 7}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert from_hf_marian.convert(tmp_path).generation.forced_bos_token_id == 7


@pytest.mark.parametrize(
    "name, card, expected",
    [
        ("opus-mt-en-de", "", ("en", "de")),
        ("opus-mt-tc-big-en-fr", "---\nlanguage: [fr, en]\n---\n", ("en", "fr")),
        ("model", "---\nlanguage:\n- en\n- de\nlicense: mit\n---\n", ("en", "de")),
        ("opus-mt-en-ROMANCE", "---\nlanguage: [en, fr, it]\n---\n", None),
        ("model", "---\nlanguage: en\n---\n", None),
        ("model", "", None),
    ],
)
def test_the_languages_are_those_of_the_name_or_the_card(tmp_path, name, card, expected):
    """Also where the folder has no tokenizer, which may record them. `serve` and the pipeline read about.json."""
    (tmp_path / name).mkdir()
    marian(tmp_path / name)
    (tmp_path / name / "README.md").write_text(card)
    __main__.main(["hf-marian", str(tmp_path / name), str(tmp_path / "out")])
    about = catalogue.read_about(tmp_path / "out")
    assert (about and (about.source_language, about.target_language)) == expected
    metadata = ModelCard.load(tmp_path / "out" / "README.md").data
    assert (metadata.get("language") and tuple(metadata.get("language"))) == expected
    if expected:
        assert TrainingTexts.from_model(load_model(tmp_path / "out")).source_language == expected[0]
        assert about.licence == ("mit" if "mit" in card else "") and about.parameters > 0


def test_only_single_languages_are_recorded():
    assert hf_folder.languages("en", "de") == {"source_language": "en", "target_language": "de"}
    assert hf_folder.languages("mul", "de") == {"target_language": "de"}
