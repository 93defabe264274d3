"""What every exporter does: read a checkpoint of ours, and write a folder for another runtime whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.catalogue import resolve, split_revision
from vaswani_transformer.files import whole_folder

from .core import ConversionError
from .writing import check_new


def load(checkpoint: str, **settings) -> tuple[VaswaniForConditionalGeneration, PreTrainedTokenizerBase | None]:
    """The model in float32 and evaluation mode, and its tokenizer if it has one; `checkpoint` as `resolve` takes it.

    Raises:
        ConversionError: there is no such checkpoint, it is none of ours, weights are missing in it, or it is damaged.
    """
    folder = folder_of(checkpoint)
    try:
        model, report = VaswaniForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, **settings
        )
    except Exception as error:  # what a damaged file leads to depends on which and where
        raise ConversionError(f"{checkpoint} cannot be loaded: {' '.join(str(error).split())}") from error
    if missing := sorted(report["missing_keys"]):
        raise ConversionError.of(f"{checkpoint} lacks weights", missing)
    if not (folder / "tokenizer_config.json").is_file():
        return model.eval(), None
    try:
        return model.eval(), AutoTokenizer.from_pretrained(folder)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConversionError(f"The tokenizer of {checkpoint} cannot be loaded: {reason}") from error


def folder_of(checkpoint: str) -> Path:
    """Of a Hub id, where it was downloaded to.

    Raises:
        ConversionError: there is no such checkpoint.
    """
    try:
        name, revision = split_revision(resolve(str(checkpoint)))
        return Path(name) if Path(name).is_dir() else Path(snapshot_download(name, revision=revision))
    except Exception as error:  # a connection's errors are those of whatever library the client uses
        raise ConversionError(str(error)) from error


@contextmanager
def exported_folder(out: Path, checkpoint: str, tokenizer: PreTrainedTokenizerBase | None = None) -> Iterator[Path]:
    """A folder to fill, which becomes `out` when the block ends without an error; tokenizer and card come with it.

    Raises:
        ConversionError: `out` is something else than a new or empty folder.
    """
    check_new(out)
    with whole_folder(out) as folder:
        yield folder
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        card = folder_of(checkpoint) / "README.md"  # it names the licence
        if card.is_file():
            shutil.copy(card, folder)


def sample_ids(config, lengths: tuple[int, ...], vocab_size: int) -> list[list[int]]:
    """Sentences of ordinary tokens and `</s>` at the end, to compare with: the same at each call."""
    eos = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    special = {config.pad_token_id, config.bos_token_id, config.decoder_start_token_id, eos}
    ordinary = torch.tensor([i for i in range(vocab_size) if i not in special])
    generator = torch.Generator().manual_seed(0)
    drawn = [ordinary[torch.randint(len(ordinary), (length,), generator=generator)].tolist() for length in lengths]
    return [ids if eos is None else [*ids, eos] for ids in drawn]


def padded(rows: list[list[int]], pad: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentences as ids [N, S], padded on the right, and their mask [N, S]."""
    ids = torch.full((len(rows), max(map(len, rows))), pad or 0)
    mask = torch.zeros_like(ids)
    for row, sentence in enumerate(rows):
        ids[row, : len(sentence)], mask[row, : len(sentence)] = torch.tensor(sentence), 1
    return ids, mask
