"""Attention drawn as in the paper's Figures 3 to 5: two columns of words, joined by lines as strong as the weights."""

import math
from collections.abc import Sequence
from html import escape
from unicodedata import east_asian_width

import torch

from .inspection import Inspection
from .token_text import Token


# Okabe and Ito's colours, which colour-blind people can tell apart. The ninth head has the first colour again.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
# In pixels: the height of a row, the font size, the gap between the columns, the margin, a head's place in the legend.
ROW, FONT, GAP, MARGIN, LEGEND = 22, 14, 180, 12, 56
BLANK = "\u2423"  # shown for a token that is only a space
MIN_WEIGHT = 0.02  # smaller weights are not drawn


def attention_figure(
    inspection: Inspection,
    stack: str = "encoder",
    kind: str = "self_attn",
    layer: int = -1,
    heads: Sequence[int] = (),
    words: Sequence[str] = (),
) -> str:
    """Draw the attention weights of one layer as an SVG, with queries on the left and keys on the right.

    Args:
        inspection: The result of `inspect_translation`.
        stack, kind: "encoder" or "decoder", and "self_attn" or "cross_attn".
        layer: Counted from 0; a negative number counts from the last.
        heads: The heads to draw, each in its own colour; by default all.
        words: Draw only the lines of these queries, as for "making" in the paper's Figure 3; by default all.

    Returns:
        The text of the SVG.

    Raises:
        ValueError: A layer, head or word does not exist; the message says which exist.
    """
    weights = weights_of(inspection, stack, kind, layer)
    heads = select_heads(heads, len(weights))
    queries = inspection.source if stack == "encoder" else inspection.target
    keys = inspection.source if stack == "encoder" or kind == "cross_attn" else inspection.target
    columns = ([token.text.strip() or BLANK for token in tokens] for tokens in (queries, keys))
    return draw(weights, heads, *columns, rows_of(queries, words))


def weights_of(inspection: Inspection, stack: str, kind: str, layer: int) -> torch.Tensor:
    """The weights [H, T, S] of a layer."""
    suffix = f".{kind}.weights"
    layers = [n for n in inspection.tensors if n.startswith(f"{stack}.layers.") and n.endswith(suffix)]
    if not layers:
        raise ValueError(f"The {stack} has no {kind}: the encoder has self_attn, the decoder self_attn and cross_attn.")
    if not -len(layers) <= layer < len(layers):
        raise ValueError(f"Layer {layer} does not exist: the {stack} has {len(layers)} layers, counted from 0.")
    return inspection.tensors[f"{stack}.layers.{layer % len(layers)}{suffix}"]


def select_heads(heads: Sequence[int], count: int) -> list[int]:
    """The given heads, or all if none are given."""
    for head in heads:
        if not 0 <= head < count:
            raise ValueError(f"Head {head} does not exist: the layer has {count} heads, counted from 0.")
    return list(heads) or list(range(count))


def rows_of(queries: list[Token], words: Sequence[str]) -> list[int]:
    """The indices of the queries that spell one of the words, alone or with their other parts; without words, all."""
    if not words:
        return list(range(len(queries)))
    rows: list[int] = []
    starts = [i for i, token in enumerate(queries) if token.kind != "part"]
    for start, end in zip(starts, [*starts[1:], len(queries)], strict=True):
        while end > start + 1 and not any(map(str.isalnum, queries[end - 1].text)):  # without punctuation
            end -= 1
        if "".join(token.text for token in queries[start:end]).strip() in words:
            rows += range(start, end)
    if not rows:
        text = " ".join("".join(token.text for token in queries).split())
        raise ValueError(f"Not among the words of the sentence: {' and '.join(words)}. The sentence is: {text}")
    return rows


# The drawing ---------------------------------------------------------------------------------------------------------


def draw(weights: torch.Tensor, heads: list[int], queries: list[str], keys: list[str], rows: list[int]) -> str:
    """Draw weights [H, T, S] of T queries and S keys, with lines from the queries in `rows`."""
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
    """A line for each weight that is large enough, as opaque as the weight. `ends` are the x of queries and keys."""
    middle, drawn = top + ROW // 2, []
    for i, head in enumerate(heads):
        # Shifted a little, so that the lines of several heads to the same word stay visible.
        shift = (i - (len(heads) - 1) / 2) * min(2.0, 12 / len(heads))
        for row in rows:
            for key, weight in enumerate(weights[head, row].tolist()):
                if weight >= MIN_WEIGHT:
                    y1, y2 = middle + ROW * row + shift, middle + ROW * key + shift
                    drawn.append(
                        f'<line x1="{ends[0]}" y1="{y1:g}" x2="{ends[1]}" y2="{y2:g}" stroke="{colour(i)}" '
                        f'stroke-width="2" stroke-opacity="{weight:.3f}"/>'
                    )
    return drawn


def colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def width_of(word: str) -> int:
    """The approximate width of a word in pixels; wide characters (East Asian scripts) count twice."""
    places = sum(2 if east_asian_width(character) in "WF" else 1 for character in word)
    return 10 + math.ceil(0.6 * FONT * places)


def printable(word: str) -> str:
    """Replace characters that XML does not allow."""
    return "".join(character if character.isprintable() else "\ufffd" for character in word)
