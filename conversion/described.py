"""State dicts that say too little of their model, and the `description.json` beside them that says the rest.

description.json is an object; each converter's own documentation names its fields. What it does not say is taken from
the command line, from the `config` and `ids` of a `reference.json` in the same folder, or from the toolkit's defaults;
the command line comes first.
"""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.modeling_vaswani import sinusoidal_positions

from . import segmentation
from .core import ConversionError, Options
from .reading import beside, load_pickle, read_json, sha256
from .segmentation import Vocabulary


WRAPPERS = ("model", "state_dict", "model_state_dict")
PREFIXES = ("module.", "_orig_mod.", "model.")  # of DistributedDataParallel, torch.compile, Lightning
ROLES = ("pad", "eos", "bos", "decoder_start")
# Files beside the state dict, if they are there: one token a line in the order of ids, and subword-nmt's codes.
TEXT_FILES = {"source_vocabulary": "vocab.src.txt", "target_vocabulary": "vocab.trg.txt", "codes": "bpe.codes"}


def find(source: Path) -> Path:
    """`source`, or the one state dict in the folder."""
    if source.is_file():
        return source
    found = sorted(
        path for path in source.glob("*.*") if path.suffix in (".pt", ".pth", ".bin", ".ckpt", ".safetensors")
    )
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise FileNotFoundError(f"{source} should hold one state dict (.pt, .pth, .bin, .safetensors); found: {names}.")
    return found[0]


def load_state_dict(path: Path, unsafe: bool = False) -> dict[str, torch.Tensor]:
    """The tensors of a state dict, alone in the file or beside an optimiser's state, without wrappers' prefixes.

    Raises:
        ConversionError: the file is damaged, holds something else, or would run code.
    """
    if path.suffix == ".safetensors":
        try:
            saved = load_file(path)
        except (SafetensorError, OSError) as error:
            raise ConversionError(f"{path} is damaged, or no safetensors file: {error}") from error
    else:
        saved = load_pickle(path, unsafe=unsafe)
    if isinstance(saved, torch.nn.Module):
        saved = saved.state_dict()
    for name in WRAPPERS:
        if isinstance(saved, dict) and isinstance(saved.get(name), dict):
            saved = saved[name]
    if not isinstance(saved, dict) or not saved:
        raise ConversionError(f"{path} holds no state dict.")
    if wrong := [str(name) for name, value in saved.items() if not isinstance(value, torch.Tensor)]:
        raise ConversionError.of(f"{path} holds no state dict, for these are no tensors", wrong)
    tensors = {str(name): tensor for name, tensor in saved.items()}
    while prefix := next((p for p in PREFIXES if all(name.startswith(p) for name in tensors)), None):
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--heads", type=int, metavar="N", help="attention heads, which a state dict does not record")
    for role in ROLES:
        name = role.replace("_", "-")
        parser.add_argument(f"--{name}-id", type=int, metavar="N", help=f"the id of the {name} token")


def describe(folder: Path, toolkit: str, defaults: Mapping[str, Any], **given) -> Options:
    """What is known of the model in `folder`, as options of `toolkit`; `defaults` names all fields that there are.

    Raises:
        ConversionError: a file is no JSON object or has other fields, or nothing says the number of heads.
    """
    said = read_object(folder / "description.json")
    if unknown := sorted(said.keys() - defaults.keys()):
        raise ConversionError(
            f"{folder / 'description.json'} says {', '.join(unknown)}; its fields are {', '.join(defaults)}. "
            "--help says what each is."
        )
    recorded = read_object(folder / "reference.json")
    config, ids = (value if isinstance(value, dict) else {} for value in map(recorded.get, ("config", "ids")))
    config = {field: config[field] for field in defaults.keys() & config.keys()}
    chosen = {field: given[field] for field in defaults.keys() & given.keys() if given[field] is not None}
    values = {**defaults, **config, **said, **chosen}
    if not isinstance(said.get("ids", {}), dict):
        raise ConversionError(f"{folder / 'description.json'}: 'ids' is no object.")
    values["ids"] = {**defaults["ids"], **ids, **said.get("ids", {})}
    values["ids"].update({role: given[f"{role}_id"] for role in ROLES if given.get(f"{role}_id") is not None})
    options = Options(values, toolkit)
    if values["heads"] is None:
        raise ConversionError(
            'A state dict does not record the number of attention heads: say it as {"heads": 8} in '
            f"{folder / 'description.json'}, or as --heads 8. --help tells what else may have to be said."
        )
    return options


def read_object(path: Path) -> dict:
    return read_json(path) if path.is_file() else {}


def ids(options: Options) -> dict[str, int]:
    """The special ids, as fields of the configuration; what are no ids is noted."""
    said = options.values["ids"]
    for role in (*ROLES, "unk"):
        if not isinstance(number := said.get(role), int | None) or isinstance(number, bool):
            options.refuse(f"ids: {role}={number!r} (supported: the number of a token)")
    return {
        "pad_token_id": said["pad"],
        "eos_token_id": said["eos"],
        "bos_token_id": said.get("bos"),
        "decoder_start_token_id": said["bos"] if said.get("decoder_start") is None else said["decoder_start"],
    }


