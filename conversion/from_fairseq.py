"""fairseq's Transformer, as its versions 0.6 to 0.12 write it: a `.pt` with `dict.*.txt` beside it."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from vaswani_transformer import VaswaniConfig

from .core import ConversionError, Converted, Options, generation_config
from .mapping import Table
from .reading import load_pickle, sha256
from .segmentation import SPACE, Moses, Segmentation, Vocabulary, sentencepiece, subword_nmt, words


IGNORED = (
    r"(en|de)coder\.version",
    r"(en|de)coder\.embed_positions\.(_float_tensor|weights)",  # of sinusoids
    # copies that 0.12 keeps for a fused kernel; zeros until the model was loaded once
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)",
)
# What 0.6 called the norms of the encoder, and how it fused queries, keys and values.
OLD_NAMES = {"layer_norms.0": "self_attn_layer_norm", "layer_norms.1": "final_layer_norm"}

TABLE = Table(
    """
    model.encoder.embed_tokens                       encoder.embed_tokens
    model.decoder.embed_tokens                       decoder.embed_tokens
    lm_head                                          decoder.output_projection
    model.encoder.embedding.positions                encoder.embed_positions
    model.decoder.embedding.positions                decoder.embed_positions

    model.encoder.layers.{e}.self_attn.qkv_proj      encoder.layers.{e}.self_attn.{q,k,v}_proj
    model.encoder.layers.{e}.self_attn.out_proj      encoder.layers.{e}.self_attn.out_proj
    model.encoder.layers.{e}.self_attn_norm          encoder.layers.{e}.self_attn_layer_norm
    model.encoder.layers.{e}.feed_forward.fc1        encoder.layers.{e}.fc1
    model.encoder.layers.{e}.feed_forward.fc2        encoder.layers.{e}.fc2
    model.encoder.layers.{e}.feed_forward_norm       encoder.layers.{e}.final_layer_norm
    model.encoder.norm                               encoder.layer_norm

    model.decoder.layers.{d}.self_attn.qkv_proj      decoder.layers.{d}.self_attn.{q,k,v}_proj
    model.decoder.layers.{d}.self_attn.out_proj      decoder.layers.{d}.self_attn.out_proj
    model.decoder.layers.{d}.self_attn_norm          decoder.layers.{d}.self_attn_layer_norm
    model.decoder.layers.{d}.cross_attn.q_proj       decoder.layers.{d}.encoder_attn.q_proj
    model.decoder.layers.{d}.cross_attn.kv_proj      decoder.layers.{d}.encoder_attn.{k,v}_proj
    model.decoder.layers.{d}.cross_attn.out_proj     decoder.layers.{d}.encoder_attn.out_proj
    model.decoder.layers.{d}.cross_attn_norm         decoder.layers.{d}.encoder_attn_layer_norm
    model.decoder.layers.{d}.feed_forward.fc1        decoder.layers.{d}.fc1
    model.decoder.layers.{d}.feed_forward.fc2        decoder.layers.{d}.fc2
    model.decoder.layers.{d}.feed_forward_norm       decoder.layers.{d}.final_layer_norm
    model.decoder.norm                               decoder.layer_norm
    """,
    ignored=IGNORED,
)

PAD, EOS = 1, 2
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_fast": "gelu_new",
    "gelu_accurate": "gelu_new",
    "tanh": "tanh",
    "swish": "silu",
    "relu_squared": "relu2",
    "linear": "linear",
}
# Their names begin as the Transformer's presets do, but they are language models, or read the source as it comes.
OTHER_ARCHITECTURES = ("transformer_lm", "transformer_ulm", "transformer_unidirectional", "transformer_monotonic")
# Each changes the model in a way that its weights do not show, or that the paper's model cannot take.
MUST_BE_OFF = (
    "adaptive_softmax_cutoff", "adaptive_input", "cross_self_attention", "layernorm_embedding", "no_cross_attention",
    "encoder_layers_to_keep", "decoder_layers_to_keep", "scale_fc", "scale_attn", "scale_heads", "scale_resids",
    "relative_pos_type", "character_embeddings", "char_inputs", "base_layers", "quant_noise_scalar",
    "encoder_xformers_att_config", "decoder_xformers_att_config", "simul_type",
)  # fmt: skip


# Beside the checkpoint, as fairseq's own recipes and releases name them.
CODES = ("bpecodes", "bpe.codes", "bpe-codes", "bpe.32k", "bpe.32000", "code", "codes")
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3; dict.txt begins after them
# What fairseq calls the steps that a text goes through.
TOKENIZERS = (None, "space", "moses")
SUBWORDS = (None, "subword_nmt", "fastbpe", "sentencepiece")


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--codes", type=Path, metavar="FILE", help="codes of subword-nmt or fastBPE")
    parser.add_argument("--spm", type=Path, metavar="FILE", help="a model of SentencePiece")
    parser.add_argument("--moses", action="store_true", help="the model was trained on text tokenized by Moses")
    parser.add_argument(
        "--languages",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="such as de en, where the checkpoint names none or others",
    )


def convert(
    source: Path, unsafe: bool = False, codes: Path | None = None, spm: Path | None = None, moses: bool = False,
    languages: Sequence[str] | None = None,
) -> Converted:  # fmt: skip
    """A checkpoint file, or the folder that holds one; `dict.*.txt` and the segmentation's files are looked for there.

    Raises:
        ConversionError: it is no such checkpoint, is damaged, uses what is not supported, or its vocabulary is of
            another model.
    """
    path = find(source)
    saved = load_pickle(
        path,
        allowed=[argparse.Namespace],
        ignored=[f"fairseq.meters.{name}Meter" for name in ("Average", "Time", "Stopwatch")],
        unsafe=unsafe,
    )
    if not isinstance(saved, dict) or not isinstance(saved.get("model"), dict):
        raise ConversionError(f"{path} is no checkpoint of fairseq: it has no state dict called 'model'.")
    recorded = (saved.get("cfg") or {}).get("model") or saved.get("args")
    if recorded is None:
        raise ConversionError(f"{path} is no checkpoint of fairseq: it has neither 'args' nor 'cfg'.")
    options = recorded if isinstance(recorded, dict) else vars(recorded)
    tensors = modern_names(saved["model"])
    task = section(saved, "task")
    config = read_config(options, task.get("_name", task.get("task")), tensors)
    if "decoder.output_projection.weight" not in tensors:  # old files keep a tied matrix once
        tensors["decoder.output_projection.weight"] = tensors["decoder.embed_tokens.weight"]
    said = task.get("source_lang"), task.get("target_lang")
    pair = said if languages is None else tuple(languages)
    vocabularies = read_vocabularies(path.parent, pair if None in said else said, config)
    made = tokenizer(saved, path.parent, vocabularies, pair, codes, spm, moses) if vocabularies else None
    facts = {"files": {path.name: sha256(path)}, "arch": options.get("arch")}
    for name, language in zip(("source_language", "target_language"), pair, strict=True):
        facts[name] = language if language not in ("src", "trg", "tgt") else None
    if made is not None and made.differences:
        facts["tokenizer_differences"] = made.differences
    return Converted(
        toolkit="fairseq",
        config=config,
        tokenizer=None if made is None else made.tokenizer,
        target_tokens=vocabularies[1].tokens if vocabularies else (),
        weights=TABLE.read(tensors, config),
        # 0.12 and before rank by log P / length^lenpen and stop once as many hypotheses as beams have ended.
        generation=generation_config(config, length_penalty=1.0, length_penalty_offset=0, early_stopping=True),
        facts=facts,
    )


def section(saved: dict, name: str) -> dict:
    """What the checkpoint says of its task, tokenizer or bpe; before 0.12 all its options are in one place."""
    values = (saved.get("cfg") or {}).get(name) or saved.get("args") or {}
    if isinstance(values, str):
        return {name: values}
    return values if isinstance(values, dict) else vars(values)


def read_vocabularies(
    folder: Path, languages: tuple[str | None, str | None], config: VaswaniConfig
) -> tuple[Vocabulary, Vocabulary] | None:
    """Source and target, from `dict.<language>.txt`; None where there are no such files.

    Raises:
        ConversionError: a file is damaged, or has another number of tokens than the model.
    """
    there = sorted(folder.glob("dict*.txt"))
    if not there:
        return None
    paths = [folder / f"dict.{language}.txt" for language in languages]
    if not all(path.is_file() for path in paths):
        if len(there) > 1 and config.share_embeddings != "all":
            if None in languages:
                raise ConversionError(f"Which dict.*.txt in {folder} is which? Give --languages SOURCE TARGET.")
            names = " and ".join(path.name for path in paths)
            raise ConversionError(f"{folder} has none of {names}, which would be the vocabularies of this checkpoint.")
        paths = [there[0]] * 2
    sizes = config.vocab_size, config.decoder_vocab_size
    source, target = (read_dictionary(path, size) for path, size in zip(paths, sizes, strict=True))
    return source, target


def read_dictionary(path: Path, size: int) -> Vocabulary:
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise ConversionError(f"{path} is no dictionary of fairseq: it is not text.") from None
    rows = [line.removesuffix(" #fairseq:overwrite").rsplit(" ", 1) for line in lines]
    if wrong := [number for number, row in enumerate(rows, 1) if len(row) != 2 or not row[1].isdecimal()]:
        raise ConversionError(f"{path} is no dictionary of fairseq: line {wrong[0]} is not a token and its count.")
    tokens = (*SPECIAL, *(token for token, _ in rows))
    if len(tokens) != size:
        raise ConversionError(
            f"{path} is the wrong vocabulary: with the four special tokens it has {len(tokens)} entries, the model "
            f"has {size}."
        )
    return Vocabulary(tokens, bos=0, pad=PAD, eos=EOS, unk=3)


def tokenizer(
    saved: dict, folder: Path, vocabularies: tuple[Vocabulary, Vocabulary], languages: tuple[str | None, str | None],
    codes: Path | None, spm: Path | None, moses: bool,
) -> Segmentation:  # fmt: skip
    """With the codes or the SentencePiece model given, or found in `folder`. Training seldom records what the text went
    through before.

    Raises:
        ConversionError: what it records is not supported, or a file is damaged.
    """
    said, bpe = section(saved, "tokenizer"), section(saved, "bpe")
    names = {"tokenizer": said.get("_name", said.get("tokenizer")), "bpe": bpe.get("_name", bpe.get("bpe"))}
    if wrong := [
        f"{step}={names[step]!r} (supported: {', '.join(known[1:])})"
        for step, known in (("tokenizer", TOKENIZERS), ("bpe", SUBWORDS))
        if names[step] not in known
    ]:
        raise ConversionError.of(
            "This model's text goes through what is not supported; without dict.*.txt it converts without a tokenizer",
            wrong,
        )
    around = None
    if moses or names["tokenizer"] == "moses":
        languages = tuple(
            found or said.get(f"{side}_lang") or said.get(f"moses_{side}_lang")
            for side, found in zip(("source", "target"), languages, strict=True)
        )
        if None in languages:
            raise ConversionError("The checkpoint does not say its languages, which Moses needs; give --languages.")
        around = Moses(
            *languages, dash_splits=not said.get("moses_no_dash_splits"), escape=not said.get("moses_no_escape")
        )
    if codes is None and spm is None:
        codes, spm = files_beside(folder, names["bpe"], bpe)
    separator = bpe.get("bpe_separator") or "@@"
    if codes is not None:
        return subword_nmt(codes, *vocabularies, separator=separator, moses=around)
    if spm is not None:
        return sentencepiece(spm, *vocabularies, moses=around)
    marks = [
        mark
        for mark, there in ((separator, str.endswith), (SPACE, str.startswith))
        if any(there(token, mark) for token in vocabularies[0].tokens)
    ]
    made = words(*vocabularies, separator=marks[0] if marks else None, moses=around)
    if marks:
        option = "--spm" if marks[0] == SPACE else "--codes"
        made.differences = [f"Texts have to come in pieces already; {option} FILE names what cuts them."]
    return made


def files_beside(folder: Path, kind: str | None, said: dict) -> tuple[Path | None, Path | None]:
    """The codes or the SentencePiece model in `folder`: under the name that the checkpoint records, or a usual one."""
    recorded = [said.get(key) for key in ("bpe_codes", "sentencepiece_model", "sentencepiece_vocab")]
    recorded = [folder / Path(str(name)).name for name in recorded if name]
    models = sorted(folder.glob("*.model"))
    codes, models = (
        [path for path in [*recorded, *usual] if path.is_file()]
        for usual in ([folder / name for name in CODES], models if len(models) == 1 else [])
    )
    if codes and kind != "sentencepiece":
        return codes[0], None
    return None, models[0] if models and kind in (None, "sentencepiece") else None


def find(source: Path) -> Path:
    if source.is_file():
        return source
    for name in ("checkpoint_best.pt", "checkpoint_last.pt", "model.pt"):
        if (source / name).is_file():
            return source / name
    there = sorted(source.glob("*.pt"))
    if len(there) == 1:
        return there[0]
    if there:
        names = ", ".join(path.name for path in there)
        raise ConversionError(f"{source} holds several checkpoints ({names}), such as those of an ensemble: name one.")
    raise FileNotFoundError(f"{source} is neither a file nor a folder with a checkpoint_best.pt or checkpoint_last.pt.")


def modern_names(model: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The state dict of any version under the names of 0.12."""
    tensors = {}
    for name, tensor in model.items():
        for old, new in OLD_NAMES.items():
            name = name.replace(old, new)
        if name == "decoder.embed_out":
            name = "decoder.output_projection.weight"
        attention, fused, kind = name.rpartition(".in_proj_")
        if fused and attention.endswith("_attn"):
            tensors.update(
                {f"{attention}.{x}_proj.{kind}": part for x, part in zip("qkv", tensor.chunk(3), strict=True)}
            )
        else:
            tensors[name] = tensor
    return tensors


