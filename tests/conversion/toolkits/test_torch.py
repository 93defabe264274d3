"""State dicts around torch.nn.Transformer, in the layout of PyTorch's tutorial and in others."""

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from conversion import __main__, importing
from conversion.files.torch import canonical, part_names
from conversion.options import ConversionError
from conversion.parity.recorded import compare_recorded
from conversion.parity.scores import compare
from conversion.toolkits.bare_state_dict import describe
from conversion.toolkits.torch import DEFAULTS, WEIGHTS, compare_live, convert, readable


FILES = Path(__file__).parents[2] / "fixtures" / "torch_nn_transformer"
KINDS = ["base", "joint_nofinal"]


class Positions(nn.Module):
    """The tutorial's buffer; `table` makes it learned."""

    def __init__(self, width: int, table: bool = False):
        super().__init__()
        density = torch.exp(-torch.arange(0, width, 2) * math.log(10000) / width)
        angles = torch.arange(20).reshape(20, 1) * density
        embedding = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)
        self.register_buffer("pos_embedding", torch.randn(20, 1, width) if table else embedding.unsqueeze(1))


class Tutorial(nn.Module):
    """Around torch.nn.Transformer as in the tutorial, with the tutorial's names."""

    def __init__(
        self, source=23, target=19, width=16, learned=False, tied=False, final_norm=True, bias=True, **options
    ):
        super().__init__()
        self.transformer = nn.Transformer(
            width, 2, dim_feedforward=24, dropout=0.1, batch_first=True, bias=bias,
            **{"num_encoder_layers": 2, "num_decoder_layers": 2, **options},
        )  # fmt: skip
        if not final_norm:
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.generator = nn.Linear(width, target, bias=bias)
        self.src_tok_emb, self.tgt_tok_emb = (
            nn.ModuleDict({"embedding": nn.Embedding(n, width)}) for n in (source, target)
        )
        if tied:
            self.tgt_tok_emb["embedding"].weight = self.generator.weight
        self.positional_encoding = Positions(width, learned)
        for parameter in self.parameters():  # so that no bias and no norm is without effect
            if parameter.dim() == 1:
                nn.init.normal_(parameter, 0.5, 0.3)
        self.eval()

    def embed(self, module, ids):
        table = self.positional_encoding.pos_embedding[: ids.shape[1], 0]
        return module["embedding"](ids) * math.sqrt(table.shape[1]) + table

    @torch.no_grad()
    def forward(self, input_ids, attention_mask, decoder_input_ids, decoder_attention_mask):
        padding = attention_mask == 0
        return self.generator(
            self.transformer(
                self.embed(self.src_tok_emb, input_ids),
                self.embed(self.tgt_tok_emb, decoder_input_ids),
                tgt_mask=nn.Transformer.generate_square_subsequent_mask(decoder_input_ids.shape[1]),
                src_key_padding_mask=torch.zeros(padding.shape).masked_fill(padding, -torch.inf),
                memory_key_padding_mask=torch.zeros(padding.shape).masked_fill(padding, -torch.inf),
            )
        )


def some_inputs(source=23, target=19) -> dict[str, torch.Tensor]:
    mask = torch.ones(3, 9, dtype=torch.long)
    mask[1, 5:] = 0
    random = torch.Generator().manual_seed(0)
    ids = [torch.randint(4, n, (3, 9), generator=random) for n in (source, target)]
    return {
        "input_ids": ids[0].masked_fill(mask == 0, 1),
        "attention_mask": mask,
        "decoder_input_ids": ids[1],
        "decoder_attention_mask": torch.ones_like(mask),
    }


