"""Recognises a stored table of positions: sinusoids of a known kind (section 3.5), or learned embeddings.

Toolkits differ in the order of sines and cosines, in the exponent of the frequencies, and in the number of the first
position: 2 in fairseq and its descendants, for example.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.model.modeling_vaswani import sinusoidal_positions

from .options import ConversionError, Options


OFFSETS = range(4)
HALF_PRECISION = 1e-3  # more than the largest error of a sine or cosine in half precision


def recognise(
    tables: Sequence[torch.Tensor], d_model: int, expected: tuple[str, str] = ("interleaved", "half")
) -> dict[str, Any]:
    """Returns the position fields for the tables [max, 1, D], [1, max, D] or [max, D] of source and target.

    `expected` are the layout and divisor in the toolkit's options. They are tried first, because a table of one or two
    rows may match several kinds. The toolkit adds the stored values, so a table rounded to half precision is kept as
    learned embeddings. So are tables of two different kinds.

    Raises:
        ConversionError: a table has the wrong shape, or learned tables differ in length.
    """
    tables = [rows(table, d_model) for table in tables]
    kinds = [_kind(table, d_model, expected) for table in tables]
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    lengths = {len(table) for table in tables}
    if len(lengths) > 1:
        raise ConversionError(f"Unsupported: position tables of different kinds or lengths, {sorted(lengths)}.")
    return learned(tables[0])


def stored(
    tensors: Mapping[str, torch.Tensor], names: Iterable[str], options: Options, d_model: Any,
    expected: tuple[str, str] = ("interleaved", "half"),
) -> dict[str, Any]:  # fmt: skip
    """Applies `recognise` to the tables called `names`, whose stored values the toolkit adds, rounded or not.

    Returns {} if there are none, or if options were refused, because the width may depend on them.
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
    """Whether the rows [max, D] equal what our model computes, starting at position `config.position_offset`."""
    places = torch.arange(len(table)) + config.position_offset
    # The float32 error of the angle grows with the position.
    tolerance = 1e-6 * (10 + places[:, None]) + rounding
    return bool(((sinusoidal_positions(places, config) - table.float()).abs() < tolerance).all())


def check_computed(tables: Mapping[str, torch.Tensor], config: VaswaniConfig):
    """Checks the tables [max, D] of a toolkit that recomputes positions whenever it loads a model.

    Raises:
        ConversionError: a table differs from the one that our model computes.
    """
    for name, table in tables.items():
        # The rows before the first position are unused; the padding row is zero.
        fits = table.dim() == 2 and table.shape[1] == config.d_model and len(table) > config.position_offset
        if not fits or not is_computed(table[config.position_offset :], config, HALF_PRECISION):
            raise ConversionError(f"Unsupported positions: {name} differs from the table that the toolkit computes.")


def rows(table: torch.Tensor, d_model: int) -> torch.Tensor:
    """Returns a position table as [max, D] in float32.

    Raises:
        ConversionError: it has the wrong shape.
    """
    shape = list(table.shape)
    if table.dim() == 3 and 1 in shape[:2]:
        table = table.flatten(0, 1)
    if table.dim() != 2 or not len(table) or table.shape[1] != d_model or not table.is_floating_point():
        raise ConversionError(
            f"A position table has the shape {shape}, not [max, {d_model}], [max, 1, {d_model}] or [1, max, {d_model}]."
        )
    return table.float()
