"""The table of options, and what it refuses."""

import pytest

from conversion.options import ConversionError, Fields, Options


FIELDS = Fields(
    """
    d_model                         encoder.dim = decoder.dim       512
    dropout, attention_dropout      dropout                         0.1
    activation_dropout              activation_dropout | relu_dropout       0.0
    activation_function             act                             relu
    norm_position                   before                          False
    layer_norm_eps                  = 1e-5
    position_layout                 = concatenated
    """,
    choices={"activation_function": {"relu": "relu", "swish": "silu"}, "norm_position": {True: "pre", False: "post"}},
)


def test_fields_are_read_by_their_table():
    options = Options({"act": "swish", "before": 1, "relu_dropout": 0.3, "activation_dropout": 0.0}, "toolkit")
    assert FIELDS.read(options) == {
        "d_model": 512,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "activation_dropout": 0.3,
        "activation_function": "silu",
        "norm_position": "pre",
        "layer_norm_eps": 1e-5,
        "position_layout": "concatenated",
    }
    assert not options.problems


def test_everything_that_is_not_supported_is_refused_at_once():
    options = Options({"encoder": {"dim": 8}, "decoder": {"dim": 16}, "act": ["x"]}, "toolkit")
    FIELDS.read(options)
    with pytest.raises(ConversionError, match=r"encoder.dim=8 with decoder.dim=16.*; act=\['x'\] \(supported: 'relu'"):
        options.finish()


def test_a_value_without_end_is_quoted_shortly():
    nested = []
    for _ in range(60):  # as YAML's aliases make it: its text would have 2^60 characters
        nested = [nested, nested]
    options = Options({"act": nested, "before": "x" * 10**6}, "toolkit")
    options.only("act", "relu")
    options.only("before", True)
    assert len(" ".join(options.problems)) < 1000


def test_a_row_of_one_column_is_a_mistake():
    with pytest.raises(ValueError, match="a field, an option"):
        Fields("d_model")


def test_values_other_than_those_of_the_table_are_refused():
    options = Options({"depth": 3, "mask": "alibi", "pool": False}, "toolkit")
    options.must_be({"depth": (2,), "mask": ("default", "none"), "pool": (False,), "unset": (0,)})
    assert options.problems == ["depth=3 (supported: 2)", "mask='alibi' (supported: 'default', 'none')"]


@pytest.mark.parametrize("value, number", [(None, 0.6), (1, 1.0), ("0.1", 0.1), (True, 1.0)])
def test_a_number_is_read_however_it_is_written(value, number):
    assert Options({"alpha": value}, "toolkit").real("alpha", 0.6) == number


@pytest.mark.parametrize("value", ["many", [], float("inf"), float("nan"), 10**400])
def test_what_is_no_finite_number_is_named(value):
    with pytest.raises(ConversionError, match="alpha is not a finite number"):
        Options({"alpha": value}, "toolkit").real("alpha", 0.6)


def test_versions_are_compared_by_their_numbers():
    options = Options({"version": "v1.12.42 b7be0e9", "short": "2.3", "odd": "nightly"}, "toolkit")
    assert options.version("version", parts=3) == (1, 12, 42)
    assert options.version("version", parts=2) == (1, 12) < options.version("short", parts=2)
    assert options.version("short", parts=3) is options.version("odd", parts=2) is options.version("none", 2) is None
