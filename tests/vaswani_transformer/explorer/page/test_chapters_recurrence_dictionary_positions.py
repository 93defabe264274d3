"""Chapters 0 (recurrence), 1 (the soft dictionary) and 4 (positions) show the numbers that PyTorch computes."""

import math

import pytest
import torch

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.model.modeling_vaswani import sinusoidal_positions


SENTENCE = "The girl who lives next door gave her brother a book."


def show(page, chapter: str, figure: int = 0):
    """Brings a figure into view and waits until it is drawn."""
    place = f"document.querySelectorAll('#{chapter} figure')[{figure}]"
    page.js(f"{place}.scrollIntoView({{behavior: 'instant'}})")
    page.wait(f"{place}.querySelector('.body:not([data-stale])')?.children.length")


def press(page, selector: str):
    """Clicks, and waits until the figure is drawn again: at once, unless the browser has yet to find it in view."""
    page.wait(f'document.querySelector("{selector}")')
    page.js("document.querySelector(arguments[0]).click()", selector)
    page.wait(f"""!document.querySelector("{selector}")?.closest("[data-stale]")""")


def slide(page, key: str, value: float):
    """Moves the slider with this `data-key`."""
    page.js(
        "const input = [...document.querySelectorAll('input')].find((e) => e.dataset.key === arguments[0]);"
        "input.value = arguments[1]; input.dispatchEvent(new Event('input'))",
        key,
        value,
    )


# Chapter 0 -----------------------------------------------------------------------------------------------------------


def test_a_recurrent_layer_takes_a_step_for_each_token(open_chapter, inspected):
    page = open_chapter("recurrence")
    page.translate(SENTENCE)
    n = len(inspected(SENTENCE).source)
    slide(page, "step", 5)
    assert page.js("return document.querySelectorAll('.race .state.done:not(.attention)').length") == 5
    assert page.js("return document.querySelectorAll('.race .state.attention.done').length") == n
    press(page, "#recurrence [data-key='race step']")
    assert page.text("#race-result").startswith(f"After step 6 the recurrent layer has read 6 of {n} tokens")


def test_the_steps_between_two_words(open_chapter):
    page = open_chapter("recurrence")
    page.translate(SENTENCE)
    show(page, "recurrence", 1)
    for first, second in [(0, 1), (1, 8), (10, 3), (0, 12)]:
        for token in (5, 6, first, second):  # the older choices go
            press(page, f"#recurrence [data-key='two words {token}']")
        steps = page.js("return [...document.querySelectorAll('.path')].map((path) => Number(path.dataset.steps))")
        distance = abs(first - second)
        assert steps == [distance + 1, distance, math.ceil(math.log2(distance + 1)), 1]


@pytest.mark.parametrize(("chapter", "experiment"), [("recurrence", "layers"), ("heads", "alignment")])
def test_a_chapter_ends_with_what_was_measured(open_chapter, chapter, experiment):
    page = open_chapter(chapter)
    facts = page.js("return (await import('./lib/findings.js')).FACTS")
    table = page.text(f"#{chapter} .measured")
    assert facts[experiment] and all(text in table for row in facts[experiment] for text in row)


def test_table_1_has_the_counts_of_this_model_and_any_length(open_chapter, inspected):
    page = open_chapter("recurrence")
    page.translate(SENTENCE)
    show(page, "recurrence", 2)
    d, n = 256, len(inspected(SENTENCE).source)

    def shown():
        rows = "[...document.querySelectorAll('table.costs tbody tr')]"
        return page.js(f"return {rows}.map((row) => [...row.cells].slice(1).map((cell) => +cell.dataset.value))")

    assert shown()[:3] == [[n * n * d, 1, 1], [n * d * d, n, n], [3 * n * d * d, 1, n - 1]]
    slide(page, "costs n", 10)
    assert shown()[:2] == [[1024 * 1024 * d, 1, 1], [1024 * d * d, 1024, 1024]]
    press(page, "#recurrence [data-key='costs equal']")
    assert shown()[0][0] == shown()[1][0] == d**3


# Chapter 1 -----------------------------------------------------------------------------------------------------------

KEYS = torch.tensor([[2.1, 0.9], [0.1, 2.3], [-2.2, 0.7], [-1.1, -1.9], [1.5, -1.7]])


def plane(page) -> tuple[torch.Tensor, torch.Tensor]:
    """The query, and the keys' weights."""
    return tuple(map(torch.tensor, page.js("const p = document.querySelector('.plane'); return [p.query, p.weights]")))


def test_the_plane_weighs_keys_by_a_softmax(open_chapter):
    page = open_chapter("dictionary")
    for temperature in (0.5, 1, 4):
        slide(page, "plane temperature", temperature)
        query, weights = plane(page)
        torch.testing.assert_close(weights, torch.softmax(KEYS @ query / temperature, dim=-1), atol=1e-5, rtol=0)


def test_the_query_moves_by_arrow_keys_and_a_temperature_of_0_takes_one_value(open_chapter):
    page = open_chapter("dictionary")
    slide(page, "plane temperature", 1)
    before, _ = plane(page)
    page.js(
        "const q = document.querySelector('.plane .query');"
        "for (const key of ['ArrowLeft', 'ArrowLeft', 'ArrowDown'])"
        "  q.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}))"
    )
    query, weights = plane(page)
    torch.testing.assert_close(query, before + torch.tensor([-0.2, -0.1]))
    torch.testing.assert_close(weights, torch.softmax(KEYS @ query, dim=-1), atol=1e-5, rtol=0)
    slide(page, "plane temperature", 0)
    assert plane(page)[1].tolist() == [float(i == (KEYS @ query).argmax()) for i in range(5)]


