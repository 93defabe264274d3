"""Our checkpoints in onnxruntime: the same logits and translations, under optimum's names."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from conversion.options import ConversionError
from vaswani_transformer import VaswaniForConditionalGeneration, checkpoint_path
from vaswani_transformer.learn_bpe import learn_tokenizer
from vaswani_transformer.model.generation_vaswani import paper_generation_config


for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason="comes with the extra called convert")

from conversion.__main__ import main  # noqa: E402
from conversion.runtimes import onnx as to_onnx  # noqa: E402
from conversion.runtimes.onnx import export, greedy, largest_difference, logits_of_steps, sessions  # noqa: E402


SENTENCES = [
    "A man is riding a bicycle through the park.",
    "Two dogs are running in the snow!",
    "The children sleep.",
    "An old woman in a red coat sells fruit on the market, and a boy watches her.",
]
VOCAB = 262
SMALL = dict(vocab_size=VOCAB, encoder_layers=1, decoder_layers=1)
UNUSUAL = dict(
    SMALL, d_k=4, d_v=6, norm_position="pre", layer_norm_deviation="unbiased", source_space_embedding=True,
    position_layout="concatenated", position_divisor="half_minus_one", position_offset=2, softmax_bias=True,
    attention_bias=True, activation_function="gelu",
)  # fmt: skip
LEARNED = dict(
    SMALL, decoder_layers=2, share_embeddings="none", decoder_vocab_size=300, position_encoding="learned",
    max_position_embeddings=64, zero_pad_embedding=False, final_norm=True, feed_forward_bias=False,
)  # fmt: skip


def save(model: VaswaniForConditionalGeneration, folder) -> str:
    ids = {name: getattr(model.config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    model.generation_config = paper_generation_config(**ids)
    model.save_pretrained(folder)
    learn_tokenizer(["a b c d e f g h the cat sat on the mat"], VOCAB).save_pretrained(folder)
    return str(folder)


def test_the_files_do_not_name_the_machine_they_were_written_on(unusual):
    root = str(Path(__file__).parents[3]).encode()
    for file in unusual[1].iterdir():
        assert root not in file.read_bytes() and b"site-packages" not in file.read_bytes(), file.name


@pytest.fixture(scope="module")
def unusual(tiny_model, tmp_path_factory):
    """A tiny model of unusual options, and its export by the command."""
    torch.manual_seed(0)
    ours, out = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("onnx") / "out"
    model = tiny_model(**UNUSUAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["conversion", "to-onnx", save(model, ours), str(out)])
        main()
    return model, out


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx") / "mini-en-de"
    export("mini-en-de", folder)
    return folder


def batch(model, rows: int, source: int, target: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random ids of `rows` sentences, each with another length."""
    config = model.config
    ids = torch.randint(2, config.vocab_size, (rows, source))
    mask = (torch.arange(source) < torch.arange(source, source - rows, -1).unsqueeze(1)).long()
    targets = torch.randint(2, config.decoder_vocab_size, (rows, target))
    targets[:, 0] = config.decoder_start_token_id
    return ids.masked_fill(mask == 0, config.pad_token_id), mask, targets


def assert_same_logits(model, folder, rows: int, source: int, target: int, begun: int):
    ids, mask, targets = batch(model, rows, source, target)
    with torch.no_grad():
        expected = model(ids, mask, targets, use_cache=False).logits
    steps = logits_of_steps(folder, ids.numpy(), mask.numpy(), targets[:, :begun].numpy())
    outputs = [next(steps)] + [steps.send(targets[:, [i]].numpy()) for i in range(begun, target)]

    torch.testing.assert_close(torch.from_numpy(np.concatenate(outputs, axis=1)), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("rows", "source", "target", "begun"), [(1, 1, 2, 1), (1, 40, 30, 1), (5, 9, 12, 1), (3, 6, 8, 8), (2, 17, 9, 3)]
)
def test_logits_of_unusual_model(unusual, rows, source, target, begun):
    """In batches and lengths other than those it was traced with, step by step and at once."""
    assert_same_logits(*unusual, rows, source, target, begun)


@pytest.mark.slow
def test_logits_of_learned_positions(tiny_model, tmp_path):
    model = tiny_model(**LEARNED)
    export(save(model, tmp_path / "ours"), tmp_path / "out")

    assert_same_logits(model, tmp_path / "out", 4, 20, 15, 2)


@pytest.mark.slow
def test_logits_of_mini_en_de(mini):
    model = VaswaniForConditionalGeneration.from_pretrained(checkpoint_path("mini-en-de"), dtype=torch.float32)
    assert_same_logits(model.eval(), mini, 3, 12, 10, 1)


def test_greedy_translations_are_ours(unusual, tmp_path):
    """With the tokenizer in the folder, in one padded batch; and where tokens are never produced, or no early end."""
    model, folder = unusual
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(["the cat sat", "a", "b c d e f g h"], padding=True, return_tensors="pt")
    arguments = inputs["input_ids"].numpy(), inputs["attention_mask"].numpy(), 12
    expected = model.generate(**inputs, num_beams=1, max_new_tokens=12)[:, 1:]

    assert greedy(folder, *arguments).tolist() == expected.tolist()

    settings = dict(
        suppress_tokens=sorted({*expected[:, 0].tolist()}), min_new_tokens=3, eos_token_id=expected[0, 1].item()
    )
    changed = shutil.copytree(folder, tmp_path / "changed")
    said = json.loads((changed / "generation_config.json").read_text(encoding="utf-8"))
    (changed / "generation_config.json").write_text(json.dumps(said | settings), encoding="utf-8")
    otherwise = model.generate(**inputs, num_beams=1, max_new_tokens=12, **settings)[:, 1:]

    assert greedy(changed, *arguments).tolist() == otherwise.tolist() != expected.tolist()


