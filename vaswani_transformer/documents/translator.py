"""The translator that all formats share: lists of nodes in, their translations out."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..model.spans_vaswani import Span, shortened, words
from ..system.extras import missing_package
from .inline import Node, flatten, has_markup, text_of, transfer_markup


HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair


class DocumentError(ValueError):
    """The document cannot be translated; the message says why."""


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
        settings: Arguments for each call of the pipeline.
        progress: Called with the number of texts just translated.
        warnings: Warnings about suspicious translations, each with the start of its text; they grow with every call.
        terms: The glossary's terms in the texts, if the settings have `return_terms`; they grow with every call.
    """

    pipeline: TextPipeline
    target_language: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    progress: Callable[[int], object] | None = None
    warnings: list[str] = field(default_factory=list)
    terms: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, segments: Sequence[Sequence[Node]]) -> list[list[Node]]:
        """Translate each segment; its markup moves to the words that translate the marked ones."""
        return self.with_warnings(segments)[0]

    def with_warnings(self, segments: Sequence[Sequence[Node]]) -> tuple[list[list[Node]], list[list[str]]]:
        """Translate each segment, and return the translations and the warnings about each.

        Raises:
            DocumentError: A text contains half a surrogate pair, which JSON and YAML can express.
        """
        lines = [flatten(nodes) for nodes in segments]
        for line in lines:
            if half := HALF.search(line.text):
                text = shortened(line.text.replace(half[0], "\N{REPLACEMENT CHARACTER}"))
                raise DocumentError(f"Half a character (\\u{ord(half[0]):04x}) in the text {text!r}. Correct it first.")
        translated: list[list[Node]] = [[] for _ in segments]
        warnings: list[list[str]] = [[] for _ in segments]
        # Two calls, because alignments take time that segments without markup need not spend.
        for is_marked in (False, True):
            indices = [i for i, nodes in enumerate(segments) if has_markup(nodes) == is_marked]
            texts = [lines[i].text for i in indices]
            for i, record in zip(indices, self.records(texts, is_marked and self.pipeline.can_align), strict=True):
                text, warnings[i] = record["translation_text"], record.get("warnings", [])
                alignments = record.get("alignments") or (guess_alignments(lines[i].text, text) if is_marked else [])
                translated[i] = transfer_markup(lines[i], text, alignments)
        for line, line_warnings in zip(lines, warnings, strict=True):
            # If the text has several sentences, the warning already quotes the sentence that it is about.
            self.warnings += [w if w.startswith('"') else f"{shortened(line.text)}: {w}" for w in line_warnings]
        return translated, warnings

    def texts(self, texts: Sequence[str]) -> list[str]:
        """Translate texts without markup."""
        return ["".join(map(text_of, nodes)) for nodes in self([[text] for text in texts])]

    def records(self, texts: Sequence[str], return_alignments: bool) -> list[dict[str, Any]]:
        """Return the pipeline's best record for each text."""
        settings = {**self.settings, "return_alignments": return_alignments}
        records = [best for best, *_ in self.pipeline.translate(texts, None, self.progress, **settings)]
        self.terms += [term for record in records for term in record.get("terms", ())]
        return records


def guess_alignments(source: str, translation: str) -> list[tuple[Span, Span]]:
    """Align words by their relative position, for checkpoints that cannot align."""
    source_words, target_words = words(source), words(translation)
    if not source_words:
        return []
    ratio = len(source_words) / max(1, len(target_words))
    return [(source_words[int(i * ratio)], span) for i, span in enumerate(target_words)]
