"""Subtitles, SubRip (.srt) and WebVTT (.vtt): translate sentences across cues; keep times, numbers and notes.

A sentence that continues on the next line or in the next cue is translated as a whole, and split where the translation
of each cue's words ends. pysubs2 and webvtt-py would write a new file from the cues that they parsed; here everything
but the texts stays byte for byte.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from .document import DocumentError, Options, Span, TextDocument
from .inline import Element, Fixed, Node, Object
from .messages import tag_pairs


LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
TIME = r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
TIMES = re.compile(rf"[ \t]*{TIME}[ \t]+--?>[ \t]+{TIME}(?![\d:])")
TAG = re.compile(r"(<rt>[^<\n]*</rt>|</?[a-zA-Z][^<>\n]*>|<\d[\d:.]*>|\{\\[^{}\n]*\})")
WORD = re.compile(r"(?:<[^<>]*>|\{\\[^{}]*\}|[^\s<{]|[<{])+")  # with the tags that touch it
COLOUR = re.compile(r"<font[^<>]*color[^<>]*>|<c\.[^<>]*>|\{\\[^{}]*c&[^{}]*\}", re.IGNORECASE)
SENTENCE_END = re.compile(r"[.!?…♪♫][\"'»”)\]]*$")
# A dash, a name in capitals or between brackets, a position or a voice begins what somebody else says.
SPEAKER = re.compile(r"[-–—‐]|[A-Z][A-Z .'\d]*:|[A-Z]\w+:\s|\[[^][]*\]|\([^()]*\)\s*$|[♪♫#]|\{\\an|<v[ .>]")
MAX_CUES = 4  # of one sentence
MAX_GAP = 2000  # between two cues of one sentence, in milliseconds


class Line(NamedTuple):
    """A line of a cue: its text without the spaces around it, and where it begins and ends in the file."""

    text: str
    begin: int
    end: int


@dataclass
class Cue:
    """What is shown at one time: when, in milliseconds, and its lines that are not blank."""

    number: int
    begin: int
    end: int
    lines: list[Line]


class Part(NamedTuple):
    """The lines of a sentence that are in one cue."""

    cue: Cue
    lines: list[Line]


def read(content: str, options: Options) -> TextDocument:
    """Find the sentences of the cues.

    Raises:
        DocumentError: The file has no cues.
    """
    is_webvtt = content.startswith("WEBVTT")
    cues = list(find_cues(content, is_webvtt))
    if not cues:
        raise DocumentError("No cues: expected lines of times, such as 00:00:01,000 --> 00:00:04,000.")
    texts = []
    for parts in sentences(cues):
        nodes = [node for part in parts for node in [*as_nodes(part, is_webvtt), " "]][:-1]
        render = partial(write_parts, content, parts, is_webvtt)
        begin, end = parts[0].lines[0].begin, parts[-1].lines[-1].end
        texts.append(Span(nodes, f"cue {parts[0].cue.number}", begin, end, render))
    untranslated = Counter(
        {"notes, styles and regions": len(re.findall(r"^(?:NOTE|STYLE|REGION)\b", content, re.MULTILINE))}
    )
    return TextDocument(content, texts, +untranslated)


# Cues and sentences --------------------------------------------------------------------------------------------------


def find_cues(content: str, is_webvtt: bool) -> Iterator[Cue]:
    """Yield the cues. In WebVTT a blank line ends one; in SubRip the number and times of the next one do."""
    cue: Cue | None = None
    number, is_open = 0, False
    for match in LINE.finditer(content):
        line = match[1]
        if times := TIMES.match(line):
            if cue is not None:
                if is_open and cue.lines and cue.lines[-1].text.isdecimal():
                    cue.lines.pop()  # the number of the next cue
                yield cue
            number, is_open = number + 1, True
            cue = Cue(number, milliseconds(times.groups()[:4]), milliseconds(times.groups()[4:]), [])
        elif line.strip():
            if cue is not None and is_open:
                begin = match.start() + len(line) - len(line.lstrip())
                cue.lines.append(Line(line.strip(), begin, match.start() + len(line.rstrip())))
        elif is_webvtt:
            is_open = False
    if cue is not None:
        yield cue


def milliseconds(time: Sequence[str | None]) -> int:
    hours, minutes, seconds, fraction = time
    whole = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return whole * 1000 + int((fraction or "").ljust(3, "0"))


def sentences(cues: Sequence[Cue]) -> Iterator[list[Part]]:
    """Yield the lines that share a sentence, by cue."""
    parts: list[Part] = []
    for cue in cues:
        for line in cue.lines:
            if parts and ends_before(parts, cue, line):
                yield parts
                parts = []
            if parts and parts[-1].cue is cue:
                parts[-1].lines.append(line)
            else:
                parts.append(Part(cue, [line]))
        if not cue.lines and parts:
            yield parts
            parts = []
    if parts:
        yield parts


def ends_before(parts: list[Part], cue: Cue, line: Line) -> bool:
    """Return whether a sentence ends before a line, as far as one can tell without knowing the language."""
    last = parts[-1].lines[-1].text
    is_next_cue = parts[-1].cue is not cue
    return (
        SENTENCE_END.search(TAG.sub("", last).rstrip()) is not None
        or SPEAKER.match(line.text) is not None
        or SPEAKER.match(TAG.sub("", line.text)) is not None
        or is_wholly_tagged(line.text)
        or is_wholly_tagged(last)
        or colours(line.text) not in ([], colours(last))
        or (is_next_cue and len(parts) >= MAX_CUES)
        or (is_next_cue and cue.begin - parts[-1].cue.end >= MAX_GAP)
    )


def is_wholly_tagged(line: str) -> bool:
    """Return whether a line begins with a tag that its end closes."""
    first, last = re.match(r"<([a-zA-Z]+)", line), re.search(r"</([a-zA-Z]+)[^<>]*>$", line)
    return first is not None and last is not None and first[1] == last[1] and line.count(last[0]) == 1


def colours(line: str) -> list[str]:
    return COLOUR.findall(line)


# From cues to nodes --------------------------------------------------------------------------------------------------


def as_nodes(part: Part, is_webvtt: bool) -> list[Node]:
    """Convert the lines of a cue to an element, with an element in it for each tag that is closed.

    Tags before the first word, such as a position, come before the element.
    """
    pieces = TAG.split(" ".join(line.text for line in part.lines))
    partners = tag_pairs([piece if i % 2 else "" for i, piece in enumerate(pieces)])
    top = Element(part.cue.number)
    stack = [top]
    for i, piece in enumerate(pieces):
        if i in partners:
            element = Element((piece, pieces[partners[i]]))
            stack[-1].nodes.append(element)
            stack.append(element)
        elif i in partners.values():
            stack.pop()
        elif piece.startswith("<rt>") and i % 2:
            stack[-1].nodes.append(Fixed([Object(piece)], is_glued=True))
        elif piece:
            text = html.unescape(piece) if is_webvtt else piece
            stack[-1].nodes.append(Object(piece) if i % 2 else text)
    first = next((i for i, node in enumerate(top.nodes) if not isinstance(node, Object)), len(top.nodes))
    before, top.nodes = top.nodes[:first], top.nodes[first:]
    return [*before, top]


# From nodes to cues --------------------------------------------------------------------------------------------------


def write_parts(content: str, parts: Sequence[Part], is_webvtt: bool, nodes: list[Node]) -> str:
    """Write the translation of a sentence into its cues, with everything that the file has between their lines."""
    numbers = [part.cue.number for part in parts]
    texts, current = dict.fromkeys(numbers, ""), numbers[0]
    for node in nodes:
        if isinstance(node, Element) and isinstance(node.origin, int):
            current = max(current, node.origin)  # never back to an earlier cue, even if words change their order
            texts[current] += "".join(as_text(child, is_webvtt) for child in node.nodes)
        else:
            texts[current] += as_text(node, is_webvtt)
    all_text = " ".join(texts.values())
    if not all(text.strip() for text in texts.values()) and not TAG.search(all_text):
        lengths = {part.cue.number: sum(len(line.text) for line in part.lines) for part in parts}
        texts = split_by_length(all_text.split(), lengths)
    written, last = "", None
    for part in parts:
        new = split_lines(texts[part.cue.number], [len(TAG.sub("", line.text)) for line in part.lines])
        for line, text in zip(part.lines, [*new, *[""] * (len(part.lines) - len(new))], strict=True):
            written += (content[last : line.begin] if last is not None else "") + text
            last = line.end
    return written


def as_text(node: Node, is_webvtt: bool) -> str:
    if isinstance(node, str):
        return html.escape(node, quote=False) if is_webvtt else node
    if isinstance(node, Object):
        return str(node.origin)
    content = "".join(as_text(child, is_webvtt) for child in node.nodes)
    return node.origin[0] + content + node.origin[1] if isinstance(node, Element) else content


def split_by_length(words: list[str], lengths: dict[int, int]) -> dict[int, str]:
    """Distribute words over cues in proportion to the lengths of their originals."""
    texts, total, reached, begin = {}, sum(lengths.values()), 0, 0
    for i, length in lengths.items():
        reached += length
        end = round(reached / max(1, total) * len(words))
        texts[i] = " ".join(words[begin:end])
        begin = end
    return texts


def split_lines(text: str, lengths: Sequence[int]) -> list[str]:
    """Split a text into as many lines as there are lengths, in their proportion; a short text has fewer lines."""
    words = WORD.findall(text)
    ends = list(accumulate(len(TAG.sub("", word)) + 1 for word in words))  # of each word, without tags
    lines, start, reached = [], 0, 0
    for length in lengths[:-1]:
        reached += length + 1
        target = reached / (sum(lengths) + len(lengths)) * (ends[-1] if ends else 0)
        stop = start
        while stop < len(words) and abs(ends[stop] - target) <= abs((ends[stop - 1] if stop else 0) - target):
            stop += 1
        lines.append(" ".join(words[start:stop]))
        start = stop
    return [line for line in [*lines, " ".join(words[start:])] if line]
