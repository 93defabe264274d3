"""Subtitles, SubRip (.srt) and WebVTT (.vtt): translate sentences across cues; keep times, numbers and notes.

A sentence that continues in the next cue is translated as a whole, and split where the translation of each cue's words
ends. pysubs2 and webvtt-py would write a new file from the cues that they parsed; here everything but the texts stays
byte for byte.
"""

import re

from .inline import Element, Node, Object, close_tag, unwrap
from .translator import DocumentError, DocumentTranslator


TIMES = re.compile(r"^\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s+-->\s+(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}.*$", re.MULTILINE)
TAG = re.compile(r"(</?[a-zA-Z][^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\})")
SENTENCE_END = re.compile(r"[.!?…][\"'»”)\]]*\s*$|^\s*[-–]|[♪♫]\s*$")
SPEAKERS = re.compile(r"^\s*[-–]", re.MULTILINE)
MAX_CUES = 4  # of one sentence


def translate(text: str, translator: DocumentTranslator) -> str:
    """Translate the cues of a file.

    Raises:
        DocumentError: The file has no cues.
    """
    times = list(TIMES.finditer(text))
    if not times:
        raise DocumentError("No cues: expected lines of times, such as 00:00:01,000 --> 00:00:04,000.")
    spans = [cue_span(text, mark.end(), following) for mark, following in zip(times, [*times[1:], None], strict=True)]
    cues = [text[begin:end] for begin, end in spans]
    groups = group_by_sentence(cues)
    segments = [[node for i in group for node in as_nodes(cues[i], i)] for group in groups]
    translated = dict(enumerate(cues))
    for group, nodes in zip(groups, translator(segments), strict=True):
        translated |= split_by_cue(nodes, group, cues)
    if "\r\n" in text:
        translated = {i: re.sub(r"\r?\n", "\r\n", cue) for i, cue in translated.items()}
    parts, last = [], 0
    for i, (begin, end) in enumerate(spans):
        parts += [text[last:begin], translated[i]]
        last = end
    return "".join([*parts, text[last:]])


def cue_span(text: str, begin: int, following: re.Match | None) -> tuple[int, int]:
    """The span of a cue's text.

    Args:
        text: The whole file.
        begin: The end of the cue's line of times.
        following: The line of times of the next cue.
    """
    begin = min(len(text), begin + len(re.match(r"\r?\n?", text[begin:])[0]))
    blank_line = re.compile(r"\r?\n[ \t]*\r?\n|\s*\Z").search(text, begin)
    end = blank_line.start() if blank_line else len(text)
    if following is not None and end > following.start():
        # No blank line before the next cue: the text ends before that cue's number.
        end = begin + len(re.sub(r"\s*\d*\s*\Z", "", text[begin : following.start()]))
    return begin, max(begin, end)


def group_by_sentence(cues: list[str]) -> list[list[int]]:
    """Group the numbers of neighbouring cues that share a sentence."""
    groups: list[list[int]] = []
    for i, cue in enumerate(cues):
        continues = (
            bool(groups)
            and len(groups[-1]) < MAX_CUES
            and bool(cues[i - 1].strip())
            and bool(cue.strip())
            and not SENTENCE_END.search(TAG.sub("", cues[i - 1]))
            and not re.match(r"\s*[-–]", cue)  # another speaker
        )
        if continues:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def as_nodes(cue: str, number: int) -> list[Node]:
    """Convert a cue to an element, with an element in it for each tag that is closed."""
    top = Element(number)
    stack = [top]
    separator = "\n" if SPEAKERS.search(cue) else " "  # each speaker has a line
    for part in TAG.split(separator.join(line.strip() for line in cue.splitlines())):
        name = re.match(r"<(/?)([a-zA-Z]+)", part) if TAG.fullmatch(part) else None
        if name and not name[1]:
            element = Element((part, f"</{name[2]}>"))
            stack[-1].nodes.append(element)
            stack.append(element)
        elif name and close_tag(stack, part):
            continue
        elif part:
            stack[-1].nodes.append(Object(part) if TAG.fullmatch(part) else part)
    unwrap(stack, 1)
    return [top, " "]


def split_by_cue(nodes: list[Node], group: list[int], cues: list[str]) -> dict[int, str]:
    """Split the translation of a group: cue number -> text, in as many lines as the cue had."""
    texts, current = dict.fromkeys(group, ""), group[0]
    for node in nodes:
        if isinstance(node, Element) and isinstance(node.origin, int):
            current = max(current, node.origin)  # never back to an earlier cue, even if words change their order
            texts[current] += "".join(map(as_text, node.nodes))
        else:
            texts[current] += as_text(node)
    full_text = " ".join(texts.values())
    if not all(text.strip() for text in texts.values()) and not TAG.search(full_text):
        texts = split_by_length(full_text.split(), {i: len(cues[i]) for i in group})
    return {i: split_lines(text, len(cues[i].splitlines())) for i, text in texts.items()}


def split_by_length(words: list[str], lengths: dict[int, int]) -> dict[int, str]:
    """Distribute words over cues in proportion to the lengths of their originals."""
    texts, total, reached, begin = {}, sum(lengths.values()), 0, 0
    for i, length in lengths.items():
        reached += length
        end = round(reached / max(1, total) * len(words))
        texts[i] = " ".join(words[begin:end])
        begin = end
    return texts


def as_text(node: Node) -> str:
    if isinstance(node, str):
        return node
    if isinstance(node, Object):
        return str(node.origin)
    return node.origin[0] + "".join(map(as_text, node.nodes)) + node.origin[1]


def split_lines(text: str, number: int) -> str:
    """Split a text into this number of lines of similar lengths, unless it already has lines."""
    if "\n" in text.strip():
        return text.strip()
    words, lines = text.split(), []
    for remaining in range(number, 0, -1):
        length = visible_length(words)
        line: list[str] = []
        while words and (remaining == 1 or not line or visible_length([*line, words[0]]) <= length / remaining + 2):
            line.append(words.pop(0))
        lines.append(" ".join(line))
    return "\n".join(line for line in lines if line)


def visible_length(words: list[str]) -> int:
    return len(TAG.sub("", " ".join(words)))
