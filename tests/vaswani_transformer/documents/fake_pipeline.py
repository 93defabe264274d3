"""In place of a translation pipeline: texts come back as they are, or with their words turned round."""

from vaswani_transformer.documents import DocumentTranslator
from vaswani_transformer.model.checks_vaswani import KEPT_ITEM
from vaswani_transformer.model.sentences_vaswani import LINE_END
from vaswani_transformer.model.spans_vaswani import words


class Pipeline:
    """Of each text what `change` makes of its list of words, with the alignments of a faithful translator."""

    can_align = True

    def __init__(self, change=None):
        self.change, self.seen = change or (list), []

    def translate(self, texts, batch_size, progress, return_alignments=False, **settings):
        self.seen += texts
        return [[self.record(text)] for text in texts]

    def record(self, text: str) -> dict:
        if self.change([1, 2]) == [1, 2]:
            return {"translation_text": text, "alignments": [(span, span) for span in words(text)]}
        whole, begin, pairs = "", 0, []
        for line in LINE_END.split(text):
            new, of_line = self.turned(line)
            pairs += [((a + begin, b + begin), (c + len(whole), d + len(whole))) for (a, b), (c, d) in of_line]
            whole, begin = whole + new, begin + len(line)
        return {"translation_text": whole, "alignments": pairs}

    def turned(self, text: str):
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


def unchanged() -> DocumentTranslator:
    return DocumentTranslator(Pipeline())


def turned_round() -> DocumentTranslator:
    return DocumentTranslator(Pipeline(lambda spans: spans[::-1]))
