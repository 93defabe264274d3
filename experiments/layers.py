"""Table 1 of the paper: what a layer costs.

    python -m experiments layers

Question: Table 1 says that self-attention takes O(n^2 d), recurrence O(n d^2) and convolution O(k n d^2) operations for
n tokens of width d, so that "self-attention layers are faster than recurrent layers when the sequence length n is
smaller than the representation dimensionality d". Where do they cross on a processor?

Design: one layer of each kind, forward and backward, one sequence, one thread, in turns. "Attention" is equation 1
alone with 8 heads, by the formula and by torch's fused kernel; "multi-head attention" also has its four projections,
which the paper's table leaves out. The LSTM is torch's, the convolution has k = 3. Exponents are slopes of log time
over the largest sizes; memory is what the layer keeps for its backward pass.
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
# The paper's exponents of n and of d, where the layer's own operations outweigh all else.
KINDS = {
    "attention, formula": (2, 1),
    "attention, fused": (2, 1),
    "multi-head attention": (2, 1),
    "LSTM": (1, 2),
    "convolution": (1, 2),
}
FITTED = {"n": (512, 1024, 2048, 4096), "d": (64, 128, 256, 512)}  # sizes whose times the exponents are fitted to
FITTED_AT = {"n": 64, "d": 1024}  # with this d; with this n


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
            for kind, one in layers.items():
                seconds[kind].append(duration(one.function, x, gradient))
                if not number:
                    seconds[kind].clear()  # the first is to warm up
        for kind, one in layers.items():
            own = {"kind": kind, "n": length, "d": width, "seconds": [round(s, 7) for s in seconds[kind]]}
            results.append({**own, "bytes": kept_bytes(one, x)})
    return {"threads": 1, "rounds": ROUNDS, "results": results}


def duration(function: Callable, x: torch.Tensor, gradient: torch.Tensor, least: float = 0.05) -> float:
    """Seconds of a forward and a backward pass; the mean of as many as `least` seconds take."""
    start, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < least or not count:
        function(x).backward(gradient)
        x.grad = None
        count += 1
    return passed / count


def kept_bytes(layer: Layer, x: torch.Tensor) -> int:
    """Memory that autograd keeps between the passes: the layer's input counts, its weights do not."""
    kept: dict[int, int] = {}
    weights = {weight.untyped_storage().data_ptr() for weight in layer.weights}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer.function(x)
    return sum(kept.values())


# The report ----------------------------------------------------------------------------------------------------------


def times(found: dict[str, Any], kind: str) -> dict[tuple[int, int], float]:
    """{(n, d): seconds, the median of the rounds}"""
    of_kind = (one for one in found["results"] if one["kind"] == kind)
    return {(one["n"], one["d"]): statistics.median(one["seconds"]) for one in of_kind}


def exponent(found: dict[str, Any], kind: str, of: str, key: str = "seconds") -> Interval:
    other = "d" if of == "n" else "n"
    points = [
        (one[of], statistics.median(one[key]) if key == "seconds" else one[key])
        for one in found["results"]
        if one["kind"] == kind and one[of] in FITTED[of] and one[other] == FITTED_AT[of]
    ]
    return slope(*np.log(points).T)


def crossing(one: dict[tuple[int, int], float], other: dict[tuple[int, int], float], width: int) -> float:
    """The length from which the first takes longer than the second, by straight lines between logarithms.

    0 where it always does, infinity where it never does.
    """
    before = 0, -np.inf
    for length in LENGTHS:
        difference = float(np.log(one[length, width] / other[length, width]))
        if difference > 0:
            if not before[0]:
                return 0.0
            share = before[1] / (before[1] - difference)
            return float(np.exp((1 - share) * np.log(before[0]) + share * np.log(length)))
        before = length, difference
    return np.inf


def shown(length: float) -> str:
    if length == 0:
        return f"below {LENGTHS[0]}"
    return f"{length:,.0f}" if length < np.inf else f"beyond {LENGTHS[-1]:,}"


def finding(found: dict[str, Any]) -> str:
    lstm = times(found, "LSTM")
    formula, fused = (
        [crossing(times(found, f"attention, {kind}"), lstm, width) / width for width in WIDTHS]
        for kind in ("formula", "fused")
    )
    holds = min(formula) > 1 and min(fused) > 1
    return (
        f"The paper's rule {'holds' if holds else 'does not hold'} here: up to n = d attention is faster than the "
        f"LSTM {'at every width' if holds else 'at some widths only'}; by the formula it stays so to "
        f"{min(formula):.1f} d or more, with the fused kernel to {min(fused):.1f} d or more."
    )


def report(found: dict[str, Any]) -> str:
    exponents = []
    for kind, (of_n, of_d) in KINDS.items():
        n, d = exponent(found, kind, "n"), exponent(found, kind, "d")
        line = {"layer": kind, "n, paper": of_n, "n, here": f"{n.value:.2f} ± {n.high - n.value:.2f}", "d, paper": of_d}
        line |= {"d, here": f"{d.value:.2f} ± {d.high - d.value:.2f}"}
        exponents.append({**line, "n, memory": f"{exponent(found, kind, 'n', 'bytes').value:.2f}"})
    crossings = []
    for width in WIDTHS:
        line = {"d": width}
        for kind in list(KINDS)[:3]:
            for other in ("LSTM", "convolution"):
                line[f"{kind} / {other}"] = shown(crossing(times(found, kind), times(found, other), width))
        crossings.append(line)
    columns = [[Column(name, right=name != "layer") for name in table[0]] for table in (exponents, crossings)]
    return "\n\n".join(
        [
            draw(found),
            f"Exponents: of n at d = {FITTED_AT['n']}, of d at n = {FITTED_AT['d']}, with intervals of 95%. They "
            "are of straight lines through points that bend: small sizes still pay for what does not grow. The softmax "
            "of attention, which does not depend on d, may be why its exponent of d is below the paper's.",
            markdown(columns[0], exponents),
            "The length from which attention takes longer than the other layer; the paper's rule is n = d:",
            markdown(columns[1], crossings),
        ]
    )


def draw(found: dict[str, Any]) -> str:
    drawn = figures.figure(9, 3.4)
    for axes, width in zip(drawn.subplots(1, 3, sharey=True), (WIDTHS[0], WIDTHS[2], WIDTHS[3]), strict=True):
        for kind in KINDS:
            of_kind = times(found, kind)
            axes.plot(LENGTHS, [1000 * of_kind[n, width] for n in LENGTHS], marker=".", label=kind)
        axes.axvline(width, color="#bbbbbb", linewidth=0.8)
        axes.set(title=f"d = {width} (line: n = d)", xlabel="tokens n", xscale="log", yscale="log")
    drawn.axes[0].set(ylabel="ms, forward and backward")
    drawn.axes[0].legend(fontsize=7)
    return figures.save(drawn, "layers", "Time of a layer against the number of tokens, for three widths")
