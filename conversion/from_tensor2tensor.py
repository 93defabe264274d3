"""tensor2tensor's Transformer, as its versions since 1.4 (November 2017) write it: a TensorFlow checkpoint, with
`hparams.json` and `vocab.*.subwords` beside it.

The same variables are also read from a `variables.npz`, as `tf.train.load_checkpoint` gives them:
`numpy.savez("variables.npz", **{name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()})`.
"""

import argparse
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.generation_vaswani import paper_generation_config

from .core import ConversionError, Converted, Options
from .mapping import Table
from .reading import read_json, read_npz, sha256
from .segmentation import t2t_subwords, t2t_vocabulary
from .tensor_bundle import read_bundle


# Names are those of the checkpoint without "transformer/body/", with dots; `canonical` says what else is renamed.
TABLE = Table(
    """
    model.encoder.embed_tokens.weight                input_emb
    model.decoder.embed_tokens.weight                target_emb
    lm_head.weight                                   softmax
    model.encoder.embedding.space.weight             target_space_embedding.kernel
    model.encoder.embedding.positions.weight         inputs_positional_embedding
    model.decoder.embedding.positions.weight         targets_positional_embedding

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder.layer_{e}.self_attention.multihead_attention.{q,k,v}.T
    model.encoder.layers.{e}.self_attn.out_proj      encoder.layer_{e}.self_attention.multihead_attention.output_transform.T
    model.encoder.layers.{e}.self_attn_norm          encoder.layer_{e}.self_attention.norm
    model.encoder.layers.{e}.feed_forward.fc1        encoder.layer_{e}.ffn.conv1.T
    model.encoder.layers.{e}.feed_forward.fc2        encoder.layer_{e}.ffn.conv2.T
    model.encoder.layers.{e}.feed_forward_norm       encoder.layer_{e}.ffn.norm
    model.encoder.norm                               encoder.norm

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder.layer_{d}.self_attention.multihead_attention.{q,k,v}.T
    model.decoder.layers.{d}.self_attn.out_proj      decoder.layer_{d}.self_attention.multihead_attention.output_transform.T
    model.decoder.layers.{d}.self_attn_norm          decoder.layer_{d}.self_attention.norm
    model.decoder.layers.{d}.cross_attn.q_proj       decoder.layer_{d}.encdec_attention.multihead_attention.q.T
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder.layer_{d}.encdec_attention.multihead_attention.{k,v}.T
    model.decoder.layers.{d}.cross_attn.out_proj     decoder.layer_{d}.encdec_attention.multihead_attention.output_transform.T
    model.decoder.layers.{d}.cross_attn_norm         decoder.layer_{d}.encdec_attention.norm
    model.decoder.layers.{d}.feed_forward.fc1        decoder.layer_{d}.ffn.conv1.T
    model.decoder.layers.{d}.feed_forward.fc2        decoder.layer_{d}.ffn.conv2.T
    model.decoder.layers.{d}.feed_forward_norm       decoder.layer_{d}.ffn.norm
    model.decoder.norm                               decoder.norm
    """,  # noqa: E501
    parameters=("kernel", "bias"),
)