def with_tokenizer(path: Path, options: Options, config: VaswaniConfig) -> dict[str, Any]:
    """`facts` of `Converted`, and `tokenizer` and `target_tokens` where the vocabularies' files are beside the file.

    A source is fed between its begin and end tokens.

    Raises:
        ConversionError: a vocabulary is of another size than the model's, or a file that was named is not there.
    """
    facts = {"files": {path.name: sha256(path)}, "description": options.values}
    files = {field: beside(path.parent, options.values[field]) for field in TEXT_FILES}
    lost = {field: options.values[field] for field, file in files.items() if file is None}
    if named := [f"{field}={name!r}" for field, name in lost.items() if name not in (None, TEXT_FILES[field])]:
        raise ConversionError.of(f"description.json names files that are not in {path.parent}", named)
    if lost.keys() - {"codes"}:
        return {"facts": facts}
    special = {"pad": config.pad_token_id, "eos": config.eos_token_id, "bos": config.bos_token_id}
    special["unk"] = options.values["ids"].get("unk")
    sides = []
    for field, size in (("source_vocabulary", config.vocab_size), ("target_vocabulary", config.decoder_vocab_size)):
        try:
            tokens = files[field].read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise ConversionError(f"{files[field]} is no vocabulary: it is not text.") from error
        if len(tokens) != size:
            raise ConversionError(f"{files[field]} has {len(tokens)} tokens, the model has {size}.")
        if wrong := [name for name, i in special.items() if i is not None and not 0 <= i < size]:
            raise ConversionError.of("description.json: these ids are outside the vocabulary", wrong)
        before = () if config.bos_token_id is None else (config.bos_token_id,)
        sides.append(Vocabulary(tokens, **special, before=before))
    if files["codes"] is not None:
        made = segmentation.subword_nmt(files["codes"], *sides)
    else:
        in_pieces = any(token.endswith("@@") for token in sides[0].tokens)
        made = segmentation.words(*sides, separator="@@" if in_pieces else None)
    if made.differences:
        facts["tokenizer_differences"] = made.differences
    return {"tokenizer": made.tokenizer, "target_tokens": sides[1].tokens, "facts": facts}


def count_layers(tensors: Iterable[str], prefix: str) -> int:
    """How many different numbers follow `prefix` in names."""
    return len({name[len(prefix) :].partition(".")[0] for name in tensors if name.startswith(prefix)})


def shared(source: torch.Tensor, target: torch.Tensor, softmax: torch.Tensor) -> str:
    """`share_embeddings`, which a state dict shows by equal matrices."""
    if not torch.equal(target, softmax):
        return "none"
    return "all" if torch.equal(source, target) else "target"


def position_settings(table: torch.Tensor, d_model: int) -> dict[str, Any]:
    """What a table of positions [max, 1, D], [1, max, D] or [max, D] is: sinusoids of a known kind, else learned.

    Raises:
        ConversionError: it has another shape.
    """
    table = rows(table)
    if table.shape[1] != d_model:
        raise ConversionError(f"A table of positions has {table.shape[1]} columns, the embeddings have {d_model}.")
    places = torch.arange(len(table))
    # The angle's error in float32 grows with the position.
    tolerance = 1e-6 * (10 + places[:, None])
    if d_model >= 4 and d_model % 2 == 0:
        for layout in ("interleaved", "concatenated"):
            for divisor in ("half", "half_minus_one"):
                settings = {"position_layout": layout, "position_divisor": divisor}
                config = VaswaniConfig(
                    d_model=d_model, encoder_attention_heads=1, decoder_attention_heads=1, **settings
                )
                if ((sinusoidal_positions(places, config) - table).abs() < tolerance).all():
                    return {"position_encoding": "sinusoidal", **settings}
    return {"position_encoding": "learned", "max_position_embeddings": len(table)}


def rows(table: torch.Tensor) -> torch.Tensor:
    """A table of positions as [max, D].

    Raises:
        ConversionError: it has another shape.
    """
    if table.dim() == 3 and 1 in table.shape[:2]:
        table = table.flatten(0, 1)
    if table.dim() != 2 or not len(table):
        raise ConversionError(
            f"A table of positions has the shape {list(table.shape)}, not [max, 1, D] or [1, max, D]."
        )
    return table.float()


def random_inputs(
    config: VaswaniConfig, sentences: int = 4, length: int = 12, seed: int = 0
) -> dict[str, torch.Tensor]:
    """Random sources and targets of different lengths, padded on the right; see `verify.compare`."""
    generator = torch.Generator().manual_seed(seed)
    if config.position_encoding == "learned":
        length = min(length, config.max_position_embeddings)
    lengths = torch.linspace(length, max(1, length // 2), sentences).long()
    mask = (torch.arange(length) < lengths[:, None]).long()
    shape = (sentences, length)
    source = torch.randint(config.vocab_size, shape, generator=generator)
    target = torch.randint(config.decoder_vocab_size, shape, generator=generator)
    target[:, 0] = config.decoder_start_token_id
    return {
        "input_ids": source.masked_fill(mask == 0, config.pad_token_id),
        "attention_mask": mask,
        "decoder_input_ids": target,
        "decoder_attention_mask": mask.flip(0),
    }
