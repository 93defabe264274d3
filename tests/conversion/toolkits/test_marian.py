"""Marian's own models: what Marian 1.12.42 printed for them stands beside each fixture, the score of every word."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
import yaml
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from conversion import __main__
from conversion.files import marian as marian_files
from conversion.hub.repository import write
from conversion.options import ConversionError
from conversion.parity import marian as parity
from conversion.toolkits import marian as from_marian


FIXTURES = Path(__file__).parents[2] / "fixtures" / "marian"
# gelu has a wider decoder feed-forward, three matrices for embeddings and no output bias besides; untied has a tied
# layer; nopos has neither positions nor, therefore, scaled embeddings; shared has two layers twice each.
MODELS = ("opus", "gelu", "untied", "nopos", "shared")


@pytest.fixture
def folder(tmp_path) -> Path:
    """A copy of a model that a test may change, without Marian's settings of training."""
    copy = tmp_path / "model"
    shutil.copytree(FIXTURES / "untied", copy)
    return copy


def change(folder: Path, tensors=lambda tensors: None, **options):
    """Rewrites the model with other options or tensors."""
    with np.load(folder / "model.npz") as file:
        arrays = dict(file)
    said = yaml.safe_load(arrays.pop("special:model.yml").tobytes().rstrip(b"\0"))
    said.update({name.replace("_", "-"): value for name, value in options.items()})
    tensors(arrays)
    text = np.frombuffer(yaml.safe_dump(said).encode() + b"\0", dtype=np.int8)
    np.savez(folder / "model.npz", **arrays, **{"special:model.yml": text})


@pytest.mark.parametrize("name", MODELS)
def test_every_word_has_marians_log_probability_and_the_searches_find_the_same(name):
    converted = from_marian.convert(FIXTURES / name)
    parity = from_marian.compare_live(FIXTURES / name, converted, converted.model())
    assert parity.max_difference < 2e-5  # Marian prints five decimals
    assert parity.positions > 100 and parity.translations >= 6
    assert parity.holds


def test_a_translation_may_be_empty(folder):
    """As Marian's own may."""
    generation = from_marian.convert(folder).generation
    assert not generation.min_new_tokens and not generation.min_length


@pytest.mark.parametrize(
    "field", [dict(layer_norm_eps=1e-2), dict(position_divisor="half"), dict(position_layout="interleaved")]
)
def test_another_convention_is_seen_in_the_scores(field):
    converted = from_marian.convert(FIXTURES / "opus")
    converted.config.update(field)
    parity = from_marian.compare_live(FIXTURES / "opus", converted, converted.model())
    assert parity.max_difference > 1e-4 and not parity.holds


def test_padding_has_probability_zero_and_no_embedding():
    converted = from_marian.convert(FIXTURES / "opus")
    model, pad = converted.model(), converted.config.pad_token_id
    logits = model(input_ids=torch.tensor([[5, 6, 0]]), decoder_input_ids=torch.tensor([[pad, 7]])).logits
    assert logits.softmax(dim=-1)[..., pad].eq(0).all()
    assert pad == 120 and model.model.shared.weight[pad].eq(0).all()


def test_settings_of_search_and_training_are_marians():
    converted = from_marian.convert(FIXTURES / "opus")
    assert (converted.config.dropout, converted.config.label_smoothing) == (0.05, 0.1)
    assert converted.generation.suppress_tokens == [1]
    generation = from_marian.convert(FIXTURES / "gelu").generation
    assert (generation.num_beams, generation.length_penalty, generation.length_penalty_offset) == (6, 0.6, 0)


def test_vocabularies_of_two_sizes(folder):
    def shorten(arrays):
        arrays["encoder_Wemb"] = arrays["encoder_Wemb"][:100]

    change(folder, shorten, dim_vocabs=[100, 120])
    config = from_marian.convert(folder).config
    assert config.vocab_size == config.decoder_vocab_size == 121  # one id is padding on both sides


def test_an_absent_output_projection_is_the_identity(folder):
    def drop(arrays):
        for name in [name for name in arrays if name.endswith(("_Wo", "_bo"))]:
            del arrays[name]

    change(folder, drop, transformer_no_projection=True)
    model = from_marian.convert(folder).model()
    projection = model.model.encoder.layers[0].self_attn.out_proj
    x = torch.randn(3, 16)
    assert torch.equal(projection(x), x)


