"""Operations that are counted, and what is written of them."""

import pytest

from experiments import cost, figures, table3
from vaswani_transformer import VaswaniConfig


SMALL = dict(vocab_size=50, d_model=16, d_ff=32, encoder_layers=1, decoder_layers=1,
             encoder_attention_heads=2, decoder_attention_heads=2)  # fmt: skip


def products(config: VaswaniConfig, length: int) -> int:
    """Multiplications of a forward pass for a token on either side, from the paper's formulas alone."""
    d, inner, size = config.d_model, config.d_ff, config.vocab_size
    attention, feed_forward = 4 * d * d + 2 * length * d, 2 * d * inner
    return (attention + feed_forward) + (2 * attention + feed_forward) + d * size


def test_operations_are_those_of_the_papers_formulas():
    """Two for a multiplication and an addition, and twice as many backward as forward, but for what has no gradient."""
    config = VaswaniConfig(**SMALL)
    expected = 6 * products(config, cost.LENGTH)
    assert cost.operations_per_token(config) == pytest.approx(expected, rel=0.02)


def test_capacity_is_positive_and_leaves_the_threads_as_they_were():
    import torch

    assert cost.capacity("float32", size=8, seconds=1e-6) > 0
    assert torch.get_num_threads() == 1


def test_captions_are_the_rows_that_differ_in_their_shape():
    rows = [
        {"row": "base", "losses": {"1": 2.0}, "sacrebleu_greedy": [30.0, 32.0]},
        {"row": "n1", "losses": {"1": 2.0}, "sacrebleu_greedy": [20.0]},
        {"row": "n4", "losses": {}, "sacrebleu_greedy": []},  # no run of it has ended
        {"row": "dropout-0", "losses": {"1": 2.0}, "sacrebleu_greedy": [25.0]},
    ]
    base, one_layer = cost.captions(rows)
    assert (base["row"], base["bleu"], one_layer["row"]) == ("base", 31.0, "n1")
    assert one_layer["counted"] < base["counted"]


@pytest.fixture
def found() -> dict:
    return {
        "capacity": {"float32": 1e11, "bfloat16": 2e11},
        "captions": [{"row": row, "bleu": 30.0, "counted": 1e14} for row in ("base", "h1")],
        "rows": [
            {"model": "the paper's base", "counted": 1e18, "formula": 4e18, cost.NEWS: {"en-de": 27.3, "en-fr": 38.1}},
            {"model": "mini-en-de", "counted": 5e16, "runs": 2, cost.NEWS: {"en-de": 20.0}, "thread_hours": 40.0},
            {"model": "multi30k-en-de", "counted": 1e15, "runs": 1, "thread_hours": 2.0, "formula": 2e15},
        ],
    }


def test_the_finding_compares_the_costliest_checkpoint_with_the_papers_base(found):
    said = cost.finding(found)
    assert "base took 1.0e+18 operations; the costliest checkpoint here took 5.0% of that" in said
    assert said.endswith("the paper's base 25%, multi30k-en-de 50%.")


def test_the_table_leaves_empty_what_is_not_known(found, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    lines = cost.report(found).split("\n\n")[1].splitlines()[2:]
    assert lines == [
        "| the paper's base | 1.0e+18 | 4.0e+18 | 25% | 27.3 EN-DE, 38.1 EN-FR |  |  |  |",
        "| mini-en-de | 5.0e+16 |  |  | 20.0 |  | 2 | 40.0 |",
        "| multi30k-en-de | 1.0e+15 | 2.0e+15 | 50% |  |  | 1 | 2.0 |",
    ]
    svg = (tmp_path / "cost.svg").read_text()
    assert f"{table3.BASE.what}, {table3.ROWS['h1'].what}" in svg, "rows at one place share a label"


def test_the_papers_models_are_in_its_table():
    for table in cost.TABLE_2.values():
        assert {f"Transformer {name}" for name in cost.PAPER_RUNS} <= {row.model for row in table}
        assert max(table, key=lambda row: row.bleu).model == "Transformer big"
