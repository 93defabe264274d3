"""Which checkpoint a command uses, and its pipeline."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from .. import catalogue
from ..languages import same_language
from ..system.console import Failure, err, print_message
from .options import ModelChoice


def choose(choice: ModelChoice) -> str:
    """Returns the folder or the Hub id of the chosen checkpoint, converted if another toolkit wrote it.

    Raises:
        Failure: there is none; the message lists the alternatives.
    """
    from ..locating import locate, locate_by_languages

    try:
        if choice.checkpoint is None:
            source = locate_by_languages(choice.source_language, choice.to, choice.download)
        else:
            source = locate(choice.checkpoint, choice.to)
        about = catalogue.read_about(Path(source))
    except ValueError as error:
        raise Failure(str(error)) from error
    if about:
        check_language("--from", choice.source_language, about.source_language, f"{about.name} translates from")
        check_language("--to", choice.to, about.target_language, f"{about.name} translates into")
    return source


def check_language(option: str, requested: str | None, language: str, fact: str):
    if requested and language and not same_language(requested, language):
        raise Failure(f"{fact} {language!r}, not {requested!r}. Leave out {option}, or choose another --checkpoint.")


def check_int8_device(device: str | None) -> str:
    """Returns the only device for int8.

    Raises:
        Failure: another device was requested.
    """
    if device is not None and not device.startswith("cpu"):
        raise Failure(f"int8 works on CPUs only. Use --device cpu, or --dtype bfloat16 on {device!r}.")
    return "cpu"


def load_pipeline(source: str, device: str | None, dtype: str, threads: int | None = None) -> Any:
    """Loads the translation pipeline of a folder or a Hub id, with or without a revision.

    Raises:
        Failure: the checkpoint or the device cannot be used.
    """
    import torch
    from huggingface_hub.utils import logging as hub_logging
    from transformers.utils import logging

    from .. import TranslationPipeline, load
    from ..loading import check_device
    from ..system.memory import keep_freed_memory

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    hub_logging.set_verbosity_error()
    keep_freed_memory()
    if threads:
        torch.set_num_threads(threads)
    try:
        if device:
            check_device(device)
        if dtype == "int8":
            device = check_int8_device(device)
        model, tokenizer = load(source, dtype=dtype)
        pipeline = TranslationPipeline(model=model, tokenizer=tokenizer, device=device)
    except (RuntimeError, ValueError) as error:  # RuntimeError: the device is out of memory
        raise Failure(str(error).partition("\n")[0]) from error
    if dtype == "auto" and pipeline.device.type == "cpu" and not getattr(model, "is_quantized", False):
        model.float()
    return pipeline


def load_with_status(source: str, *arguments: Any) -> Any:
    """Loads a pipeline like `load_pipeline`, with a line on the terminal while it loads."""
    with err.status(f"Loading {catalogue.display_name(source)}") if err.is_terminal else nullcontext():
        return load_pipeline(source, *arguments)


def is_own(folder: Path) -> bool:
    """Whether a folder is the user's own, not in the package or the cache: only such a folder may be changed."""
    return folder.is_dir() and folder.parent != catalogue.CHECKPOINTS and not (folder / catalogue.CACHED).is_file()


def note_default_calibration(source: str, pipeline: Any, settings: Mapping[str, Any]):
    """Prints a note if the settings ask for confidence and the checkpoint has no calibration of its own."""
    wanted = settings.get("return_confidence") or {"min_confidence", "min_word_confidence"} & settings.keys()
    if wanted and not pipeline.is_calibrated:
        name = catalogue.display_name(source)
        arguments = f"{source} FILE" if is_own(Path(source)) else f"{name} FILE --output FOLDER"
        print_message(
            f"{name} has no calibration of its own; its confidence uses the default one, which is the mean of the "
            f"included checkpoints'. `vaswani calibrate {arguments}` fits it to your translations.",
            "bold",
            "note",
        )
