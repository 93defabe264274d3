"""The translator that all formats share: texts of a document in, their translations out."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from ..model.spans_vaswani import Span, shortened, words
from ..system.extras import missing_package
from .document import DocumentError, Text, Translated
from .inline import Line, Node, flatten, has_markup, join_texts, split_texts, text_of, transfer_markup


HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair
LOST_WARNINGS = {
    "moved": "the markup of {} is around the nearest word",
    "untranslated": "{} stays untranslated",
    "empty": "the markup of {} has no words",
}


def missing_library(suffix: str, error: ImportError) -> DocumentError:
    return DocumentError(missing_package(f"The format {suffix}", error.name, "documents"))


class TextPipeline(Protocol):
    """What a `DocumentTranslator` needs of a pipeline; `TranslationPipeline` has it."""

    @property
    def can_align(self) -> bool:
        """Whether `return_alignments` can be asked for."""

    def translate(
        self, texts: Sequence[str], batch_size: int | None, progress: Callable[[int], object] | None, **settings: Any
    ) -> list[list[dict[str, Any]]]:
        """Return the translations of each text, best first."""


@dataclass
class DocumentTranslator:
    """Translates the texts of documents and collects warnings about them.

    Args:
        pipeline: A `TranslationPipeline`, or another `TextPipeline`.
        target_language: A code such as "de", for formats that record the language.
        source_language: A code such as "en"; a file that names another is an error.
        settings: Arguments for each call of the pipeline.
        progress: Called with the number of texts just translated.
        warnings: Warnings about suspicious translations, each with the place and the start of its text; they grow with
            every call.
        terms: The glossary's terms in the texts, if the settings have `return_terms`; they grow with every call.
    """

    pipeline: TextPipeline
    target_language: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    progress: Callable[[int], object] | None = None
    warnings: list[str] = field(default_factory=list)
    source_language: str | None = None
    terms: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, texts: Sequence[Text]) -> list[Translated]:
        """Translate each text; its markup moves to the words that translate the marked ones."""
        parts = [split_texts(text.nodes) for text in texts]
        pieces = iter(self._translate([part for text_parts in parts for part in text_parts]))
        translated = []
        for text, text_parts in zip(texts, parts, strict=True):
            new = list(islice(pieces, len(text_parts)))
            warnings = [warning for piece in new for warning in piece.warnings]
            self.warnings += [f"{text.place}, {warning}" if text.place else warning for warning in warnings]
            translated.append(Translated(join_texts(text.nodes, iter([piece.nodes for piece in new])), warnings))
        return translated

    def _translate(self, parts: Sequence[list[Node]]) -> list[Translated]:
        """Translate texts without their surroundings.

        Raises:
            DocumentError: A text contains half a surrogate pair, which JSON and YAML can express.
        """
        lines = [flatten(nodes) for nodes in parts]
        for line in lines:
            if half := HALF.search(line.text):
                text = shortened(line.text.replace(half[0], "\N{REPLACEMENT CHARACTER}"))
                raise DocumentError(f"Half a character (\\u{ord(half[0]):04x}) in the text {text!r}. Correct it first.")
        translated = [Translated([]) for _ in parts]
        # Two calls, because alignments take time that texts without markup need not spend.
        for is_marked in (False, True):
            indices = [i for i, nodes in enumerate(parts) if has_markup(nodes) == is_marked]
            records = self._records([lines[i].text for i in indices], is_marked and self.pipeline.can_align)
            for i, record in zip(indices, records, strict=True):
                translated[i] = with_markup(parts[i], lines[i], record)
        return translated

    def _records(self, texts: Sequence[str], return_alignments: bool) -> list[dict[str, Any]]:
        """Return the pipeline's best record for each text."""
        settings = {**self.settings, "return_alignments": return_alignments}
        records = [best for best, *_ in self.pipeline.translate(texts, None, self.progress, **settings)]
        self.terms += [term for record in records for term in record.get("terms", ())]
        return records


def with_markup(nodes: list[Node], line: Line, record: dict[str, Any]) -> Translated:
    """Return a translation with the markup of its source, and the warnings about it."""
    text = record["translation_text"]
    # If the text has several sentences, the warning already quotes the sentence that it is about.
    warnings = [w if w.startswith('"') else f"{shortened(line.text)}: {w}" for w in record.get("warnings", ())]
    if text == line.text:
        return Translated(nodes, warnings)
    if not has_markup(nodes):
        return Translated([text], warnings)
    alignments = record.get("alignments")
    new, lost = transfer_markup(line, text, guess_alignments(line.text, text) if alignments is None else alignments)
    warnings += [
        f"{shortened(line.text)}: " + LOST_WARNINGS[place].format(shortened(text_of(element)))
        for element, place in lost
        if alignments is not None
    ]
    return Translated(new, warnings)


def guess_alignments(source: str, translation: str) -> list[tuple[Span, Span]]:
    """Align words by their relative position, for checkpoints that cannot align."""
    source_words, target_words = words(source), words(translation)
    if not source_words:
        return []
    ratio = len(source_words) / max(1, len(target_words))
    return [(source_words[int(i * ratio)], span) for i, span in enumerate(target_words)]
