"""What the formats ask to translate their texts: nodes in, nodes out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..model.spans_vaswani import Span, shortened, words
from .inline import Node, carried_over, flat, has_markup, text_of


class DocumentError(ValueError):
    """A file is not what its name says, or cannot be translated; the message says why."""


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
    """Translates the texts of documents, and keeps what is to be said of them.

    Args:
        pipeline: A `TranslationPipeline`, or another `TextPipeline`.
        target_language: Such as "de", for formats that name it.
        settings: Arguments of the pipeline's calls.
        progress: Called with the number of texts just translated.
    """

    pipeline: TextPipeline
    target_language: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    progress: Callable[[int], object] | None = None
    warnings: list[str] = field(default_factory=list)

    def __call__(self, segments: Sequence[Sequence[Node]]) -> list[list[Node]]:
        """The translation of each segment, with its markup around what translates the same words."""
        return self.with_warnings(segments)[0]

    def with_warnings(self, segments: Sequence[Sequence[Node]]) -> tuple[list[list[Node]], list[list[str]]]:
        """The same, and what is to be said of each."""
        lines = [flat(nodes) for nodes in segments]
        translated: list[list[Node]] = [[] for _ in segments]
        warnings: list[list[str]] = [[] for _ in segments]
        for marked in (False, True):
            chosen = [i for i, nodes in enumerate(segments) if has_markup(nodes) == marked]
            texts = [lines[i].text for i in chosen]
            for i, record in zip(chosen, self.records(texts, marked and self.pipeline.can_align), strict=True):
                text, warnings[i] = record["translation_text"], record.get("warnings", [])
                pairs = (record.get("alignments") or in_proportion(lines[i].text, text)) if marked else []
                translated[i] = carried_over(lines[i], text, pairs) if marked else [text]
        for line, of_line in zip(lines, warnings, strict=True):
            # One of several sentences is named already.
            self.warnings += [w if w.startswith('"') else f"{shortened(line.text)}: {w}" for w in of_line]
        return translated, warnings

    def texts(self, texts: Sequence[str]) -> list[str]:
        return [text_of(nodes[0]) for nodes in self([[text] for text in texts])]

    def records(self, texts: Sequence[str], return_alignments: bool) -> list[dict[str, Any]]:
        settings = {**self.settings, "return_alignments": return_alignments}
        return [best for best, *_ in self.pipeline.translate(texts, None, self.progress, **settings)]


def in_proportion(source: str, translation: str) -> list[tuple[Span, Span]]:
    """A guess at which word translates which, for checkpoints that do not say."""
    of_source, of_translation = words(source), words(translation)
    if not of_source:
        return []
    ratio = len(of_source) / max(1, len(of_translation))
    return [(of_source[int(i * ratio)], span) for i, span in enumerate(of_translation)]
