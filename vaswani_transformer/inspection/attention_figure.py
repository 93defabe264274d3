"""Attention as in the paper's Figures 3 to 5: two columns of words, joined by lines as strong as the weights."""

import math
from collections.abc import Sequence
from html import escape
from unicodedata import east_asian_width

import torch

from .inspection import Inspection
from .readable import Token


# Okabe and Ito's colours, which the colour-blind can tell apart; a ninth head begins again.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
# Pixels: the height of a row and of its words, between the columns, around everything, for a head in the legend.
ROW, FONT, GAP, MARGIN, LEGEND = 22, 14, 180, 12, 56
BLANK = "\u2423"  # for a token that is a blank and nothing else
FAINTEST = 0.02  # of a weight that is drawn


def attention_figure(
    inspection: Inspection,
    stack: str = "encoder",
    kind: str = "self_attn",
    layer: int = -1,
    heads: Sequence[int] = (),
    words: Sequence[str] = (),
) -> str:
    """An SVG of the attention weights of one layer: queries on the left, keys on the right.

    Args:
        inspection: From `inspect_translation`.
        stack, kind: "encoder" or "decoder", "self_attn" or "cross_attn".
        layer: Counted from 0; negative ones from the last.
        heads: Those that are drawn, each in a colour of its own; by default all.
        words: Only the lines of these queries are drawn, as for "making" in the paper's Figure 3; by default all.

    Raises:
        ValueError: there is no such layer, head or word; the message says which there are.
    """
    weights = weights_of(inspection, stack, kind, layer)
    heads = chosen(heads, len(weights))
    queries = inspection.source if stack == "encoder" else inspection.target
    keys = inspection.source if stack == "encoder" or kind == "cross_attn" else inspection.target
    columns = ([token.text.strip() or BLANK for token in tokens] for tokens in (queries, keys))
    return draw(weights, heads, *columns, rows_of(queries, words))


def weights_of(inspection: Inspection, stack: str, kind: str, layer: int) -> torch.Tensor:
    """The weights [H, T, S] of a layer."""
    suffix = f".{kind}.weights"
    layers = [n for n in inspection.tensors if n.startswith(f"{stack}.layers.") and n.endswith(suffix)]
    if not layers:
        raise ValueError(f"There is no {kind} in the {stack}: the encoder has self_attn, the decoder cross_attn, too.")
    if not -len(layers) <= layer < len(layers):
        raise ValueError(f"There is no layer {layer}: the {stack} has {len(layers)}, counted from 0.")
    return inspection.tensors[f"{stack}.layers.{layer % len(layers)}{suffix}"]


def chosen(heads: Sequence[int], count: int) -> list[int]:
    """The heads to draw: those given, or all."""
    for head in heads:
        if not 0 <= head < count:
            raise ValueError(f"There is no head {head}: the layer has {count}, counted from 0.")
    return list(heads) or list(range(count))


def rows_of(queries: list[Token], words: Sequence[str]) -> list[int]:
    """The queries that spell one of the words, by themselves or with the parts that follow them; all without words."""
    if not words:
        return list(range(len(queries)))
    rows: list[int] = []
    starts = [i for i, token in enumerate(queries) if token.kind != "part"]
    for start, end in zip(starts, [*starts[1:], len(queries)], strict=True):
        while end > start + 1 and not any(map(str.isalnum, queries[end - 1].text)):  # a comma after the word
            end -= 1
        if "".join(token.text for token in queries[start:end]).strip() in words:
            rows += range(start, end)
    if not rows:
        text = " ".join("".join(token.text for token in queries).split())
        raise ValueError(f"{' and '.join(words)} is not among the words of: {text}")
    return rows


# The drawing ---------------------------------------------------------------------------------------------------------


def draw(weights: torch.Tensor, heads: list[int], queries: list[str], keys: list[str], rows: list[int]) -> str:
    """weights [H, T, S], T queries and S keys -> the figure; lines go out from the queries in `rows`."""
    left = MARGIN + max(map(width_of, queries))
    right = left + GAP
    top = MARGIN + (ROW if len(heads) > 1 else 0)
    width = max(right + max(map(width_of, keys)), LEGEND * len(heads)) + MARGIN
    height = top + ROW * max(len(queries), len(keys)) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="{FONT}" role="img">',
        "<title>Attention: each word on the left, and the words on the right that it attends to.</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *legend(heads),
        *lines(weights, heads, rows, (left, right), top),
        *column(queries, left - 6, top, "end"),
        *column(keys, right + 6, top, "start"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def legend(heads: list[int]) -> list[str]:
    if len(heads) == 1:
        return []
    places = ((MARGIN + LEGEND * i, MARGIN + FONT - 2, colour(i), head) for i, head in enumerate(heads))
    return [f'<text x="{x}" y="{y}" font-size="12" fill="{fill}">head {head}</text>' for x, y, fill, head in places]


def column(words: list[str], x: int, top: int, anchor: str) -> list[str]:
    return [
        f'<text x="{x}" y="{top + ROW * i + FONT}" text-anchor="{anchor}">{escape(printable(word))}</text>'
        for i, word in enumerate(words)
    ]


def lines(weights: torch.Tensor, heads: list[int], rows: list[int], ends: tuple[int, int], top: int) -> list[str]:
    """A line for each weight that can be seen, from the x of the queries to that of the keys, as opaque as it is."""
    middle, drawn = top + ROW // 2, []
    for i, head in enumerate(heads):
        # Side by side, so that heads which attend to the same word can be told apart.
        shift = (i - (len(heads) - 1) / 2) * min(2.0, 12 / len(heads))
        for row in rows:
            for key, weight in enumerate(weights[head, row].tolist()):
                if weight >= FAINTEST:
                    y1, y2 = middle + ROW * row + shift, middle + ROW * key + shift
                    drawn.append(
                        f'<line x1="{ends[0]}" y1="{y1:g}" x2="{ends[1]}" y2="{y2:g}" stroke="{colour(i)}" '
                        f'stroke-width="2" stroke-opacity="{weight:.3f}"/>'
                    )
    return drawn


def colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def width_of(word: str) -> int:
    """About how wide a word is, in pixels; scripts with wide characters take two places for each."""
    places = sum(2 if east_asian_width(character) in "WF" else 1 for character in word)
    return 10 + math.ceil(0.6 * FONT * places)


def printable(word: str) -> str:
    """A word without the characters that XML does not allow."""
    return "".join(character if character.isprintable() else "\ufffd" for character in word)
