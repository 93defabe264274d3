"""Table 1 of the paper: what a layer costs.

    python -m experiments layers

Question: in Table 1, self-attention takes O(n^2 d) operations, recurrence O(n d^2) and convolution O(k n d^2) for n
tokens of width d, so that "self-attention layers are faster than recurrent layers when the sequence length n is smaller
than the representation dimensionality d". Where do they cross on a CPU?

Design:

- One layer of each kind, forward and backward, with one sequence and one thread. Measurements alternate between kinds.
- "Attention" is equation 1 alone with 8 heads, as a formula or with torch's fused kernel. "Multi-head attention" adds
  the four projections, which the paper's table leaves out.
- The LSTM is torch's; the convolution has k = 3.
- Exponents are slopes of log time over the largest sizes.
- Memory is what the layer stores for its backward pass.
"""

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.model.modeling_vaswani import VaswaniAttention

from . import figures
from .intervals import Interval, slope
from .lab import Lab
from .tables import Column, markdown


TITLE = "Table 1: what a layer costs"
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
WIDTHS = (64, 128, 256, 512)
HEADS = 8
ROUNDS = 5
# The paper's exponents of n and of d: they hold where the operations of the layer dominate.
KINDS = {
    "attention, formula": (2, 1),
    "attention, fused": (2, 1),
    "multi-head attention": (2, 1),
    "LSTM": (1, 2),
    "convolution": (1, 2),
}
FITTED = {"n": (512, 1024, 2048, 4096), "d": (64, 128, 256, 512)}  # sizes to fit the exponents to
FITTED_AT = {"n": 64, "d": 1024}  # the other size: d for n, n for d


class Layer(NamedTuple):
    """A layer as a function [1, N, D] -> [1, N, D], and its weights."""

    function: Callable[[torch.Tensor], torch.Tensor]
    weights: list[torch.Tensor]


def layer(kind: str, width: int) -> Layer:
    if kind == "attention, formula":
        return Layer(lambda x: joined(formula(heads_of(x))), [])
    if kind == "attention, fused":
        return Layer(lambda x: joined(nn.functional.scaled_dot_product_attention(*[heads_of(x)] * 3)), [])
    if kind == "LSTM":
        module = nn.LSTM(width, width, batch_first=True)
        function = lambda x: module(x)[0]  # noqa: E731
    elif kind == "convolution":
        module = nn.Conv1d(width, width, 3, padding=1)
        function = lambda x: module(x.transpose(1, 2)).transpose(1, 2)  # noqa: E731
    else:
        config = VaswaniConfig(d_model=width, encoder_attention_heads=HEADS)
        config._attn_implementation = "sdpa"
        module = VaswaniAttention(config, HEADS, 0, is_causal=False)
        function = lambda x: module(x)[0]  # noqa: E731
    return Layer(function, list(module.parameters()))