MODEL = "transformer/"
SHARD = re.compile(r"symbol_modality_(\d+)_(\d+)\.(shared|input_emb|target_emb|softmax)\.weights_(\d+)")
# Steps before and after a sub-layer: n norm, a add, d dropout, which changes no place. And where norms then are.
SEQUENCES = {("", "an"): "post", ("n", "a"): "pre"}
NORMS = {"post": "layer_postprocess", "pre": "layer_prepostprocess"}
PAD, EOS = 0, 1
# Each changes the function or is kept in another form; the value is what leaves the paper's model as it is.
MUST_BE = {
    "self_attention_type": ("dot_product",),
    "norm_type": ("layer",),
    "prepend_mode": ("none",),
    "weight_dtype": ("float32",),
    "activation_dtype": ("float32", "bfloat16"),  # the second is for training; evaluation may take the first
    "causal_decoder_self_attention": (True,),
    "nbr_decoder_problems": (1,),
    "ffn_layer": ("dense_relu_dense", "conv_hidden_relu"),
    "input_modalities": ("default",),  # these two until 1.9
    "target_modality": ("default",),
}
MUST_BE_OFF = (
    "proximity_bias", "unidirectional_encoder", "attention_variables_3d", "hard_attention_k",
    "split_targets_chunk_length", "bottom", "top", "name", "modality",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--hparams", type=Path, metavar="FILE", help="where hparams.json is not beside the checkpoint")
    parser.add_argument(
        "--target-space-id",
        type=int,
        metavar="N",
        help="of the problem it was trained for (default: what hparams.json says, else 0, which all problems have in "
        "late versions; in early ones it was a number of the target language's)",
    )
    parser.add_argument(
        "--vocab",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="the vocabulary, or the source's and the target's (default: vocab.*.subwords beside the checkpoint)",
    )


def convert(
    source: Path,
    unsafe: bool = False,
    hparams: Path | None = None,
    target_space_id: int | None = None,
    vocab: Sequence[Path] | None = None,
) -> Converted:
    """A checkpoint (`model.ckpt-N`, or its `.index`), a `variables.npz`, or the folder that holds one.

    `unsafe` changes nothing: such files hold no code.

    Raises:
        ConversionError: it is no such checkpoint, is damaged, or uses what is not supported.
        FileNotFoundError: there is no checkpoint, or no `hparams.json`.
    """
    path = find(source)
    values = read_hparams(hparams or path.parent / "hparams.json")
    variables = npz_variables(path) if path.suffix == ".npz" else read_bundle(path, weights)
    if not variables:
        raise ConversionError(f"{path} holds no Transformer of tensor2tensor: no variable begins with {MODEL!r}.")
    if target_space_id is None:
        target_space_id = values.get("target_space_id", 0)
    options = Options(values, "tensor2tensor")
    settings = read_settings(options)
    tensors = canonical(variables, NORMS[settings["norm_position"]])
    tables = embeddings(tensors)
    config = options.config(
        **settings,
        vocab_size=len(tables["input_emb"]),
        decoder_vocab_size=len(tables["target_emb"]),
        share_embeddings=sharing(tables),
    )
    if config.source_space_embedding:
        tensors["target_space_embedding.kernel"] = space(tensors, target_space_id)
    return Converted(
        toolkit="tensor2tensor",
        config=config,
        weights=TABLE.read({**tensors, **tables}, config),
        # Its beam search is the paper's; translations may be empty.
        generation=paper_generation_config(pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD),
        **tokenizer(path.parent, vocab, config),
        facts={
            "files": {file.name: sha256(file) for file in files(path)},
            "target_space_id": target_space_id if config.source_space_embedding else None,
        },
    )


def find(source: Path) -> Path:
    """The `.index` or `.npz` to read; of several in a folder the one that its `checkpoint` names, else the latest."""
    if source.is_file() and source.suffix in (".index", ".npz"):
        return source
    if (prefix := source.parent / f"{source.name}.index").is_file():
        return prefix
    if source.is_dir():
        state = source / "checkpoint"
        text = state.read_text(errors="replace") if state.is_file() else ""
        named = re.search(r'^model_checkpoint_path: "(.*)"', text, re.MULTILINE)
        if named and (newest := source / f"{Path(named[1]).name}.index").is_file():
            return newest
        if found := list(source.glob("*.index")):
            return max(found, key=lambda path: (int(re.search(r"(\d*)$", path.stem)[1] or 0), path.name))
        if (source / "variables.npz").is_file():
            return source / "variables.npz"
    raise FileNotFoundError(f"{source} is neither a TensorFlow checkpoint (NAME.index) nor a folder that holds one.")


def files(path: Path) -> list[Path]:
    return [path] if path.suffix == ".npz" else [path, *sorted(path.parent.glob(f"{path.stem}.data-*"))]


def read_hparams(path: Path) -> dict:
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no {path}, which tensor2tensor writes where it trains. Use --hparams FILE, an object of its "
            'hyperparameters, such as {"hidden_size": 512, "num_heads": 8, "num_hidden_layers": 6}; the hparams_set in '
            "flags_t2t.txt says which they were."
        )
    values = read_json(path)
    if "hidden_size" not in values:
        raise ConversionError(f"{path} is no hparams.json of tensor2tensor: it has no 'hidden_size'.")
    return values


def npz_variables(path: Path) -> dict[str, torch.Tensor]:
    try:
        return {name: torch.from_numpy(array) for name, array in read_npz(path, weights).items()}
    except TypeError as error:
        raise ConversionError(f"{path} holds what are no ordinary weights: {error}") from None