@pytest.mark.slow
def test_greedy_translations_of_mini_en_de(mini):
    """Of real sentences."""
    tokenizer = AutoTokenizer.from_pretrained(mini)
    inputs = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    model = VaswaniForConditionalGeneration.from_pretrained(checkpoint_path("mini-en-de"), dtype=torch.float32)
    expected = model.generate(**inputs, num_beams=1, max_new_tokens=40)[:, 1:]
    outputs = greedy(mini, inputs["input_ids"].numpy(), inputs["attention_mask"].numpy(), max_new_tokens=40)

    assert outputs.tolist() == expected.tolist()
    assert tokenizer.decode(outputs[2], skip_special_tokens=True) == "Die Kinder schlafen."


def test_names_and_shapes(unusual):
    """Those that optimum gives; the module documents them."""
    encoder, decoder, decoder_with_past = (
        {value.name: value.shape for value in [*session.get_inputs(), *session.get_outputs()]}
        for session in sessions(unusual[1])
    )
    self_attention = {"key": ["batch", 4, "target_length", 4], "value": ["batch", 4, "target_length", 6]}
    cross_attention = {"key": ["batch", 4, "source_length", 4], "value": ["batch", 4, "source_length", 6]}
    assert encoder == {
        "input_ids": ["batch", "source_length"],
        "attention_mask": ["batch", "source_length"],
        "last_hidden_state": ["batch", "source_length", 16],
    }
    assert decoder == {
        "input_ids": ["batch", "target_length"],
        "encoder_attention_mask": ["batch", "source_length"],
        "encoder_hidden_states": ["batch", "source_length", 16],
        "logits": ["batch", "target_length", VOCAB],
        **{f"present.0.decoder.{x}": self_attention[x] for x in self_attention},
        **{f"present.0.encoder.{x}": cross_attention[x] for x in cross_attention},
    }
    assert decoder_with_past == {
        "input_ids": ["batch", 1],
        "encoder_attention_mask": ["batch", "source_length"],
        "logits": ["batch", 1, VOCAB],
        **{f"past_key_values.0.decoder.{x}": ["batch", 4, "past_length", self_attention[x][3]] for x in self_attention},
        **{f"past_key_values.0.encoder.{x}": cross_attention[x] for x in cross_attention},
        **{f"present.0.decoder.{x}": ["batch", 4, "past_length + 1", self_attention[x][3]] for x in self_attention},
    }


def test_comparison_sees_other_weights(unusual, tiny_model):
    _, folder = unusual
    other = tiny_model(**UNUSUAL)
    other.load_state_dict(unusual[0].state_dict())
    other.model.decoder.layers[0].cross_attn.kv_proj.bias.data[-1] += 0.1

    assert largest_difference(unusual[0], folder) < 1e-5
    assert largest_difference(other, folder) > 1e-3


def test_model_that_differs_is_not_left(unusual, tiny_model, tmp_path, monkeypatch):
    """The graphs of one model, where another was asked for."""

    def write_others(model, folder):
        shutil.copytree(unusual[1], folder, dirs_exist_ok=True)

    torch.manual_seed(1)
    monkeypatch.setattr(to_onnx, "write_graphs", write_others)
    with pytest.raises(ConversionError, match="differ from our model.s by up to .*nothing was written"):
        export(save(tiny_model(**UNUSUAL), tmp_path / "ours"), tmp_path / "out")

    assert [path.name for path in tmp_path.iterdir()] == ["ours"]


def test_what_it_lacks_is_refused_at_once(tiny_model, tmp_path):
    model = tiny_model(
        **SMALL, decoder_start_token_id=None, position_encoding="learned", max_position_embeddings=12, position_offset=2
    )
    model.save_pretrained(tmp_path / "ours")
    with pytest.raises(ConversionError, match="decoder_start_token_id=None .*; positions for fewer than 12"):
        export(str(tmp_path / "ours"), tmp_path / "out")


@pytest.mark.parametrize("pad, end", [(None, 5), (0, [3, 5]), (0, None)])
def test_greedy_search_with_other_special_tokens(tmp_path, monkeypatch, pad, end):
    """No padding token, several that end a text, none that does: the best tokens are 4, 5, 4."""
    settings = {"pad_token_id": pad, "eos_token_id": end, "decoder_start_token_id": 1}
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    monkeypatch.setattr(to_onnx, "logits_of_steps", lambda *_: (np.eye(8)[[[best]]] for best in (4, 5, 4)))
    outputs = greedy(tmp_path, np.array([[1]]), np.array([[1]]), max_new_tokens=3)
    assert outputs.tolist() == [[4, 5, 4] if end is None else [4, 5]]


def test_existing_folder_is_kept(tiny_model, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(ConversionError, match="already exists and is not empty"):
        export(save(tiny_model(**SMALL), tmp_path / "ours"), tmp_path / "out")

    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