def heads_of(x: torch.Tensor) -> torch.Tensor:
    """[1, N, D] -> [1, H, N, D / H]"""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def joined(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


def formula(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.transpose(2, 3) * x.shape[-1] ** -0.5).softmax(dim=-1) @ x


def run(lab: Lab) -> dict[str, Any]:
    torch.set_num_threads(1)
    results = []
    for width, length in itertools.product(WIDTHS, LENGTHS):
        layers = {kind: layer(kind, width) for kind in KINDS}
        x, gradient = torch.randn(1, length, width, requires_grad=True), torch.randn(1, length, width)
        seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for number in range(ROUNDS + 1):
            for kind, module in layers.items():
                passed = duration(module.function, x, gradient)
                if number:  # the first round is a warm-up
                    seconds[kind].append(passed)
        for kind, module in layers.items():
            result = {"kind": kind, "n": length, "d": width, "seconds": [round(s, 7) for s in seconds[kind]]}
            results.append({**result, "bytes": saved_bytes(module, x)})
    return {"threads": 1, "rounds": ROUNDS, "results": results}


def duration(function: Callable, x: torch.Tensor, gradient: torch.Tensor, min_seconds: float = 0.05) -> float:
    """Seconds of a forward and a backward pass: the mean over at least `min_seconds`."""
    start, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < min_seconds or not count:
        function(x).backward(gradient)
        x.grad = None
        count += 1
    return passed / count


def saved_bytes(layer: Layer, x: torch.Tensor) -> int:
    """Bytes that autograd saves for the backward pass, including the layer's input but not its weights."""
    sizes: dict[int, int] = {}
    weights = {weight.untyped_storage().data_ptr() for weight in layer.weights}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer.function(x)
    return sum(sizes.values())


# The report ----------------------------------------------------------------------------------------------------------


def times(results: dict[str, Any], kind: str) -> dict[tuple[int, int], float]:
    """{(n, d): median seconds}"""
    rows = (row for row in results["results"] if row["kind"] == kind)
    return {(row["n"], row["d"]): statistics.median(row["seconds"]) for row in rows}


def exponent(results: dict[str, Any], kind: str, size: str, key: str = "seconds") -> Interval:
    """The exponent of a size, "n" or "d", in the time or memory of a layer."""
    fixed = "d" if size == "n" else "n"
    points = [
        (row[size], statistics.median(row[key]) if key == "seconds" else row[key])
        for row in results["results"]
        if row["kind"] == kind and row[size] in FITTED[size] and row[fixed] == FITTED_AT[size]
    ]
    return slope(*np.log(points).T)


def crossing(first: dict[tuple[int, int], float], second: dict[tuple[int, int], float], width: int) -> float:
    """The length from which the first layer is slower than the second, interpolated linearly between logarithms.

    0 if it always is, infinity if it never is.
    """
    before = 0, -np.inf
    for length in LENGTHS:
        difference = float(np.log(first[length, width] / second[length, width]))
        if difference > 0:
            if not before[0]:
                return 0.0
            share = before[1] / (before[1] - difference)
            return float(np.exp((1 - share) * np.log(before[0]) + share * np.log(length)))
        before = length, difference
    return np.inf


def length_text(length: float) -> str:
    if length == 0:
        return f"below {LENGTHS[0]}"
    return f"{length:,.0f}" if length < np.inf else f"beyond {LENGTHS[-1]:,}"


def finding(results: dict[str, Any]) -> str:
    formula, fused = shortest_crossings(results)
    holds = min(formula, fused) > 1
    return (
        f"The paper's rule {'holds' if holds else 'does not hold'} here: up to n = d, attention is faster than the "
        f"LSTM {'at every width' if holds else 'at some widths only'}. With the formula, it is faster up to at least "
        f"{formula:.1f} d; with the fused kernel, up to at least {fused:.1f} d."
    )


def shortest_crossings(results: dict[str, Any]) -> list[float]:
    """The n / d up to which attention is faster at every width, by the formula and with the fused kernel."""
    lstm = times(results, "LSTM")
    return [
        min(crossing(times(results, f"attention, {kind}"), lstm, width) / width for width in WIDTHS)
        for kind in ("formula", "fused")
    ]


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the rows of the explorer's table: what was measured, and the result."""
    formula, fused = shortest_crossings(results)
    return [
        (
            "Up to n = d, attention is faster than an LSTM",
            "at every width" if min(formula, fused) > 1 else "at some widths only",
        ),
        ("It is faster with the plain formula", f"up to at least n = {formula:.1f} d"),
        ("It is faster with a fused kernel", f"up to at least n = {fused:.1f} d"),
    ]


def report(results: dict[str, Any]) -> str:
    exponents = []
    for kind, (paper_n, paper_d) in KINDS.items():
        n, d = exponent(results, kind, "n"), exponent(results, kind, "d")
        line = {"layer": kind, "n, paper": paper_n, "n, here": f"{n.value:.2f} ± {n.high - n.value:.2f}"}
        line |= {"d, paper": paper_d}
        line |= {"d, here": f"{d.value:.2f} ± {d.high - d.value:.2f}"}
        exponents.append({**line, "n, memory": f"{exponent(results, kind, 'n', 'bytes').value:.2f}"})
    crossings = []
    for width in WIDTHS:
        line = {"d": width}
        for kind in list(KINDS)[:3]:
            for other in ("LSTM", "convolution"):
                line[f"{kind} / {other}"] = length_text(crossing(times(results, kind), times(results, other), width))
        crossings.append(line)
    columns = [[Column(name, right=name != "layer") for name in table[0]] for table in (exponents, crossings)]
    return "\n\n".join(
        [
            draw(results),
            f"Exponents of n at d = {FITTED_AT['n']} and of d at n = {FITTED_AT['d']}, with intervals of 95%:",
            markdown(columns[0], exponents),
            "These are slopes of straight lines fitted to curves: small sizes still have fixed costs. "
            "The softmax of attention, whose cost does not depend on d, may explain its low exponent of d.",
            "The length from which attention is slower than the other layer (the paper's rule is n = d):",
            markdown(columns[1], crossings),
        ]
    )


def draw(results: dict[str, Any]) -> str:
    figure = figures.figure(9, 3.4)
    for axes, width in zip(figure.subplots(1, 3, sharey=True), (WIDTHS[0], WIDTHS[2], WIDTHS[3]), strict=True):
        for kind in KINDS:
            seconds = times(results, kind)
            axes.plot(LENGTHS, [1000 * seconds[n, width] for n in LENGTHS], marker=".", label=kind)
        axes.axvline(width, color="#bbbbbb", linewidth=0.8)
        axes.set(title=f"d = {width} (line: n = d)", xlabel="tokens n", xscale="log", yscale="log")
    figure.axes[0].set(ylabel="ms, forward and backward")
    figure.axes[0].legend(fontsize=7)
    return figures.save(figure, "layers", "Time of a layer against the number of tokens, for three widths")