def test_old_models_keep_the_output_matrix_untransposed(folder):
    before = from_marian.convert(folder).weights["lm_head.weight"]

    def transpose(arrays):
        arrays["decoder_ff_logit_out_W"] = arrays.pop("decoder_ff_logit_out_Wt").T

    change(folder, transpose)
    assert torch.equal(from_marian.convert(folder).weights["lm_head.weight"], before)


def test_everything_unsupported_is_named_at_once(folder):
    options = dict(
        transformer_preprocess="n", transformer_postprocess="dar", transformer_postprocess_emb="nd",
        transformer_postprocess_top="an", transformer_ffn_activation="mish", transformer_decoder_autoreg="rnn",
        transformer_ffn_depth=3, transformer_attention_mask="alibi", input_types=["sequence", "class"],
        right_left=True, lemma_dim_emb=8,
    )  # fmt: skip
    change(folder, **options)
    with pytest.raises(ConversionError) as error:
        from_marian.convert(folder)
    for name in options:
        assert name.replace("_", "-") in str(error.value)


def test_trained_positions_are_refused(folder):
    change(folder, lambda arrays: arrays.update(Wpos=np.ones((50, 16), dtype=np.float32)))
    with pytest.raises(ConversionError, match="trained positions"):
        from_marian.convert(folder)


@pytest.mark.parametrize(
    "version, given, expected",
    [("v1.11.0", None, "quick_gelu"), ("v1.12.42", None, "gelu"), ("v1.12.0", "sigmoid", "quick_gelu")],
)
def test_gelu_is_what_the_version_computed(folder, version, given, expected):
    change(folder, transformer_ffn_activation="gelu", version=version)
    assert from_marian.convert(folder, gelu=given).config.activation_function == expected


def test_gelu_of_a_version_in_between_must_be_named(folder):
    change(folder, transformer_ffn_activation="gelu", version="v1.12.0")
    with pytest.raises(ConversionError, match="--gelu"):
        from_marian.convert(folder)


def test_a_tensor_too_many_or_too_few_is_named(folder):
    def exchange(arrays):
        arrays["encoder_l1_self_Wx"] = arrays.pop("encoder_l1_self_Wq")

    change(folder, exchange)
    with pytest.raises(
        ConversionError, match="encoder_l1_self_Wq is missing.*encoder_l1_self_Wx is not part of this model"
    ):
        from_marian.convert(folder)


@pytest.mark.parametrize("kept", [0, 100, 5000])
def test_damaged_files_are_refused(folder, kept):
    whole = (folder / "model.npz").read_bytes()
    (folder / "model.npz").write_bytes(whole[:kept])
    with pytest.raises(ConversionError, match="model.npz is damaged or not a .npz"):
        from_marian.convert(folder)


def test_a_pickle_inside_is_not_loaded(folder):
    class Hostile:
        def __reduce__(self):
            return Path.touch, (folder / "run",)

    np.savez(folder / "model.npz", x=np.array([Hostile()], dtype=object))
    with pytest.raises(ConversionError, match="damaged or not a .npz"):
        from_marian.convert(folder)
    assert not (folder / "run").exists()


def test_words_that_yaml_takes_for_other_things_stay_words(tmp_path):
    (tmp_path / "vocab.yml").write_text("</s>: 0\n<unk>: 1\nno: 2\n1984: 3\n~: 4\n", encoding="utf-8")
    assert marian_files.read_vocabulary(tmp_path / "vocab.yml").tokens == ["</s>", "<unk>", "no", "1984", "~"]


def test_texts_are_cut_by_the_sentencepiece_model_beside_the_vocabulary():
    converted = from_marian.convert(FIXTURES / "opus")
    said = json.loads((FIXTURES / "opus" / "reference.json").read_text("utf-8"))
    cutter = sentencepiece.SentencePieceProcessor(model_file=str(FIXTURES / "opus" / "joint.model"))
    ids = {token: i for i, token in enumerate(converted.vocabularies[0].tokens)}
    for line in said["source_pieces"]:  # what Marian was given
        text = cutter.decode(line.split())
        assert converted.tokenizer(text).input_ids == [*(ids[piece] for piece in line.split()), 0]
        assert converted.tokenizer.decode(converted.tokenizer(text).input_ids, skip_special_tokens=True) == text
    padded = converted.tokenizer([text, "b"], padding=True)
    assert padded.input_ids[1][-1] == converted.config.pad_token_id == 120 and padded.attention_mask[1][-1] == 0