@pytest.fixture
def saved(tmp_path):
    """A state dict and what describes it, in a folder."""

    def save(state: dict, **description) -> Path:
        torch.save(state, tmp_path / "model.pt")
        (tmp_path / "description.json").write_text(json.dumps({"heads": 2, **description}))
        return tmp_path

    torch.manual_seed(0)
    return save


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_translations_are_torchs(kind):
    parity = compare_recorded(convert(FILES / kind).model(), FILES / kind / "reference.npz")
    assert parity.max_difference < 1e-5 and parity.best_tokens_agree
    assert parity.translations_agree == parity.translations == 8


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_reads_backwards(kind):
    converted = convert(FILES / kind)
    state = torch.load(FILES / kind / "model.pt", weights_only=True)
    theirs = readable(canonical(state, part_names(describe(FILES / kind, "torch", DEFAULTS))), converted.config)
    written = WEIGHTS.write(converted.weights, converted.config)
    assert written.keys() == theirs.keys()
    assert all(torch.equal(theirs[name], tensor) for name, tensor in written.items())


@pytest.mark.parametrize(
    "options, description",
    [
        (dict(norm_first=True), dict(norm_first=True)),
        (dict(norm_first=True, final_norm=False), dict(norm_first=True)),
        (dict(activation="gelu", layer_norm_eps=1e-3), dict(activation="gelu", layer_norm_eps=1e-3)),
        (dict(bias=False), {}),
        (dict(bias=False, norm_first=True), dict(norm_first=True)),
        (dict(num_encoder_layers=3, num_decoder_layers=1), {}),
        (dict(tied=True), {}),
        (dict(learned=True), {}),
    ],
    ids=str,
)
def test_other_options_give_the_same_logits(saved, options, description):
    theirs = Tutorial(**options)
    folder = saved(theirs.state_dict(), **description)
    converted = convert(folder)
    model = converted.model()
    assert compare(model, some_inputs(), theirs(**some_inputs()), "torch").holds
    assert compare_live(folder, converted, model).holds
    assert (converted.config.share_embeddings == "target") == options.get("tied", False)


def test_a_wrong_description_is_seen_by_the_logits(saved):
    theirs = Tutorial(norm_first=True)
    model = convert(saved(theirs.state_dict(), norm_first=False)).model()
    assert not compare(model, some_inputs(), theirs(**some_inputs()), "torch").holds


def test_one_matrix_for_all_is_kept_once(saved):
    theirs = Tutorial(source=19, tied=True)
    theirs.src_tok_emb["embedding"].weight = theirs.generator.weight
    converted = convert(saved(theirs.state_dict()))
    assert converted.config.share_embeddings == "all"
    assert compare(converted.model(), some_inputs(19), theirs(**some_inputs(19)), "torch").holds


def test_parts_may_have_other_names(saved):
    theirs = Tutorial(tied=True, bias=False)
    state = {
        name.replace("src_tok_emb.embedding", "embed_in").replace("tgt_tok_emb.embedding", "embed_out"): tensor
        for name, tensor in theirs.state_dict().items()
        if not name.startswith(("generator", "positional_encoding"))
    }
    state = {f"module.{name.replace('transformer.', 'net.')}": tensor for name, tensor in state.items()}
    called = {"transformer": "net", "source_embedding": "embed_in", "target_embedding": "embed_out", "generator": None}
    folder = saved({"state_dict": state, "step": 3}, names=called, positions="interleaved")
    converted = convert(folder)
    assert compare(converted.model(), some_inputs(), theirs(**some_inputs()), "torch").holds
    assert compare_live(folder, converted, converted.model()).holds