def lookup(page) -> tuple[torch.Tensor, float]:
    weights, share = page.js("const v = document.querySelector('.values'); return [[...v.tensor.data], v.share]")
    return torch.tensor(weights), share


def test_the_real_lookup_has_the_heads_weights_and_says_how_much_it_shows(open_chapter, inspected):
    page = open_chapter("dictionary")
    page.translate(SENTENCE)
    show(page, "dictionary", 1)
    press(page, "#dictionary [data-key='attention encoder.self_attn']")
    press(page, "#dictionary [data-key='query token 6']")
    tensors = inspected(SENTENCE).tensors
    weights, share = lookup(page)
    torch.testing.assert_close(
        weights, tensors["encoder.layers.0.self_attn.weights"][0, 6], atol=1e-4, rtol=0, check_dtype=False
    )
    value = tensors["encoder.layers.0.self_attn.value"][0]
    spread = torch.linalg.svdvals(value - value.mean(dim=0)) ** 2
    assert share == pytest.approx(float(spread[:2].sum() / spread.sum()), abs=1e-4)
    assert "At temperature 1 this is the model's own" in page.text("#lookup-result")


def test_the_real_lookup_leaves_later_tokens_out_in_the_decoder(open_chapter, inspected):
    page = open_chapter("dictionary")
    page.translate(SENTENCE)
    show(page, "dictionary", 1)
    press(page, "#dictionary [data-key='attention decoder.self_attn']")
    press(page, "#dictionary [data-key='query token 2']")
    weights, _ = lookup(page)
    wanted = inspected(SENTENCE).tensors["decoder.layers.0.self_attn.weights"][0, 2]
    torch.testing.assert_close(weights, wanted, atol=1e-4, rtol=0, check_dtype=False)
    assert weights[3:].abs().max() == 0


# Chapter 4 -----------------------------------------------------------------------------------------------------------


def test_the_sum_of_embedding_and_position_is_the_models(open_chapter, inspected):
    page = open_chapter("positions")
    page.translate(SENTENCE)
    press(page, "#positions [data-key='token 4']")
    shape, data = page.tensors("#position-sum")[0]
    tensors = inspected(SENTENCE).tensors
    wanted = torch.stack([tensors[f"encoder.{name}"][4] for name in ("embedding", "positions", "input")])
    torch.testing.assert_close(torch.tensor(data).view(shape), wanted, atol=1e-4, rtol=0)


def test_the_rotation_shifts_every_position(open_chapter, inspected):
    page = open_chapter("positions")
    show(page, "positions", 1)
    for k in (0, 7, 64):
        slide(page, "shift k", k)
        assert page.js("return Number(document.getElementById('rotation-result').dataset.error)") < 2e-5
    assert page.text("#rotation-result").startswith("With k = 64, one matrix maps each of 64 positions")


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("divisor", ["half", "half_minus_one"])
def test_the_rotation_is_found_for_every_order_and_divisor(page, layout, divisor):
    config = VaswaniConfig(d_model=32, position_layout=layout, position_divisor=divisor)
    table = sinusoidal_positions(torch.arange(100), config)
    script = """
        const [numbers, isConcatenated, done] = arguments;
        Promise.all([import("/lib/positions.js"), import("/lib/tensors.js")]).then(([positions, { Tensor }]) => {
          const table = new Tensor([100, 32], Float32Array.from(numbers));
          const omegas = positions.frequencies(table, isConcatenated);
          done([omegas, positions.rotationError(table, omegas, 9, isConcatenated), positions.fitError(table, 1)]);
        })"""
    answer = page.browser.execute_async_script(script, table.flatten().tolist(), layout == "concatenated")
    omegas, error, fitted = answer
    wanted = 10000.0 ** (-torch.arange(16, dtype=torch.float64) / (16 if divisor == "half" else 15))
    torch.testing.assert_close(torch.tensor(omegas, dtype=torch.float64), wanted)
    assert error < 1e-5
    assert fitted < 0.01


def test_the_papers_sinusoids_are_computed_as_the_model_does(page):
    script = """
        const done = arguments[0];
        import("/lib/positions.js").then(({ sinusoids }) => done([...sinusoids(128, 64).data]))"""
    numbers = torch.tensor(page.browser.execute_async_script(script)).view(128, 64)
    wanted = sinusoidal_positions(torch.arange(128), VaswaniConfig(d_model=64))
    torch.testing.assert_close(numbers, wanted, atol=2e-5, rtol=0)


def test_positions_compare_by_distance_alone(open_chapter, inspected):
    page = open_chapter("positions")
    show(page, "positions", 2)
    shape, data = page.tensors("#positions")[2]
    products = torch.tensor(data).view(shape)
    omega = 10000 ** (-torch.arange(128) / 128)
    for distance in (0, 1, 30):
        wanted = torch.cos(distance * omega).sum().expand(128 - distance)
        torch.testing.assert_close(products.diagonal(distance), wanted, atol=1e-3, rtol=0)


def test_beyond_the_trained_lengths_is_told_on_request(open_chapter, inspected):
    page = open_chapter("positions")
    page.translate("The dog is tired.")
    show(page, "positions", 3)
    press(page, "#positions [data-key='beyond']")
    page.wait("document.getElementById('beyond-result')")
    assert "contains the sentence 8 times" in page.text("#beyond-result")
