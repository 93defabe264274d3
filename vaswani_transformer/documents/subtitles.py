"""Subtitles, SubRip (.srt) and WebVTT (.vtt): sentences are translated across cues, times stay.

A sentence that goes on in the next cue is translated as a whole, and cut where the translation of each cue's words
ends.
"""

import re

from .inline import Element, Node, Object
from .translator import DocumentError, DocumentTranslator


TIMES = re.compile(r"^\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s+-->\s+(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}.*$", re.MULTILINE)
TAG = re.compile(r"(</?[a-zA-Z][^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\})")
SENTENCE_END = re.compile(r"[.!?…][\"'»”)\]]*\s*$|^\s*[-–]|[♪♫]\s*$")
SPEAKERS = re.compile(r"^\s*[-–]", re.MULTILINE)
MOST_CUES = 4  # that one sentence is looked for in


def translate(text: str, translator: DocumentTranslator) -> str:
    """The same cues with translated texts.

    Raises:
        DocumentError: there is no line of times.
    """
    times = list(TIMES.finditer(text))
    if not times:
        raise DocumentError("It has no line of times, such as 00:00:01,000 --> 00:00:04,000.")
    spans = [cue_span(text, mark.end(), after) for mark, after in zip(times, [*times[1:], None], strict=True)]
    cues = [text[begin:end] for begin, end in spans]
    groups = in_groups(cues)
    segments = [[part for i in group for part in as_nodes(cues[i], i)] for group in groups]
    out, last = [], 0
    translated = dict(enumerate(cues))
    for group, nodes in zip(groups, translator(segments), strict=True):
        translated |= by_cue(nodes, group, cues)
    if "\r\n" in text:
        translated = {i: re.sub(r"\r?\n", "\r\n", cue) for i, cue in translated.items()}
    for (begin, end), cue in zip(spans, [translated[i] for i in range(len(cues))], strict=True):
        out += [text[last:begin], cue]
        last = end
    return "".join([*out, text[last:]])


def cue_span(text: str, begin: int, after: re.Match | None) -> tuple[int, int]:
    """Where the lines of text after a line of times are: up to a blank line, or before the next cue's number."""
    begin = min(len(text), begin + len(re.match(r"\r?\n?", text[begin:])[0]))
    end = re.compile(r"\r?\n[ \t]*\r?\n|\s*\Z").search(text, begin)
    stop = end.start() if end else len(text)
    if after is not None and stop > after.start():
        stop = begin + len(re.sub(r"\s*\d*\s*\Z", "", text[begin : after.start()]))
    return begin, max(begin, stop)


def in_groups(cues: list[str]) -> list[list[int]]:
    """The cues that a sentence goes on in, together."""
    groups: list[list[int]] = []
    for i in range(len(cues)):
        goes_on = groups and not SENTENCE_END.search(TAG.sub("", cues[groups[-1][-1]])) and cues[i].strip()
        if goes_on and cues[i - 1].strip() and len(groups[-1]) < MOST_CUES and not re.match(r"\s*[-–]", cues[i]):
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def as_nodes(cue: str, number: int) -> list[Node]:
    """A cue as an element, of its tags those that have an end as elements in it."""
    top = Element(number)
    stack = [top]
    space = "\n" if SPEAKERS.search(cue) else " "  # lines of their own stay apart
    for part in TAG.split(space.join(line.strip() for line in cue.splitlines())):
        name = re.match(r"<(/?)([a-zA-Z]+)", part) if TAG.fullmatch(part) else None
        if name and not name[1] and f"</{name[2]}>" in cue:
            element = Element((part, f"</{name[2]}>"))
            stack[-1].nodes.append(element)
            stack.append(element)
        elif name and name[1] and len(stack) > 1 and stack[-1].origin[1] == part:
            stack.pop()
        elif part:
            stack[-1].nodes.append(Object(part) if TAG.fullmatch(part) else part)
    return [top, " "]


def by_cue(nodes: list[Node], group: list[int], cues: list[str]) -> dict[int, str]:
    """The translated texts of a group's cues, each in as many lines as it had."""
    texts, current = dict.fromkeys(group, ""), group[0]
    for node in nodes:
        if isinstance(node, Element) and isinstance(node.origin, int):
            current = max(current, node.origin)  # times go on, whatever the order of the words
            texts[current] += "".join(map(as_text, node.nodes))
        else:
            texts[current] += as_text(node)
    if not all(text.strip() for text in texts.values()) and not TAG.search(whole := " ".join(texts.values())):
        texts = in_proportion(whole.split(), {i: len(cues[i]) for i in group})
    return {i: in_lines(text, len(cues[i].splitlines())) for i, text in texts.items()}


def in_proportion(words: list[str], lengths: dict[int, int]) -> dict[int, str]:
    """The words shared out as the lengths are."""
    texts, total, before, begin = {}, sum(lengths.values()), 0, 0
    for i, length in lengths.items():
        before += length
        end = round(before / max(1, total) * len(words))
        texts[i] = " ".join(words[begin:end])
        begin = end
    return texts


def as_text(node: Node) -> str:
    if isinstance(node, str):
        return node
    if isinstance(node, Object):
        return str(node.origin)
    return node.origin[0] + "".join(map(as_text, node.nodes)) + node.origin[1]


def seen_length(words: list[str]) -> int:
    return len(TAG.sub("", " ".join(words)))


def in_lines(text: str, number: int) -> str:
    """In so many lines of about the same length, unless it has lines of its own."""
    if "\n" in text.strip():
        return text.strip()
    words, lines = text.split(), []
    for left in range(number, 0, -1):
        length = seen_length(words)
        line: list[str] = []
        while words and (left == 1 or not line or seen_length([*line, words[0]]) <= length / left + 2):
            line.append(words.pop(0))
        lines.append(" ".join(line))
    return "\n".join(line for line in lines if line)
