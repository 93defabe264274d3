"""Common code for state dicts without options, whose models `description.json` describes.

Each converter lists the fields of description.json. Command-line options override it. Missing fields are taken from
`config` and `ids` of a `reference.json` in the same folder, then from the toolkit's defaults.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict

import torch
import typer

from vaswani_transformer import VaswaniConfig

from ..converted import Converted, by_mean_log_probability
from ..files.arrays import read_safetensors
from ..files.folders import beside, checkpoint_in
from ..files.pickles import load_pickle
from ..files.text import check_count, read_json_object, read_lines
from ..options import ConversionError, Fields, Options, shown
from ..segmentation import ConvertedTokenizer, Vocabulary, choose


# The end of --help, after the converter's fields.
FILES = """
Three more fields name files: "source_vocabulary" (vocab.src.txt) and "target_vocabulary" (vocab.trg.txt), one token per
line in the order of ids, and "codes" (bpe.codes) of subword-nmt. Without codes, texts are split at spaces.

The state dict may be saved under "model", "state_dict" or "model_state_dict". A prefix shared by all names (module.,
_orig_mod. or model.) is removed.
"""
WRAPPERS = ("model", "state_dict", "model_state_dict")
PREFIXES = ("module.", "_orig_mod.", "model.")  # of DistributedDataParallel, torch.compile, Lightning
ROLES = ("pad", "eos", "bos", "decoder_start")
# Optional files beside the state dict: one token per line in the order of ids, and subword-nmt's codes.
TEXT_FILES = {"source_vocabulary": "vocab.src.txt", "target_vocabulary": "vocab.trg.txt", "codes": "bpe.codes"}

IDS = Fields(
    """
    pad_token_id                ids.pad
    eos_token_id                ids.eos
    bos_token_id                ids.bos
    decoder_start_token_id      ids.decoder_start
    """
)


class Given(TypedDict, total=False):
    """The options of the converters, which override description.json."""

    heads: Annotated[
        int | None, typer.Option(metavar="N", help="Number of attention heads, which a state dict does not record.")
    ]
    pad_id: Annotated[int | None, typer.Option(metavar="N", help="Id of the pad token.")]
    eos_id: Annotated[int | None, typer.Option(metavar="N", help="Id of the eos token.")]
    bos_id: Annotated[int | None, typer.Option(metavar="N", help="Id of the bos token.")]
    decoder_start_id: Annotated[int | None, typer.Option(metavar="N", help="Id of the decoder's start token.")]


def find(source: Path) -> Path:
    return checkpoint_in(source, "*.pt", "*.pth", "*.bin", "*.ckpt", "*.safetensors")


def load_state_dict(path: Path, unsafe: bool = False) -> dict[str, torch.Tensor]:
    """Loads a state dict, alone or saved with other training state, and removes the prefixes of wrappers.

    Raises:
        ConversionError: the file is damaged, contains anything else, or would run code.
    """
    saved = read_safetensors(path) if path.suffix == ".safetensors" else load_pickle(path, unsafe=unsafe)
    if isinstance(saved, torch.nn.Module):
        saved = saved.state_dict()
    for name in WRAPPERS:
        if isinstance(saved, dict) and isinstance(saved.get(name), dict):
            saved = saved[name]
    if not isinstance(saved, dict) or not saved:
        raise ConversionError(f"{path} does not contain a state dict.")
    if wrong := [str(name) for name, value in saved.items() if not isinstance(value, torch.Tensor)]:
        raise ConversionError.from_problems(
            f"{path} does not contain a state dict; these entries are not tensors", wrong
        )
    tensors = {str(name): tensor for name, tensor in saved.items()}
    while prefix := next((p for p in PREFIXES if all(name.startswith(p) for name in tensors)), None):
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def describe(folder: Path, toolkit: str, defaults: Mapping[str, Any], **given) -> Options:
    """Collects the description of the model in `folder`. `defaults` lists all fields.

    Raises:
        ConversionError: a file is not a JSON object or has unknown fields, or the number of heads is missing.
    """
    file = folder / "description.json"
    described = read_object(file)
    if unknown := sorted(described.keys() - defaults.keys()):
        raise ConversionError(
            f"Unknown fields in {file}: {', '.join(unknown)}. Known fields: {', '.join(defaults)}; see --help."
        )
    recorded = read_object(folder / "reference.json")
    config, ids = (value if isinstance(value, dict) else {} for value in map(recorded.get, ("config", "ids")))
    config = {field: config[field] for field in defaults.keys() & config.keys()}
    chosen = {field: given[field] for field in defaults.keys() & given.keys() if given[field] is not None}
    values = {**defaults, **config, **described, **chosen}
    if not isinstance(described.get("ids", {}), dict):
        raise ConversionError(f"{file}: 'ids' is not an object.")
    values["ids"] = {**defaults["ids"], **ids, **described.get("ids", {})}
    values["ids"].update({role: given[f"{role}_id"] for role in ROLES if given.get(f"{role}_id") is not None})
    if values["ids"].get("decoder_start") is None:
        values["ids"]["decoder_start"] = values["ids"].get("bos")
    if values["heads"] is None:
        raise ConversionError(
            "The number of attention heads is not recorded. Pass it with --heads, for example --heads 8, or set it in "
            f"{file}. See --help for other fields."
        )
    options = Options(values, toolkit)
    for role, number in values["ids"].items():
        if not isinstance(number, int | None) or isinstance(number, bool):
            options.refuse(f"ids: {role}={shown(number)} (supported: the id of a token)")
    return options


def read_object(path: Path) -> dict:
    return read_json_object(path) if path.is_file() else {}


def converted(path: Path, options: Options, config: VaswaniConfig, weights: Mapping[str, torch.Tensor]) -> Converted:
    """Assembles the result, with a tokenizer if the vocabularies are beside the state dict."""
    sides, tokenizer = read_tokenizer(path.parent, options, config)
    return Converted.from_checkpoint(
        options.toolkit,
        config,
        weights,
        by_mean_log_probability(config),  # the code of such models has only a greedy search
        tokenizer,
        files=[path],
        facts={"description": options.values},
        target_tokens=sides[1].tokens if sides else (),
    )


def read_tokenizer(
    folder: Path, options: Options, config: VaswaniConfig
) -> tuple[list[Vocabulary], ConvertedTokenizer | None]:
    """Builds the tokenizer. A source is encoded between its begin and end tokens.

    Raises:
        ConversionError: a vocabulary does not match the model's size, or a named file is missing.
    """
    files = {field: beside(folder, options.values[field]) for field in TEXT_FILES}
    lost = {field: options.values[field] for field, file in files.items() if file is None}
    if named := [f"{field}={name!r}" for field, name in lost.items() if name not in (None, TEXT_FILES[field])]:
        raise ConversionError.from_problems(f"description.json names files that are not in {folder}", named)
    if lost.keys() - {"codes"}:
        return [], None
    special = {"pad": config.pad_token_id, "eos": config.eos_token_id, "bos": config.bos_token_id}
    special["unk"] = options.values["ids"].get("unk")
    sides = []
    for field, size in (("source_vocabulary", config.vocab_size), ("target_vocabulary", config.decoder_vocab_size)):
        tokens = read_lines(files[field])
        check_count(files[field], tokens, size)
        if wrong := [name for name, i in special.items() if i is not None and not 0 <= i < size]:
            raise ConversionError.from_problems("description.json: these ids are outside the vocabulary", wrong)
        before = () if config.bos_token_id is None else (config.bos_token_id,)
        sides.append(Vocabulary(tokens, **special, before=before))
    advice = "Put subword-nmt's bpe.codes beside the state dict to include the segmentation."
    return sides, choose(*sides, files["codes"], advice=advice)