def weights(names: Iterable[str]) -> list[str]:
    """Those of the model. What an optimiser keeps of a variable is called like it, with a part after it."""
    names = set(names)
    return sorted(
        name
        for name in names
        if name.startswith(MODEL) and not any(name[: slash.start()] in names for slash in re.finditer("/", name))
    )


def canonical(variables: Mapping[str, torch.Tensor], scope: str) -> dict[str, torch.Tensor]:
    """Variables under the table's names: norms are called "norm", whichever scope they are in."""
    tensors = {}
    for name, tensor in variables.items():
        if "kv_transform" in name:
            raise ConversionError(
                f"{name}: this checkpoint is of tensor2tensor before 1.4 (November 2017); its layout is not supported."
            )
        name = name.removeprefix(MODEL).removeprefix("body/").replace("/", ".")
        norm = re.sub(rf"{scope}\.layer_norm\.layer_norm_", "norm.", name)
        tensors[norm.replace("norm.scale", "norm.kernel") if norm != name else name] = tensor
    return tensors


def embeddings(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """input_emb [V_source, D], target_emb and softmax [V_target, D]; takes their shards out of `tensors`.

    Which of them are one matrix, their names say: where vocabularies differ in size, tensor2tensor does not do what
    hparams.json says. A matrix of V rows is divided into n shards; the first V % n have one row more.

    Raises:
        ConversionError: shards are missing, or the embeddings are of no model from text to text.
    """
    shards: dict[tuple[int, int, str], dict[int, torch.Tensor]] = {}
    for name in [name for name in tensors if SHARD.fullmatch(name)]:
        rows, width, table, number = SHARD.fullmatch(name).groups()
        shards.setdefault((int(rows), int(width), table), {})[int(number)] = tensors.pop(name)
    tables: dict[str, dict[int, torch.Tensor]] = {}
    for (rows, width, table), parts in shards.items():
        n = len(parts)
        shapes = [[rows // n + (i < rows % n), width] for i in range(n)]
        if [list(parts[i].shape) if i in parts else None for i in range(n)] != shapes:
            raise ConversionError(
                f"symbol_modality_{rows}: shards of {table} are missing, or have not these shapes: {shapes}."
            )
        tables.setdefault(table, {})[rows] = torch.cat([parts[i] for i in range(n)])
    shared = tables.get("shared", {})  # of two vocabularies where they differ in size
    sources, targets = tables.get("input_emb", shared), tables.get("target_emb", shared)
    softmax = tables.get("softmax", shared)
    target = next(iter(softmax), None)
    source = next((rows for rows in sources if rows != target), target)
    if len(softmax) == 1 and sources.keys() | targets.keys() == {source, target} and target in targets:
        return {"input_emb": sources[source], "target_emb": targets[target], "softmax": softmax[target]}
    found = [f"{table} ({rows} tokens)" for table, sizes in sorted(tables.items()) for rows in sorted(sizes)]
    raise ConversionError(
        f"The checkpoint has the embeddings {', '.join(found) or 'none'}, which are of no model from text to text."
    )


def space(tensors: Mapping[str, torch.Tensor], number: int) -> torch.Tensor:
    """The vector of one target space, [1, D]."""
    kernel = tensors.get("target_space_embedding.kernel")
    if kernel is None or kernel.dim() != 2:
        raise ConversionError("hparams.json asks for a target_space_embedding, and the checkpoint has none.")
    if not isinstance(number, int) or not 0 <= number < len(kernel):
        raise ConversionError(f"--target-space-id {number}: this model has the spaces 0 to {len(kernel) - 1}.")
    return kernel[number : number + 1]


def sharing(tables: Mapping[str, torch.Tensor]) -> str:
    """`share_embeddings`. Where embeddings share a matrix and the softmax has its own, both embeddings are kept."""
    if tables["target_emb"] is not tables["softmax"]:
        return "none"
    return "all" if tables["input_emb"] is tables["target_emb"] else "target"


def read_settings(options: Options) -> dict:
    """The configuration but for what the embeddings show.

    Raises:
        ConversionError: the model uses what is not supported; all of it is named.
    """
    for name, allowed in MUST_BE.items():
        options.only(name, *allowed, default=allowed[0])
    options.off(*MUST_BE_OFF)
    areas = max(number(options, "max_area_width", 1), number(options, "max_area_height", 1))
    if number(options, "num_area_layers") and areas > 1:
        options.refuse("num_area_layers, attention to areas (supported: 0)")
    before = options.take("layer_preprocess_sequence", "none")
    after = options.take("layer_postprocess_sequence", "dan")
    norm_position = SEQUENCES.get(tuple(str(steps).replace("none", "").replace("d", "") for steps in (before, after)))
    if norm_position is None:
        options.refuse(
            f"layer_preprocess_sequence={before!r} with layer_postprocess_sequence={after!r} (supported: 'none' with "
            "'dan', 'n' with 'da')"
        )
    d_model, heads = number(options, "hidden_size"), number(options, "num_heads", 8)
    widths = {}
    for ours, theirs in (("d_k", "attention_key_channels"), ("d_v", "attention_value_channels")):
        channels = number(options, theirs) or d_model
        if not heads or channels % heads:
            options.refuse(f"{theirs} or hidden_size of {channels} with num_heads={heads} (supported: a multiple)")
        elif channels != d_model:
            widths[ours] = channels // heads
    layers = number(options, "num_hidden_layers")
    position_encoding = options.choice(
        "pos", {"timing": "sinusoidal", "emb": "learned", "none": "none"}, default="timing"
    )
    scale_embedding = options.choice(
        "multiply_embedding_mode", {"sqrt_depth": True, "none": False, "": False}, default="sqrt_depth"
    )
    settings = dict(
        d_model=d_model,
        d_ff=number(options, "filter_size", 2048),
        encoder_layers=number(options, "num_encoder_layers") or layers,
        decoder_layers=number(options, "num_decoder_layers") or layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        **widths,
        dropout=options.take("layer_prepostprocess_dropout", 0.0),
        attention_dropout=options.take("attention_dropout", 0.0),
        activation_dropout=options.take("relu_dropout", 0.0),
        norm_position=norm_position,
        layer_norm_eps=options.take("norm_epsilon", 1e-6),
        position_encoding=position_encoding,
        position_layout="concatenated",
        position_divisor="half_minus_one",
        max_position_embeddings=number(options, "max_length") if position_encoding == "learned" else None,
        scale_embedding=scale_embedding,
        source_space_embedding=bool(options.take("use_target_space_embedding", True)),
        label_smoothing=options.take("label_smoothing", 0.0),
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,  # padding is looked up as a zero vector, with which the decoder starts
    )
    options.finish()
    return settings


def tokenizer(folder: Path, given: Sequence[Path] | None, config: VaswaniConfig) -> dict:
    """`tokenizer` and `target_tokens` of `Converted`, from one vocabulary file or two: the source's, the target's.

    Of two that are found in `folder`, the sizes say which is whose.

    Raises:
        ConversionError: a vocabulary is no such file or larger than the model's, or the sizes do not say it.
    """
    files = list(given or sorted(folder.glob("vocab.*.subwords*")))
    if not files:
        return {}
    sizes = (config.vocab_size, config.decoder_vocab_size)
    tokens = {file: t2t_vocabulary(file).tokens for file in files}
    pairs = [(files[0], files[-1])] if given or len(files) == 1 else list(itertools.permutations(files, 2))
    fitting = [pair for pair in pairs if all(len(tokens[file]) <= n for file, n in zip(pair, sizes, strict=True))]
    exact = [pair for pair in fitting if all(len(tokens[file]) == n for file, n in zip(pair, sizes, strict=True))]
    if len(files) > 2 or len(exact or fitting) != 1:
        named = ", ".join(f"{file.name} ({len(tokens[file])} tokens)" for file in files)
        raise ConversionError(
            f"The model has {sizes[0]} source and {sizes[1]} target tokens, and these vocabularies do not say whose "
            f"they are: {named}. Use --vocab FILE, or --vocab SOURCE_FILE TARGET_FILE."
        )
    source, target = (exact or fitting)[0]
    return {"tokenizer": t2t_subwords(*dict.fromkeys((source, target))).tokenizer, "target_tokens": tokens[target]}


def number(options: Options, name: str, default: int = 0) -> int:
    value = options.take(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        options.refuse(f"{name}={value!r} (supported: a number)")
        return default
    return value
