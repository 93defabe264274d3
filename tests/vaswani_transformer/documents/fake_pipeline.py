"""Fake translation pipelines, which return texts unchanged, in capitals or with their words reversed, and helpers."""

import re
import sys
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st

from vaswani_transformer.documents import DocumentTranslator, Options, translate_content
from vaswani_transformer.model.items_vaswani import KEPT_ITEM
from vaswani_transformer.model.sentences_vaswani import LINE_END
from vaswani_transformer.model.spans_vaswani import words


class Pipeline:
    """Rearranges the words of each text with `change`, and returns exact alignments."""

    can_align = True

    def __init__(self, change=None):
        self.change, self.seen, self.settings = change, [], []

    def translate(self, texts, batch_size, progress, return_alignments=False, **settings):
        self.seen += texts
        self.settings.append({"return_alignments": return_alignments, **settings})
        if progress is not None:
            progress(len(texts))
        return [[self.record(text)] for text in texts]

    def record(self, text: str) -> dict:
        if self.change is None:
            return {"translation_text": text, "alignments": [(span, span) for span in words(text)]}
        translation, begin, alignments = "", 0, []
        for line in LINE_END.split(text):
            new, pairs = self.rearrange(line)
            shift = len(translation)
            alignments += [((a + begin, b + begin), (c + shift, d + shift)) for (a, b), (c, d) in pairs]
            translation, begin = translation + new, begin + len(line)
        return {"translation_text": translation, "alignments": alignments}

    def rearrange(self, text: str):
        items = [match.span() for match in KEPT_ITEM.finditer(text)]
        free = [span for span in words(text) if not any(a < span[1] and span[0] < b for a, b in items)]
        new, pairs = "", []
        for begin, end in self.change(sorted(items + free)):
            new += " " if new else ""
            pairs.append(((begin, end), (len(new), len(new) + end - begin)))
            new += text[begin:end]
        before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        shift = len(before)
        pairs = [((a, b), (c + shift, d + shift)) for (a, b), (c, d) in pairs]
        return (before + new + after if new else text), pairs


class Shouting(Pipeline):
    """Writes every text in capitals, except the placeholders of objects."""

    def record(self, text: str) -> dict:
        translation, alignments = "", []
        for part in re.finditer(r"\{\d+\}|\w+|[^\w{]+|\{", text):
            new = part[0] if part[0].startswith("{") else part[0].upper()
            alignments.append((part.span(), (len(translation), len(translation) + len(new))))
            translation += new
        return {"translation_text": translation, "alignments": alignments}


def identity(language: str | None = None) -> DocumentTranslator:
    """Returns a translator that changes nothing."""
    return DocumentTranslator(Pipeline(), language)


def reversing() -> DocumentTranslator:
    """Returns a translator that reverses the words of each line."""
    return DocumentTranslator(Pipeline(lambda spans: spans[::-1]))


def unchanged(suffix: str, content: str | bytes, language: str | None = None, **options):
    """Returns a document after a translation that changes nothing, as a string or bytes like the original."""
    return translated(suffix, content, identity(language), **options)


def shouted(suffix: str, content: str | bytes, **options):
    """Returns a document with its texts in capitals."""
    return translated(suffix, content, DocumentTranslator(Shouting()), **options)


def reversed_words(suffix: str, content: str | bytes, **options):
    """Returns a document with the words of each line reversed."""
    return translated(suffix, content, reversing(), **options)


def translated(suffix: str, content: str | bytes, translator: DocumentTranslator, **options):
    if isinstance(content, bytes):
        return translate_content(content, f"file{suffix}", translator, Options(**options))
    return translate_content(content.encode(), f"file{suffix}", translator, Options(**options)).decode()


def texts_of(suffix: str, content: str | bytes, **options) -> list[str]:
    """Returns the texts of a document that the pipeline sees."""
    translator = identity()
    translated(suffix, content, translator, **options)
    return translator.pipeline.seen


few = settings(max_examples=25)  # a document takes longer than a value
# Words of many scripts, and punctuation that is not markup in any format.
WORD = st.text(st.characters(categories=["Lu", "Ll", "Lo"], max_codepoint=0x2FFF), min_size=1, max_size=6)
SENTENCE = st.builds(
    lambda words, end: " ".join(words) + end,
    st.lists(WORD, min_size=1, max_size=5),
    st.sampled_from(["", ".", "?", ","]),
)
SENTENCES = st.lists(SENTENCE, min_size=1, max_size=5)


def count_calls(function: Callable[[], object]) -> int:
    """Returns how many Python functions run during `function()`: a measure of time that no busy machine changes."""
    calls = 0

    def count_call(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls
