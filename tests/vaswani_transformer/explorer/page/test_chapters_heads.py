"""Chapters 3, 5 and 8: heads and their ablation, a layer of the encoder, and attention weights as lines."""

import xml.etree.ElementTree as ElementTree

import pytest
import torch

from vaswani_transformer.explorer.responses import EXAMPLES
from vaswani_transformer.inspection.heads import shared_copy, without_heads
from vaswani_transformer.model.forced_vaswani import forced_log_probs


SENTENCE = "The girl who lives next door gave her brother a book."
SIZES = [("encoder", "self_attn", 4), ("decoder", "self_attn", 3), ("decoder", "cross_attn", 3)]
NUMBERS = "({ shape, data }) => [shape, [...data]]"


def close(shown, wanted, tolerance: float = 1e-4):
    shape, data = shown
    torch.testing.assert_close(torch.tensor(data).view(shape), wanted.float(), atol=tolerance, rtol=0)


def bring(page, selector: str):
    """Scrolls to an element's figure, which is drawn when it is near, and waits until it is."""
    page.js("document.querySelector(arguments[0]).scrollIntoView({behavior: 'instant', block: 'center'})", selector)
    page.browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 100))")


def click(page, selector: str):
    page.js("document.querySelector(arguments[0]).dispatchEvent(new Event('click'))", selector)


@pytest.fixture(scope="module")
def model():
    from vaswani_transformer import checkpoint_path, load

    return load(checkpoint_path("mini-en-de"))[0]


# Chapter 3 -----------------------------------------------------------------------------------------------------------


def test_chapter_3_shows_the_weights_of_every_head_of_a_layer(open_chapter, inspected):
    page = open_chapter("heads")
    page.translate(SENTENCE)
    tensors = inspected(SENTENCE).tensors
    shown = page.js(
        f"return [...document.querySelectorAll('#heads canvas.thumbnail')].map((c) => ({NUMBERS})(c.tensor))"
    )
    for head, weights in enumerate(tensors["encoder.layers.0.self_attn.weights"]):
        close(shown[head], weights)
    click(page, "#heads .head-card:nth-child(2) .look")
    bring(page, "#heads .large")
    close(page.tensors("#heads .large")[0], tensors["encoder.layers.0.self_attn.weights"][1])


def test_chapter_3_translates_without_the_heads_that_are_off(open_chapter, inspected):
    page = open_chapter("heads")
    page.translate(SENTENCE)
    for head in (1, 3):
        click(page, f"#heads .head-card:nth-child({head}) .switch")
    page.wait("document.querySelector('#heads .status').ariaBusy === 'false'")
    page.wait("document.querySelectorAll('#heads-outcome tbody tr').length === 2")
    cells = page.js("return [...document.querySelectorAll('#heads-outcome tbody td')].map((cell) => cell.textContent)")
    without = inspected(SENTENCE, off=[("encoder", "self_attn", 0, 0), ("encoder", "self_attn", 0, 2)])
    assert [cells[0].strip(), cells[3].strip()] == [inspected(SENTENCE).translation, without.translation]
    assert float(cells[4].replace("−", "-")) == pytest.approx(without.score, rel=1e-2)
    click(page, "#heads-outcome [data-key='all on']")
    page.wait("document.querySelectorAll('#heads-outcome tbody tr').length === 1")


@pytest.mark.slow
def test_chapter_3_ranks_the_heads_by_the_fall_of_log_p(open_chapter, inspected, model):
    page = open_chapter("heads")
    page.translate(SENTENCE)
    bring(page, "#heads figure:last-of-type")
    click(page, "#heads-rank")
    page.wait("document.querySelectorAll('#heads .rankings .heatmap').length === 3")
    shown = torch.tensor(sum((data for _, data in page.tensors("#heads .rankings")), []))
    inspection = inspected(SENTENCE)
    in_the_pages_order = [
        (*place, layer, head) for *place, layers in SIZES for layer in range(layers) for head in range(4)
    ]
    falls = []
    for head in in_the_pages_order:
        copied = shared_copy(model)
        with without_heads(copied, [head]):
            inputs = {"input_ids": inspection.source_ids}
            falls.append(inspection.log_prob - forced_log_probs(copied, inputs, inspection.target_ids).sum())
    torch.testing.assert_close(shown, torch.stack(falls), atol=1e-3, rtol=0)


# Chapter 5 -----------------------------------------------------------------------------------------------------------


def test_chapter_5_has_the_stream_at_every_stop(open_chapter, inspected):
    page = open_chapter("encoder")
    page.translate(SENTENCE)
    tensors = inspected(SENTENCE).tensors
    place = "encoder.layers.0"
    stops = [f"{place}.self_attn.{name}" for name in ("input", "output", "sum", "result")]
    stops += [f"{place}.feed_forward.{name}" for name in ("output", "sum", "result")]
    for number, name in enumerate(stops):
        click(page, f"#encoder [data-key='stop {number}']")
        close(page.tensors("#encoder .large")[0], tensors[name])


def test_chapter_5_says_mean_and_deviation_of_a_token_before_and_after_the_norm(open_chapter, inspected):
    page = open_chapter("encoder")
    page.translate(SENTENCE)
    click(page, "#encoder [data-key='length 2']")
    click(page, "#encoder [data-key='stop 3']")
    panels = page.js(
        "return [...document.querySelectorAll('#encoder .norm-panels > div')].map((p) => ({...p.dataset}))"
    )
    tensors = inspected(SENTENCE).tensors
    for panel, name in zip((panels[0], panels[2]), ("sum", "result"), strict=True):
        row = tensors[f"encoder.layers.0.self_attn.{name}"][2]
        assert float(panel["mean"]) == pytest.approx(row.mean().item(), abs=1e-4)
        assert float(panel["deviation"]) == pytest.approx(row.std(correction=0).item(), abs=1e-4)
    assert float(panels[1]["deviation"]) == pytest.approx(1, abs=1e-4)


def test_chapter_5_finds_the_units_that_fire_most(open_chapter, inspected):
    page = open_chapter("encoder")
    page.translate(SENTENCE)
    bring(page, "#encoder figure:nth-of-type(2)")
    click(page, "#encoder [data-key='unit token 2']")
    hidden = inspected(SENTENCE).tensors["encoder.layers.0.feed_forward.hidden"]
    shown, units = page.js(f"""const map = document.querySelector('#encoder-unit').previousElementSibling;
                               return [({NUMBERS})(map.tensor), map.units]""")
    assert units == hidden[2].topk(len(units)).indices.tolist()
    close(shown, hidden.T[units])
    share = page.js("return document.querySelector('#encoder-units').dataset.share")
    assert float(share) == pytest.approx((hidden[2] > 0).float().mean().item(), abs=1e-6)


def test_chapter_5_adds_the_parameters_up(open_chapter, model):
    page = open_chapter("encoder")
    bring(page, "#encoder figure:nth-of-type(3)")
    facts = page.js("return {...document.querySelector('#encoder-parameters').dataset}")
    count = sum(parameter.numel() for parameter in model.parameters())
    assert int(facts["sum"]) == int(facts["count"]) == count
    click(page, "#encoder [data-key='parameters 1']")
    assert page.js("return document.querySelectorAll('#encoder [data-key^=\"parameters \"]').length") == 4


# Chapter 8 -----------------------------------------------------------------------------------------------------------


def test_chapter_8_draws_the_weights_with_a_temperature(open_chapter, inspected):
    page = open_chapter("explorer")
    page.translate(SENTENCE)
    bring(page, "#explorer figure:last-of-type")
    click(page, "#explorer [data-key='cell decoder self_attn 1 2']")
    bring(page, "#explorer figure")
    tensors = inspected(SENTENCE).tensors
    shown = f"return ({NUMBERS})(document.querySelector('#explorer svg.links').tensor)"
    close(page.js(shown), tensors["decoder.layers.1.self_attn.weights"][2])
    page.js("""const slider = document.querySelector('#explorer [data-key="explorer temperature"]');
               slider.value = 2; slider.dispatchEvent(new Event('input'))""")
    scores = tensors["decoder.layers.1.self_attn.scores"][2]
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    close(page.js(shown), (scores / 2).masked_fill(hidden, -torch.inf).softmax(-1))


def test_chapter_8_opens_an_example_at_its_head_and_saves_the_figure(open_chapter, inspected):
    page = open_chapter("explorer")
    click(page, "#explorer [data-example='long-distance']")
    page.wait("document.querySelector('#explorer-remark')")
    text, linked = EXAMPLES["en"]["long-distance"]
    inspection = inspected(text)
    words = [token.text.strip() for token in inspection.source]
    row, column = map(words.index, linked)
    weights = torch.stack([inspection.tensors[f"encoder.layers.{layer}.self_attn.weights"] for layer in range(4)])
    shown = page.js("return document.querySelector('#explorer svg.links').tensor.at(...arguments)", row, column)
    of_heads = weights[..., row, column]  # [layers, heads]
    assert shown == pytest.approx(of_heads.max().item(), abs=1e-4)
    layer, head = divmod(of_heads.argmax().item(), of_heads.shape[1])
    page.js("window.blob = null; URL.createObjectURL = (blob) => { window.blob = blob; return '#explorer'; }")
    click(page, "#explorer-1 [data-tool='Save as SVG']")
    page.wait("window.blob")
    svg = page.browser.execute_async_script("window.blob.text().then(arguments[0])")
    root = ElementTree.fromstring(svg)
    title = root.find("{http://www.w3.org/2000/svg}title").text
    for part in (inspection.text, "mini-en-de", f"layer {layer + 1}", f"head {head + 1}"):
        assert part in title
    assert "var(" not in svg and "currentColor" not in svg


def test_chapter_8_a_focused_word_says_where_it_looks(open_chapter, inspected):
    page = open_chapter("explorer", fresh=True)
    page.translate(SENTENCE)
    page.js("document.querySelector('#explorer [data-key=\"link 1\"]').focus()")
    weights = inspected(SENTENCE).tensors["encoder.layers.0.self_attn.weights"][0, 1]
    best = inspected(SENTENCE).source[weights.argmax()].text.strip()
    assert page.text("#explorer-looks").startswith(f"“girl” looks at “{best}” (")
