"""Opening checkpoints, and translating with them: shared by every program here that measures a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from .recipe import load_recipe


if TYPE_CHECKING:  # importing torch and transformers takes seconds, so it waits until the command line is parsed
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load(source: str, device: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model onto a device, and its tokenizer.

    Raises:
        ValueError: One of them cannot be loaded, or the device does not exist; the message names it.
    """
    from transformers.utils import logging

    from vaswani_transformer import load as load_checkpoint
    from vaswani_transformer.loading import check_device

    logging.disable_progress_bar()
    check_device(device)
    model, tokenizer = load_checkpoint(source)
    try:
        return model.to(device), tokenizer
    except RuntimeError as error:  # the device is out of memory
        raise ValueError(f"Cannot use the device {device!r}: {str(error).partition(chr(10))[0]}") from error


def source_language(model: str, recipe: Path | None = None) -> str | None:
    """Return the source language that the recipe, or without one the checkpoint, records."""
    return load_recipe(recipe).source_language if recipe else recorded_fact(model, "source_language")


def recorded_fact(model: str, key: str) -> str | None:
    """Return "source_language", "target_language" or "licence" from about.json or training.json beside the weights."""
    from vaswani_transformer.locating import locate

    for name in ("about.json", "training.json"):
        if (file := Path(locate(model)) / name).is_file():
            facts = json.loads(file.read_text(encoding="utf-8"))
            return facts.get("recipe", facts).get(key)
    return None


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    batch_size: int = 32,
    progress: bool = False,
    **generate_kwargs: Any,
) -> list[str]:
    """Translate with the model alone, by `translate_texts`; `progress` shows a bar in a terminal."""
    from vaswani_transformer import translate_texts

    with tqdm(total=len(texts), disable=None if progress else True, leave=False) as bar:
        return translate_texts(model, tokenizer, texts, batch_size, bar.update, **generate_kwargs)


def translate_checked(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    batch_size: int = 32,
    **generate_kwargs: Any,
) -> list[str]:
    """Translate with the pipeline, as users do: it checks each translation and retries suspicious ones."""
    from transformers import pipeline

    translator = pipeline("translation", model=model, tokenizer=tokenizer, device=model.device)
    return [record["translation_text"] for record in translator(list(texts), batch_size=batch_size, **generate_kwargs)]
