"""Imports a checkpoint of another toolkit: converts it, compares it with the original, and writes it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from transformers import PreTrainedModel

from .converted import Converted
from .files.folders import check_new
from .files.hf_folder import languages, named_languages
from .hub.repository import write
from .options import ConversionError
from .parity.recorded import compare_recorded
from .parity.scores import Parity, check_it_runs


class Imported(NamedTuple):
    """A checkpoint that was imported, and its comparisons with the original; none if nothing could be compared."""

    converted: Converted
    parameters: int
    checks: list[Parity]


def import_checkpoint(
    toolkit: ModuleType,
    source: Path,
    out: Path,
    reference: Path | None = None,
    unsafe: bool = False,
    options: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    name: str | None = None,
    report: Callable[[str], object] = lambda message: None,
) -> Imported:
    """Converts a checkpoint, compares it with the original, and writes it to the folder `out`.

    Args:
        toolkit: A module of `toolkits`.
        source: The checkpoint's file or folder.
        out: A new or empty folder.
        reference: Logits computed by the toolkit; by default reference.npz beside the checkpoint, if there is one.
        unsafe: Allows pickles that run code.
        options: The toolkit's own options.
        facts: Facts about the origin that the caller knows, such as the repository.
        name: The model's name on its card; by default that of the folder.
        report: Is called with each result, as a line of text.

    Raises:
        ConversionError: it cannot be converted, or it differs from the original; then nothing is written.
        FileNotFoundError: a file is missing.
    """
    check_new(out)  # fail before the work, not after it
    converted = toolkit.convert(source, unsafe=unsafe, **options or {})
    converted.facts |= facts or {}
    for key, code in languages(*(named_languages(name or source.name) or (None, None))).items():
        converted.facts[key] = converted.facts.get(key) or code
    for difference in converted.facts.get("tokenizer_differences", ()):
        report(f"Tokenizer: {difference}")
    model = converted.model()
    check_it_runs(model)
    checks = list(compare_with_original(toolkit, source, reference, converted, model))
    for check in checks:
        report(str(check))
    if failed := [str(check) for check in checks if not check.holds]:
        error = ConversionError.from_problems(
            "The converted model differs from the original; nothing was written", failed
        )
        raise ConversionError(f"{error} {converted.hint}".strip())
    write(converted, model, checks, out, name)
    if "word_alignments" in converted.facts:
        report(f"Word alignments: {converted.facts['word_alignments']}")
    return Imported(converted, model.num_parameters(), checks)


def compare_with_original(
    toolkit: ModuleType, source: Path, reference: Path | None, converted: Converted, model: PreTrainedModel
) -> Iterator[Parity]:
    """Compares with recorded outputs and, if it is installed, with the toolkit."""
    recorded = (source if source.is_dir() else source.parent) / "reference.npz"
    if reference or recorded.is_file():
        yield compare_recorded(model, reference or recorded, tokens=converted.target_tokens)
    live = getattr(toolkit, "compare_live", None)
    if live is not None and (parity := live(source, converted, model)) is not None:
        yield parity