def test_stacks_may_differ_in_size_and_heads(saved):
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 40, batch_first=True), 1, nn.LayerNorm(16))
    theirs = Tutorial(custom_decoder=decoder, num_encoder_layers=3)
    folder = saved(theirs.state_dict(), decoder_heads=4)
    converted = convert(folder)
    assert (converted.config.d_ff, converted.config.decoder_d_ff) == (24, 40)
    assert compare(converted.model(), some_inputs(), theirs(**some_inputs()), "torch").holds
    assert compare_live(folder, converted, converted.model()).holds
    assert not compare(convert(folder, heads=4).model(), some_inputs(), theirs(**some_inputs()), "torch").holds


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.module.", "model.", "module._orig_mod."])
@pytest.mark.parametrize("wrapper", ["model", "state_dict", "model_state_dict"])
def test_wrappers_are_taken_off(saved, prefix, wrapper):
    state = {f"{prefix}{name}": tensor for name, tensor in Tutorial().state_dict().items()}
    assert convert(saved({wrapper: state, "epoch": 3, "optimizer": {"state": {}}})).config.d_model == 16


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_read(saved, kind):
    state = {name: tensor.to(kind) for name, tensor in Tutorial().state_dict().items()}
    theirs = Tutorial()
    theirs.load_state_dict({name: tensor.float() for name, tensor in state.items()})
    assert compare(convert(saved(state)).model(), some_inputs(), theirs(**some_inputs()), "torch").holds


def test_safetensors_are_read(tmp_path):
    torch.manual_seed(0)
    theirs = Tutorial()
    save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    model = convert(tmp_path, heads=2).model()
    assert compare(model, some_inputs(), theirs(**some_inputs()), "torch").holds


def test_the_command_line_comes_first(saved):
    folder = saved(Tutorial().state_dict(), ids={"pad": 0, "eos": 5})
    config = convert(folder, heads=4, eos_id=7).config
    assert (config.encoder_attention_heads, config.pad_token_id, config.eos_token_id) == (4, 0, 7)
    assert (config.bos_token_id, config.decoder_start_token_id) == (2, 2)


def test_options_of_the_command_are_those_of_convert(saved, monkeypatch):
    calls = []
    imported = SimpleNamespace(checks=[])
    monkeypatch.setattr(importing, "import_checkpoint", lambda *given, report: calls.append(given) or imported)
    words = "--heads 4 --norm-first --activation gelu --pad-id 0"
    __main__.main(["torch", "model.pt", "out", *words.split()])
    [(toolkit, source, out, _, _, given)] = calls
    assert (toolkit.convert, source, out) == (convert, Path("model.pt"), Path("out"))
    config = convert(saved(Tutorial().state_dict()), **given).config
    assert (config.encoder_attention_heads, config.norm_position, config.pad_token_id) == (4, "pre", 0)
    assert config.activation_function == "gelu" and config.layer_norm_eps == 1e-5


def test_the_number_of_heads_must_be_given(tmp_path):
    torch.save(Tutorial().state_dict(), tmp_path / "model.pt")
    with pytest.raises(ConversionError, match="heads.*--heads 8, or set it in .*description.json"):
        convert(tmp_path)


def test_texts_are_encoded_as_recorded():
    record = json.loads((FILES / "base" / "reference.json").read_text())
    converted = convert(FILES / "base")
    inputs = recorded_inputs(FILES / "base" / "reference.npz")
    assert converted.tokenizer(record["source_bpe"])["input_ids"] == inputs
    expected = " ".join(record["generate"]["greedy_by_our_loop"][0][0]["tokens"][:-1]).replace("@@ ", "")
    ids = record["generate"]["greedy_by_our_loop"][0][0]["ids"]
    decoded = converted.tokenizer.decode([converted.config.decoder_start_token_id, *ids], skip_special_tokens=True)
    assert decoded == expected


def test_codes_segment_texts(tmp_path):
    shutil.copytree(FILES / "base", tmp_path, dirs_exist_ok=True)
    shutil.copy(FILES / "bpe.codes", tmp_path)
    record = json.loads((FILES / "base" / "reference.json").read_text())
    whole = [text.replace("@@ ", "") for text in record["source_bpe"]]
    assert convert(tmp_path).tokenizer(whole)["input_ids"] == recorded_inputs(FILES / "base" / "reference.npz")


