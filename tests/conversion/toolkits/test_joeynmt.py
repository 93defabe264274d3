"""Checkpoints that JoeyNMT 2.3.0, 2.1.0 and 1.5.1 wrote, and variants of them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from conversion import __main__ as command
from conversion.hub.repository import write
from conversion.options import ConversionError
from conversion.parity.recorded import compare_recorded
from conversion.toolkits.joeynmt import WEIGHTS, convert


FILES = Path(__file__).parents[2] / "fixtures" / "joeynmt"
KINDS = ["base", "tiedsoftmax"]  # trained; with translations
# Of random weights. What `layer_norm` and `activation` mean where they are unset changed between versions.
VERSIONS = ["unset_2.3.0", "prenorm_gelu_2.3.0", "unset_2.1.0", "unset_1.5.1"]
# The texts behind the ids that JoeyNMT recorded.
SOURCES = (
    "x-ray mü rema bo ?",
    "rülü x-ray ba make Anna 1984 büsho lürosho düki 42 ritashü ?",
)


@pytest.fixture(scope="module")
def converted():
    made = {}

    def get(kind: str):
        if kind not in made:
            made[kind] = convert(FILES / kind)
        return made[kind]

    return get


@pytest.fixture
def changed(tmp_path):
    """A copy of a checkpoint with other settings, named as in "model.encoder.alpha", and other tensors."""

    def make(kind="base", tensors=None, **settings) -> Path:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        shutil.copytree(FILES / kind, folder)
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        for name, value in settings.items():
            *parts, last = name.split(".")
            part = config
            for key in parts:
                part = part.setdefault(key, {})
            part[last] = value
            if value is None:
                del part[last]
        (folder / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
        if tensors:
            (path,) = folder.glob("*.ckpt")
            saved = torch.load(path, weights_only=True)
            saved["model_state"].update(tensors)
            saved["model_state"] = {name: tensor for name, tensor in saved["model_state"].items() if tensor is not None}
            torch.save(saved, path)
        return folder

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_translations_are_joeynmts(converted, kind):
    parity = compare_recorded(converted(kind).model(), FILES / kind / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree
    assert parity.translations_agree == parity.translations == 8  # greedy, and beam 4


@pytest.mark.parametrize("kind", VERSIONS)
def test_logits_are_those_of_the_version_that_wrote_the_file(converted, kind):
    parity = compare_recorded(converted(kind).model(), FILES / kind / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree and parity.positions == 18


@pytest.mark.parametrize("kind", [*KINDS, "prenorm_gelu_2.3.0"])
def test_the_table_reads_backwards(converted, kind):
    (path,) = (FILES / kind).glob("*.ckpt")
    theirs = torch.load(path, weights_only=True)["model_state"]
    written = WEIGHTS.write(converted(kind).weights, converted(kind).config)
    assert written.keys() == {name for name in theirs if not name.endswith(".pe.pe")}
    assert all(torch.equal(theirs[name], tensor) for name, tensor in written.items())


def test_a_lost_norm_would_be_seen(converted):
    made = converted("base")
    name = "model.decoder.layers.1.cross_attn_norm.weight"
    lost = replace(made, weights={**made.weights, name: torch.ones_like(made.weights[name])})
    assert not compare_recorded(lost.model(), FILES / "base" / "reference.npz").holds


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("base", ("post", "post", None, "all")),
        ("tiedsoftmax", ("post", "post", None, "target")),
        ("unset_2.3.0", ("pre", "post", False, "target")),
        ("prenorm_gelu_2.3.0", ("pre", "pre", None, "none")),
        ("unset_2.1.0", ("post", "post", None, "none")),
        ("unset_1.5.1", ("pre", "pre", None, "none")),
    ],
)
def test_norms_and_shared_matrices(converted, kind, expected):
    config = converted(kind).config
    assert (config.norm_position, config.decoder_norm_position, config.final_norm, config.share_embeddings) == expected


def test_without_a_version_an_unset_norm_is_refused(changed):
    with pytest.raises(ConversionError, match="add joeynmt_version"):
        convert(changed("unset_2.3.0", joeynmt_version=None))


def test_versions_before_2_2_pass_over_the_activation(converted):
    written = yaml.safe_load((FILES / "unset_2.1.0" / "config.yaml").read_text())
    assert written["model"]["encoder"]["activation"] == "gelu"
    assert converted("unset_2.1.0").config.activation_function == "relu"


def test_settings_of_the_search(changed):
    testing = {"testing.beam_size": 7, "testing.beam_alpha": 1.5, "testing.generate_unk": False}
    generation = convert(changed(**testing, **{"testing.max_output_length": 33})).generation
    assert (generation.num_beams, generation.length_penalty, generation.max_new_tokens) == (7, 1.5, 33)
    assert generation.length_penalty_offset == 5 and set(generation.suppress_tokens) == {2, 0}
    left_out = convert(changed(**{"testing.beam_alpha": -1, "testing.repetition_penalty": 1.2}))
    assert left_out.generation.length_penalty == 0
    with pytest.raises(ConversionError, match="beam_size is not a finite number: 'many'"):
        convert(changed(**{"testing.beam_size": "many"}))
    assert left_out.facts["search settings left out"] == ["repetition_penalty=1.2"]


def test_everything_unsupported_is_named_at_once(changed):
    settings = {
        "model.encoder.alpha": 1.3, "model.decoder.type": "recurrent", "model.encoder.embeddings.embedding_dim": 16,
        "model.encoder.activation": "tanh", "data.special_symbols.sep_token": "<sep>", "data.task": "S2T",
    }  # fmt: skip
    with pytest.raises(ConversionError) as error:
        convert(changed(**settings))
    message = str(error.value)
    assert all(f"{name.split('.')[-1]}=" in message for name in settings)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"decoder.layers.1.x_layer_norm.bias": None}, "x_layer_norm.bias is missing"),
        ({"decoder.output_layer.bias": torch.zeros(131)}, "decoder.output_layer.bias is not part of this model"),
        ({"encoder.layers.0.feed_forward.pwff_layer.0.weight": torch.zeros(60, 32)}, "does not fit"),
        ({"trg_embed.lut.weight": None}, "no tensors: trg_embed.lut.weight"),
    ],
)
def test_tensors_that_do_not_fit_the_configuration_are_named(changed, tensors, message):
    with pytest.raises(ConversionError, match=message):
        convert(changed(tensors=tensors))


def test_matrices_said_to_be_tied_must_be_the_same(changed):
    folder = changed(tensors={"decoder.output_layer.weight": torch.zeros(131, 32)})
    with pytest.raises(ConversionError, match="one matrix, but they differ"):
        convert(folder).model()


def test_half_precision_and_the_optimizers_state(changed):
    folder = changed()
    saved = torch.load(folder / "300.ckpt", weights_only=True)
    saved["model_state"] = {name: tensor.half() for name, tensor in saved["model_state"].items()}
    saved["optimizer_state"] = torch.optim.Adam([torch.nn.Parameter(torch.ones(3))]).state_dict()
    saved["stats_state"] = {"best_ckpt_score": np.float64(3.5)}
    torch.save(saved, folder / "300.ckpt")
    made = convert(folder)
    assert {tensor.dtype for tensor in made.weights.values()} == {torch.float32}
    table = saved["model_state"]["decoder.pe.pe"][0].float()  # rounded, and so no sinusoids any more
    assert torch.equal(made.weights["model.decoder.embedding.positions.weight"], table)


# Vocabularies and tokenizers.


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_cut_as_by_joeynmt(converted, kind):
    tokenizer = converted(kind).tokenizer
    with np.load(FILES / kind / "reference.npz") as file:
        recorded = [
            ids[mask == 1].tolist() for ids, mask in zip(file["input_ids"], file["attention_mask"], strict=True)
        ]
    assert [tokenizer(text).input_ids for text in SOURCES] == recorded[: len(SOURCES)]


def test_translations_are_put_together(converted):
    made = converted("base")
    said = json.loads((FILES / "base" / "reference.json").read_text(encoding="utf-8"))
    (ids,) = (hypothesis["ids"] for hypothesis in said["generate"]["greedy"][0])
    pieces = [made.target_tokens[i] for i in ids]
    expected = "".join(pieces[: pieces.index("</s>")]).replace("\u2581", " ").strip()
    assert made.tokenizer.decode(ids, skip_special_tokens=True) == expected


WORDS = ["der", "Hund", "hund", "@@", "ab@@", "c", "'", '"', "?"]


def with_words(folder: Path, tokens: list[str]):
    """`folder` with other tokens in the first places of its vocabularies."""
    for side in ("src", "trg"):
        path = folder / f"{side}_vocab.txt"
        old = path.read_text(encoding="utf-8").split("\n")
        remaining = [token for token in old[4 + len(tokens) :] if token not in tokens]
        filler = [f"filler{i}" for i in range(len(old) - 4 - len(tokens) - len(remaining))]
        path.write_text("\n".join([*old[:4], *tokens, *filler, *remaining]), encoding="utf-8")
    return folder


def text_ids(converted, text: str) -> list[int]:
    return [i - 4 for i in converted.tokenizer(text).input_ids[:-1]]


def both(**settings) -> dict:
    return {f"data.{side}.{name}": value for side in ("src", "trg") for name, value in settings.items()}


def test_words_in_lower_case(changed):
    plain = convert(with_words(changed(**both(level="word", lowercase=False)), WORDS))
    assert text_ids(plain, "der Hund nie") == [0, 1, -4]
    lower = convert(with_words(changed(**both(level="word", lowercase=True)), WORDS))
    assert text_ids(lower, "DER Hund") == [0, 2]
    assert lower.tokenizer.decode([4, 6, 3], skip_special_tokens=True) == "der hund"


def test_texts_are_normalized(changed):
    made = convert(with_words(changed(**both(level="word", normalize=True)), ["don't", '"', "Hund?", "2"]))
    assert text_ids(made, " don\u2019t  \u201c Hund ? \u00b2") == [0, 1, 2, 3]
    assert any("spaces before" in difference for difference in made.facts["tokenizer_differences"])


def test_characters(changed):
    made = convert(with_words(changed(**both(level="char")), ["a", "b", "\u2581", "ab"]))
    assert text_ids(made, "ab aX") == [0, 1, 2, 0, -4]
    assert made.tokenizer.decode([4, 5, 6, 4, 3], skip_special_tokens=True) == "ab a"


def test_codes_of_subword_nmt(changed, tmp_path):
    folder = with_words(changed(**both(tokenizer_type="subword-nmt", tokenizer_cfg={"codes": "x/y.codes"})), WORDS)
    without = convert(folder)
    assert "Pass --codes FILE" in " ".join(without.facts["tokenizer_differences"])
    assert text_ids(without, "ab@@ c der") == [4, 5, 0]
    assert without.tokenizer.decode([8, 9, 4, 3], skip_special_tokens=True) == "abc der"
    (folder / "y.codes").write_text("#version: 0.2\na b\nd e\nde r</w>\n", encoding="utf-8")
    beside = convert(folder)
    assert text_ids(beside, "abc der") == [4, 5, 0]
    shutil.move(folder / "y.codes", tmp_path / "y.codes")
    assert text_ids(convert(folder, codes=tmp_path / "y.codes"), "abc der") == [4, 5, 0]


def test_moses(changed):
    settings = both(level="word", tokenizer_cfg={"pretokenizer": "moses"}, lang="en")
    made = convert(with_words(changed(**settings), ["der", "Hund", "?", "&apos;s"]))
    assert text_ids(made, "der Hund's?") == [0, 1, 3, 2]
    assert made.tokenizer.decode([4, 5, 7, 6, 3], skip_special_tokens=True) == "der Hund's?"


def test_version_1_expects_words_between_spaces(converted):
    made = converted("unset_1.5.1")
    assert made.generation.min_new_tokens is None
    assert made.facts["source_language"] == "de"
    tokens = (FILES / "unset_1.5.1" / "src_vocab.txt").read_text().split()
    assert made.tokenizer(f"{tokens[6]} {tokens[5]} nie").input_ids == [6, 5, 0, 3]


def test_sides_cut_by_different_means_have_no_tokenizer(changed):
    made = convert(changed(**{"data.src.level": "word"}))
    assert made.tokenizer is None and "different segmentations" in made.facts["tokenizer_differences"][0]


def test_a_vocabulary_of_another_model_is_refused(changed):
    folder = changed()
    with open(folder / "src_vocab.txt", "a", encoding="utf-8") as file:
        file.write("another\n")
    with pytest.raises(ConversionError, match="132 tokens, the model has 131"):
        convert(folder)
    with pytest.raises(ConversionError, match="gives <unk> the id 3"):
        convert(changed(**{"data.special_symbols.unk_id": 3}))


# Other files.


def test_other_files_are_refused(tmp_path, changed):
    with pytest.raises(FileNotFoundError):
        convert(tmp_path)
    folder = changed()
    whole = (folder / "300.ckpt").read_bytes()
    (folder / "300.ckpt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConversionError, match="damaged"):
        convert(folder)
    torch.save({"model": {}}, folder / "300.ckpt")
    with pytest.raises(ConversionError, match="no state dict called 'model_state'"):
        convert(folder)
    (folder / "config.yaml").write_text("a: [1", encoding="utf-8")
    with pytest.raises(ConversionError, match="Cannot read the YAML in"):
        convert(folder)
    (folder / "config.yaml").write_text("model: {}", encoding="utf-8")
    with pytest.raises(ConversionError, match="missing: data; model.encoder"):
        convert(folder)
    (folder / "config.yaml").unlink()
    with pytest.raises(FileNotFoundError, match="path with --config"):
        convert(folder)


class Hostile:
    def __reduce__(self):
        return print, ("this must never be printed",)


def test_code_in_a_file_does_not_run(changed, capsys):
    folder = changed()
    torch.save({"model_state": Hostile()}, folder / "300.ckpt")
    with pytest.raises(ConversionError, match="contains more than weights"):
        convert(folder)
    text = (folder / "config.yaml").read_text(encoding="utf-8")
    (folder / "config.yaml").write_text(text + "evil: !!python/object/apply:print ['never']\n", encoding="utf-8")
    with pytest.raises(ConversionError, match="Cannot read the YAML in"):
        convert(folder)
    assert "never" not in capsys.readouterr().out


def test_the_command_writes_a_folder_with_what_was_checked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["conversion", "joeynmt", str(FILES / "base"), str(tmp_path / "out")])
    command.main()
    assert "8 of 8 translations the same" in capsys.readouterr().out
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"model.safetensors", "generation_config.json", "tokenizer.json"} <= written


def test_layers_that_no_file_can_hold_are_not_built(changed):
    with pytest.raises(ConversionError, match="encoder_layers is 1000000000; it must be at most 1000"):
        convert(changed(**{"model.encoder.num_layers": 10**9}))


@pytest.mark.parametrize("settings", [{}, {"beam_size": 1, "beam_alpha": 2.0}], ids=str)
def test_settings_of_greedy_search_can_be_written(changed, tmp_path, settings):
    converted = convert(changed(testing=settings))
    write(converted, converted.model(), [], tmp_path / "out")
    assert (tmp_path / "out" / "generation_config.json").is_file()


@pytest.mark.parametrize(
    "settings",
    [
        {"testing.beam_size": 0},
        {"testing.max_output_length": float("inf")},
        {"model.encoder.embeddings": []},
        {"model.encoder.activation": ["relu"]},
        {"data.special_symbols": {"lang_tags": 3}},
    ],
    ids=str,
)
def test_impossible_settings_are_refused(changed, settings):
    with pytest.raises(ConversionError):
        convert(changed(**settings))


def test_a_vocabulary_is_not_taken_from_outside_the_folder(changed, tmp_path):
    folder = changed()
    (folder / "src_vocab.txt").rename(tmp_path / "elsewhere.txt")
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    config["data"]["src"]["voc_file"] = str(tmp_path / "elsewhere.txt")
    (folder / "config.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    assert convert(folder).tokenizer is None
