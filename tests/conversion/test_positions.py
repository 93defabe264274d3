"""One recogniser of positions for all toolkits."""

import pytest
import torch

from conversion.options import ConversionError, Options
from conversion.positions import recognise, stored
from vaswani_transformer import VaswaniConfig
from vaswani_transformer.model.modeling_vaswani import sinusoidal_positions


def table(rows: int = 300, **fields) -> torch.Tensor:
    config = VaswaniConfig(d_model=16, encoder_attention_heads=1, decoder_attention_heads=1, **fields)
    return sinusoidal_positions(torch.arange(rows) + config.position_offset, config)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("divisor", ["half", "half_minus_one"])
@pytest.mark.parametrize("offset", [0, 2])
def test_sinusoids_of_every_kind_are_recognised(layout, divisor, offset):
    fields = {"position_layout": layout, "position_divisor": divisor, "position_offset": offset}
    sinusoids = table(**fields)
    for shape in ((300, 16), (300, 1, 16), (1, 300, 16)):
        assert recognise([sinusoids.view(shape)] * 2, 16) == {"position_encoding": "sinusoidal", **fields}


def test_the_angle_may_be_as_wrong_as_float32_makes_it():
    angles = torch.arange(5000)[:, None] * torch.exp(torch.arange(0, 16, 2) * -(torch.log(torch.tensor(10000.0)) / 16))
    sinusoids = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # PyTorch's tutorial
    assert recognise([sinusoids], 16)["position_encoding"] == "sinusoidal"


def test_what_is_not_exactly_sinusoidal_stays_as_it_is():
    learned = {"position_encoding": "learned", "max_position_embeddings": 300}
    assert recognise([table().half()], 16) == learned  # rounded values are what the toolkit adds
    late = table()
    late[290] += 0.1  # trained, but only at the end
    assert recognise([late], 16) == learned
    assert recognise([table(), torch.randn(300, 16)], 16) == learned


def test_tables_that_no_configuration_has_are_refused():
    with pytest.raises(ConversionError, match="different kinds or lengths"):
        recognise([torch.randn(20, 16), torch.randn(30, 16)], 16)
    with pytest.raises(ConversionError, match=r"shape \[20, 8\], not \[max, 16\]"):
        recognise([torch.randn(20, 8)], 16)


def test_tables_are_read_if_they_are_stored_and_nothing_was_refused():
    tensors, options = {"source": table(), "other": torch.ones(2, 2)}, Options({"kind": "other"}, "toolkit")
    assert stored(tensors, ["source", "target"], options, 16) == recognise([table()], 16)
    assert stored(tensors, ["target"], options, 16) == {}
    options.off("kind")
    assert stored(tensors, ["source"], options, 8) == {}  # the refusal says more than a width that does not fit