def recorded_inputs(path: Path) -> list[list[int]]:
    with np.load(path) as recorded:
        rows = zip(recorded["input_ids"], recorded["attention_mask"].astype(bool), strict=True)
        return [ids[mask].tolist() for ids, mask in rows]


@pytest.mark.parametrize(
    "description, said",
    [
        (dict(activation="swiglu"), "activation='swiglu'"),
        (dict(head=2), "Unknown fields in .*: head. Known fields"),
        (dict(names={"encoder": "x"}), "unknown part in 'names'"),
        (dict(names={"source_embedding": "x"}), "source_embedding.weight"),
        (dict(heads=5), "not divisible"),
        (dict(heads="two"), "encoder_attention_heads"),
        (dict(ids={"pad": 99}), "pad_token_id"),
        (dict(ids={"pad": None}), "pad_token_id is None"),
        (dict(ids={"unk": "x"}), "unk='x'"),
        (dict(norm_first="false"), "norm_first='false'"),
        (dict(scale_embedding="no"), "scale_embedding='no'"),
        (dict(positions="none"), "positions='none' with a stored table"),
        (dict(positions="concatenated"), "positions='concatenated' with a stored table"),
        (dict(source_vocabulary="../somewhere/tokens.txt"), "names files that are not in .*tokens.txt"),
    ],
    ids=str,
)
def test_wrong_descriptions_are_refused(saved, description, said):
    with pytest.raises(ConversionError, match=said):
        convert(saved(Tutorial().state_dict(), **description))


@pytest.mark.parametrize(
    "change, said",
    [
        ({"transformer.encoder.norm.weight": None, "transformer.encoder.norm.bias": None}, "final norm"),
        ({"transformer.encoder.layers.1.linear1.weight": None}, "linear1.weight is missing"),
        ({"transformer.encoder.layers.0.gate.weight": torch.zeros(2)}, "gate.weight is not part of this model"),
        ({"transformer.decoder.layers.0.self_attn.bias_k": torch.zeros(1, 1, 16)}, "bias_k is not part of this model"),
        ({"transformer.encoder.layers.0.self_attn.in_proj_bias": None}, "biases in attention or feed-forward only"),
        ({"transformer.encoder.layers.0.linear2.weight": torch.zeros(3)}, "does not fit"),
        ({"transformer.encoder.layers.0.linear2.weight": torch.zeros(16, 2, 12)}, "does not fit"),
        ({"generator.weight": torch.zeros(())}, "matrices"),
        ({"positional_encoding.pos_embedding": torch.zeros(5, 4)}, "position table has the shape"),
    ],
    ids=lambda x: x if isinstance(x, str) else "-".join(x),
)
def test_other_models_are_refused(saved, change, said):
    state = {name: tensor for name, tensor in {**Tutorial().state_dict(), **change}.items() if tensor is not None}
    with pytest.raises(ConversionError, match=said):
        convert(saved(state))


def test_a_file_that_would_run_code_is_refused(saved):
    with pytest.raises(ConversionError, match="--unsafe"):
        convert(saved(Tutorial()))
    assert convert(saved(Tutorial()), unsafe=True).config.d_model == 16


@pytest.mark.parametrize("content", [{}, [torch.zeros(2)], {"a": 1}, {"a": torch.zeros(2)}], ids=str)
def test_other_contents_are_refused(saved, content):
    with pytest.raises(ConversionError):
        convert(saved(content))


def test_a_vocabulary_is_not_taken_from_outside_the_folder(saved, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name, size in (("secret.txt", 23), ("model/vocab.trg.txt", 19)):
        (tmp_path / name).write_text("\n".join(f"t{i}" for i in range(size)))
    path = saved(Tutorial().state_dict())
    description = {"heads": 2, "source_vocabulary": str(tmp_path / "secret.txt")}
    (path / "model.pt").rename(folder / "model.pt")
    (folder / "description.json").write_text(json.dumps(description))
    with pytest.raises(ConversionError, match="names files that are not in"):
        convert(folder)
