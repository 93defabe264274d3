"""Recognises a stored table of positions: sinusoids of a known kind (section 3.5), or learned embeddings.

Toolkits differ in how they lay sines and cosines out, in the exponent of the frequencies, and in the number of the
first position: those that came from fairseq begin at 2.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.model.modeling_vaswani import sinusoidal_positions

from .options import ConversionError, Options


OFFSETS = range(4)
HALF_PRECISION = 1e-3  # how far rounding to half precision moves a sine or cosine at most, and a bit more


def recognise(
    tables: Sequence[torch.Tensor], d_model: int, expected: tuple[str, str] = ("interleaved", "half")
) -> dict[str, Any]:
    """Fields of the configuration for the tables [max, 1, D], [1, max, D] or [max, D] of source and target.

    `expected` are the layout and divisor that the toolkit's options name. They are tried first, because a table of one
    or two rows may fit several kinds. A table in half precision is not exactly sinusoidal: the toolkit adds its rounded
    values, so that these are kept as learned embeddings. So are tables of two kinds.

    Raises:
        ConversionError: a table has another shape, or learned tables have different lengths.
    """
    tables = [rows(table, d_model) for table in tables]
    kinds = [_kind(table, d_model, expected) for table in tables]
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    lengths = {len(table) for table in tables}
    if len(lengths) > 1:
        raise ConversionError(f"Position tables of different kinds or lengths, {sorted(lengths)}, are not supported.")
    return learned(tables[0])


def stored(
    tensors: Mapping[str, torch.Tensor], names: Iterable[str], options: Options, d_model: Any,
    expected: tuple[str, str] = ("interleaved", "half"),
) -> dict[str, Any]:  # fmt: skip
    """`recognise` for those tables among `tensors` that have one of `names`: the toolkit adds them, rounded or not.

    Without any there are no fields, nor where options were refused, on which the width may depend.
    """
    tables = [tensors[name] for name in names if name in tensors]
    if not tables or options.problems or not isinstance(d_model, int):
        return {}
    return recognise(tables, d_model, expected)


def _kind(table: torch.Tensor, d_model: int, expected: tuple[str, str]) -> dict[str, Any]:
    kinds = list(itertools.product(("interleaved", "concatenated"), ("half", "half_minus_one")))
    kinds.sort(key=lambda kind: kind != expected)
    sinusoidal = d_model >= 4 and d_model % 2 == 0
    for offset, (layout, divisor) in itertools.product(OFFSETS, kinds) if sinusoidal else ():
        fields = {"position_layout": layout, "position_divisor": divisor, "position_offset": offset}
        config = VaswaniConfig(d_model=d_model, encoder_attention_heads=1, decoder_attention_heads=1, **fields)
        if is_computed(table, config):
            return {"position_encoding": "sinusoidal", **fields}
    return learned(table)


def learned(table: torch.Tensor) -> dict[str, Any]:
    return {"position_encoding": "learned", "max_position_embeddings": len(table)}


def is_computed(table: torch.Tensor, config: VaswaniConfig, rounding: float = 0.0) -> bool:
    """Whether the rows [max, D] are what our model computes from position `config.position_offset` on."""
    places = torch.arange(len(table)) + config.position_offset
    # In float32 the error of the angle grows with the position.
    tolerance = 1e-6 * (10 + places[:, None]) + rounding
    return bool(((sinusoidal_positions(places, config) - table.float()).abs() < tolerance).all())


def check_computed(tables: Mapping[str, torch.Tensor], config: VaswaniConfig):
    """Checks the tables [max, D] of a toolkit that computes positions anew whenever it loads a model.

    Raises:
        ConversionError: a table is not the one that our model computes.
    """
    for name, table in tables.items():
        # The rows before the first position are never used; the one of padding is zero.
        fits = table.dim() == 2 and table.shape[1] == config.d_model and len(table) > config.position_offset
        if not fits or not is_computed(table[config.position_offset :], config, HALF_PRECISION):
            raise ConversionError(f"{name} holds other positions than the toolkit computes, which is not supported.")


def rows(table: torch.Tensor, d_model: int) -> torch.Tensor:
    """A table of positions as [max, D] in float32.

    Raises:
        ConversionError: it has another shape.
    """
    shape = list(table.shape)
    if table.dim() == 3 and 1 in shape[:2]:
        table = table.flatten(0, 1)
    if table.dim() != 2 or not len(table) or table.shape[1] != d_model or not table.is_floating_point():
        raise ConversionError(
            f"A position table has the shape {shape}, not [max, {d_model}], [max, 1, {d_model}] or [1, max, {d_model}]."
        )
    return table.float()