def test_a_release_of_opus_mt_is_found_by_its_decoder_yml(tmp_path):
    opus = FIXTURES / "opus"
    names = {
        "model.npz": "opus.spm32k-spm32k.transformer-align.model1.npz.best-perplexity.npz",
        "opus.spm.vocab.yml": "opus.spm32k-spm32k.vocab.yml",
        "joint.model": "source.spm",
    }
    for name, released in names.items():
        shutil.copy(opus / name, tmp_path / released)
    shutil.copy(opus / "joint.model", tmp_path / "target.spm")
    model, vocabulary, _ = names.values()
    settings = dict(models=[model], vocabs=[vocabulary] * 2, normalize=1, allow_unk=True) | {"beam-size": 12}
    (tmp_path / "decoder.yml").write_text(json.dumps(settings).replace("_", "-"))
    converted, wanted = from_marian.convert(tmp_path), from_marian.convert(opus)
    generation = converted.generation
    assert (generation.num_beams, generation.length_penalty, generation.suppress_tokens) == (12, 1.0, None)
    assert all(torch.equal(converted.weights[name], tensor) for name, tensor in wanted.weights.items())
    assert converted.tokenizer("bo ta mi lübo").input_ids == wanted.tokenizer("bo ta mi lübo").input_ids


def test_vocabularies_that_are_sentencepiece_models_cut_texts(folder):
    shutil.copy(FIXTURES / "opus" / "joint.model", folder / "vocab.spm")
    converted = from_marian.convert(folder, vocabs=[folder / "vocab.spm"])
    cutter = sentencepiece.SentencePieceProcessor(model_file=str(folder / "vocab.spm"))
    ids = cutter.encode("bo ta mi lübo xyz 1984 .")
    assert converted.tokenizer("bo ta mi lübo xyz 1984 .").input_ids == [*(i if i < 120 else 0 for i in ids), 2]
    assert (converted.config.eos_token_id, converted.generation.suppress_tokens) == (2, [0])


def test_byte_pair_codes_of_source_and_target_cut_texts(folder):
    tokens = ["</s>", "<unk>", "ab@@", "abc", "c", "a@@", "b"]
    vocabulary = {token: i for i, token in enumerate([*tokens, *(f"w{i}" for i in range(113))])}
    (folder / "vocab.yml").write_text(json.dumps(vocabulary), "utf-8")
    (folder / "source.bpe").write_text("#version: 0.2\na b\nab c</w>\n")
    (folder / "target.bpe").write_text("#version: 0.2\na b\n")
    tokenizer = from_marian.convert(folder).tokenizer
    assert tokenizer("abc ab").input_ids == [3, 5, 6, 0]
    assert tokenizer(text_target="abc ab").input_ids == [2, 4, 5, 6, 0]
    assert tokenizer.decode([2, 4, 5, 6, 0], skip_special_tokens=True) == "abc ab"


def test_without_them_texts_come_in_pieces(folder):
    converted = from_marian.convert(folder)
    tokens = converted.vocabularies[0].tokens[2:9]
    assert converted.tokenizer(" ".join(tokens)).input_ids == [*range(2, 9), 0]
    assert (
        converted.tokenizer.decode([*range(2, 9), 0], skip_special_tokens=True)
        == "".join(tokens).replace("▁", " ").strip()
    )
    assert any("--spm" in difference for difference in converted.facts["tokenizer_differences"])


def test_a_file_that_was_named_must_be_there(folder):
    with pytest.raises(FileNotFoundError, match="no.spm"):
        from_marian.convert(folder, spm=[folder / "no.spm"])


def test_the_command_converts_model_and_tokenizer(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["conversion", "marian", str(FIXTURES / "opus"), str(tmp_path / "out")])
    __main__.main()
    assert "6 of 6 translations the same" in capsys.readouterr().out
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    said = json.loads((FIXTURES / "opus" / "reference.json").read_text("utf-8"))
    name = next(name for name in said if name.startswith("beam4"))
    number, best, *_ = said[name][0].split(" ||| ")
    text = "".join(said["source_pieces"][int(number)].split()).replace("▁", " ")
    inputs = tokenizer(text, return_tensors="pt")
    translations = model.generate(**inputs, num_beams=4, length_penalty=0.6, max_new_tokens=40)
    assert (
        tokenizer.decode(translations[0], skip_special_tokens=True) == best.replace(" ", "").replace("▁", " ").strip()
    )