def flat(options: dict) -> dict:
    """`encoder: {embed_dim: ...}`, as 0.12 may nest some options, as `encoder_embed_dim`."""
    groups = ("encoder", "decoder", "quant_noise")
    nested = {name: options[name] for name in groups if isinstance(options.get(name), dict)}
    inner = {f"{group}_{name}": value for group, values in nested.items() for name, value in values.items()}
    return {name: value for name, value in options.items() if name not in nested} | inner


def final_norm(options: Options, tensors: dict[str, torch.Tensor]) -> bool | None:
    """Whether pre-norm stacks end with a LayerNorm: the first versions had none; None where no stack is pre-norm."""
    stacks = [stack for stack in ("encoder", "decoder") if options.take(f"{stack}_normalize_before")]
    found = {f"{stack}.layer_norm.weight" in tensors for stack in stacks}
    if len(found) > 1:
        options.refuse("a LayerNorm after one of two pre-norm stacks (supported: after both, or after none)")
    return found.pop() if found == {False} else None


def read_config(values: dict, task: str | None, tensors: dict[str, torch.Tensor]) -> VaswaniConfig:
    options = Options(flat(values), "fairseq")
    arch = str(options.take("arch", options.take("_name", "")))
    if not arch.startswith(("transformer", "vaswani")) or arch.startswith(OTHER_ARCHITECTURES):
        options.refuse(f"arch={arch!r} (supported: transformer and its presets)")
    # Others put tags of languages or of experts before a text, or translate with more than one model.
    if task not in (None, "translation"):
        options.refuse(f"task={task!r} (supported: 'translation')")
    options.off(*MUST_BE_OFF)

    def both(name: str, default=None):
        """An option of encoder and decoder, which must agree."""
        encoder, decoder = options.take(f"encoder_{name}", default), options.take(f"decoder_{name}", default)
        if encoder != decoder:
            options.refuse(f"encoder_{name}={encoder!r} with decoder_{name}={decoder!r} (supported: the same)")
        return encoder

    d_model = both("embed_dim")
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if str(options.take(name, d_model)) != str(d_model):  # 0.12 records the text of its command line
            options.refuse(f"{name}={options.take(name)!r} (supported: {d_model})")
    learned = both("learned_pos", False)
    missing = [name for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight") if name not in tensors]
    if missing:
        options.finish()
        raise ConversionError.of("This is no Transformer of fairseq's: the state dict lacks tensors", missing)
    rows = {len(table) for name, table in tensors.items() if name.endswith("coder.embed_positions.weight")}
    if len(rows) > 1:
        options.refuse("learned positions of different numbers for source and target (supported: the same)")
    without = bool(options.take("no_token_positional_embeddings"))
    shares_all = bool(options.take("share_all_embeddings"))
    shares_target = bool(options.take("share_decoder_input_output_embed"))
    settings = dict(
        vocab_size=len(tensors["encoder.embed_tokens.weight"]),
        decoder_vocab_size=len(tensors["decoder.embed_tokens.weight"]),
        d_model=d_model,
        d_ff=options.take("encoder_ffn_embed_dim"),
        decoder_d_ff=options.take("decoder_ffn_embed_dim"),
        encoder_layers=options.take("encoder_layers"),
        decoder_layers=options.take("decoder_layers"),
        encoder_attention_heads=options.take("encoder_attention_heads"),
        decoder_attention_heads=options.take("decoder_attention_heads"),
        dropout=options.take("dropout", 0.0),
        attention_dropout=options.take("attention_dropout", 0.0),
        activation_dropout=options.take("activation_dropout") or options.take("relu_dropout", 0.0),
        activation_function=options.choice("activation_fn", ACTIVATIONS, default="relu"),
        norm_position="pre" if options.take("encoder_normalize_before") else "post",
        decoder_norm_position="pre" if options.take("decoder_normalize_before") else "post",
        final_norm=final_norm(options, tensors),
        layer_norm_eps=1e-5,
        position_encoding="none" if without else "learned" if learned else "sinusoidal",
        position_layout="concatenated",
        position_divisor="half_minus_one",
        position_offset=PAD + 1,
        max_position_embeddings=rows.pop() if learned and rows else None,
        attention_bias=True,
        scale_embedding=not options.take("no_scale_embedding"),
        share_embeddings="all" if shares_all else "target" if shares_target else "none",
        zero_pad_embedding=False,
        label_smoothing=options.take("label_smoothing", 0.0),
        label_smoothing_type="uniform",
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=0,
        decoder_start_token_id=EOS,
    )
    return options.config(**settings)