@pytest.mark.parametrize("settings", ["normalize: high", "- a\n- b", "normalize: [", "beam-size: many"])
def test_settings_of_the_decoder_that_cannot_be_are_refused(folder, settings):
    (folder / "model.npz.decoder.yml").write_text(f"{settings}\n", encoding="utf-8")
    with pytest.raises(ConversionError):
        from_marian.convert(folder, vocabs=[folder / "vocab.yml"])


def test_a_text_of_tokens_has_one_on_each_line(tmp_path):
    (tmp_path / "vocab.txt").write_bytes("</s>\n<unk>\na\u2028b\nc\r\n".encode())
    words = marian_files.read_vocabulary(tmp_path / "vocab.txt")
    assert (list(words.tokens), words.eos, words.unk) == (["</s>", "<unk>", "a\u2028b", "c"], 0, 1)


@pytest.mark.parametrize(
    "text", ["</s>: 0\n<unk>: -1", "</s>: 0\n<unk>: 99999999999", "</s>: a", "", "- a", "a: 0\nb: 1"]
)
def test_what_is_no_vocabulary_is_refused(tmp_path, text):
    (tmp_path / "vocab.yml").write_text(text)
    with pytest.raises(ConversionError, match="is not a"):
        marian_files.read_vocabulary(tmp_path / "vocab.yml")


def test_missing_and_factored_vocabularies_are_refused(folder):
    (folder / "vocab.yml").unlink()
    with pytest.raises(FileNotFoundError, match="vocab.yml.*--vocabs"):
        from_marian.convert(folder)
    (folder / "vocab.fsv").touch()
    with pytest.raises(ConversionError, match="factors"):
        from_marian.convert(folder, vocabs=[folder / "vocab.fsv"])


def test_ensembles_are_refused(folder):
    (folder / "decoder.yml").write_text("models: [a.npz, b.npz]\n", encoding="utf-8")
    with pytest.raises(ConversionError, match="ensemble of 2"):
        from_marian.convert(folder)


def test_a_translation_that_differs_is_seen():
    converted = from_marian.convert(FIXTURES / "opus")
    said = json.loads((FIXTURES / "opus" / "reference.json").read_text(encoding="utf-8"))
    ids = {token: i for i, token in enumerate(converted.vocabularies[0].tokens)}
    line = said["greedy_nbest"][0].replace(" ▁ ?", " ▁ !")
    model = converted.model()
    result = parity.compare_lists(model, said["source_pieces"], {"greedy_nbest": [line]}, [ids, ids], "Marian")
    assert not result.best_tokens_agree and not result.holds


def test_tokens_without_an_embedding_are_unknown(folder):
    """Marian cuts a vocabulary off at dim-vocabs, each side's at its own."""

    def shorten(arrays):
        arrays["encoder_Wemb"] = arrays["encoder_Wemb"][:100]

    change(folder, shorten, dim_vocabs=[100, 120])
    converted = from_marian.convert(folder)
    words = converted.vocabularies[0]
    assert converted.tokenizer(f"{words.tokens[99]} {words.tokens[110]}").input_ids == [99, words.unk, words.eos]
    assert converted.tokenizer(text_target=words.tokens[110]).input_ids == [110, words.eos]


def test_greedy_search_can_be_written(folder, tmp_path):
    (folder / "model.npz.decoder.yml").write_text("beam-size: 1\nnormalize: 0.6\n")
    converted = from_marian.convert(folder, vocabs=[folder / "vocab.yml"])
    write(converted, converted.model(), [], tmp_path / "out")
    assert (tmp_path / "out" / "generation_config.json").is_file()


@pytest.mark.parametrize(
    "options",
    [{"enc_depth": 10**9}, {"dim_emb": 10**12}, {"dim_vocabs": 5}, {"input_types": 5}, {"transformer_tied_layers": 5}],
    ids=str,
)
def test_options_that_cannot_be_are_refused(folder, options):
    change(folder, **options)
    with pytest.raises(ConversionError):
        from_marian.convert(folder)


def test_a_sentencepiece_model_without_an_end_is_no_vocabulary(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e"] * 9), model_prefix=str(tmp_path / "vocab"), vocab_size=12, eos_id=-1,
        hard_vocab_limit=False, num_threads=1, minloglevel=2,
    )  # fmt: skip
    with pytest.raises(ConversionError, match="</s> is missing"):
        marian_files.read_vocabulary(tmp_path / "vocab.model")
