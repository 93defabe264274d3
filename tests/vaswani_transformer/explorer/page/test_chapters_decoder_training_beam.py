"""Chapters 6, 7 and 9 in the browser: their controls work, and their numbers are those of PyTorch."""

import json
import math
from functools import cache

import pytest
import torch

from training.optimisation import learning_rate
from training.recipe import Optimisation
from vaswani_transformer import checkpoint_path, load
from vaswani_transformer.inspection.inspection import inspect_translation
from vaswani_transformer.model.beam_search_vaswani import length_penalty
from vaswani_transformer.model.loss_vaswani import label_smoothed_loss


TEXT = "The dog did not cross the street because it was too tired."
SLIDE = """const input = document.querySelector(arguments[0]);
           input.value = arguments[1]; input.dispatchEvent(new Event("input", { bubbles: true }))"""


@cache
def opened():
    return load(checkpoint_path("mini-en-de"), dtype="float32")


@cache
def inspected(**settings):
    return inspect_translation(*opened(), TEXT, **settings)


def shown_map(page, index: int) -> tuple[list[int], list[float]]:
    """Shape and numbers of a heat map of chapter 6."""
    return page.tensors("#decoder")[index]


def show(page, chapter: str):
    """Brings the chapter into view with all its figures, the sentence translated."""
    if page.js("return document.getElementById('text').value") != TEXT:
        page.translate(TEXT)
    for figure in range(page.js("return document.querySelectorAll(`#${arguments[0]} figure`).length", chapter)):
        page.js("document.querySelectorAll(`#${arguments[0]} figure`)[arguments[1]].scrollIntoView()", chapter, figure)
        body = f"document.querySelectorAll('#{chapter} figure .body')[{figure}]"
        page.wait(f"{body}.matches(':not([data-stale], :empty)')")


def numbers(page, selector: str, attribute: str) -> list[float]:
    values = page.js(
        "return [...document.querySelectorAll(arguments[0])].map((e) => e.getAttribute(arguments[1]))",
        selector,
        attribute,
    )
    return [float(value) for value in values]


def close(shown: list[float], expected: torch.Tensor):
    torch.testing.assert_close(torch.tensor(shown), expected.flatten().float(), rtol=1e-4, atol=1e-4)


def test_without_the_mask_the_decoder_looks_ahead(open_chapter):
    page = open_chapter("decoder")
    show(page, "decoder")
    plain, leaky = inspected(), inspected(causal=False)
    last = f"decoder.layers.{opened()[0].config.decoder_layers - 1}.self_attn.weights"

    shape, weights = shown_map(page, 0)
    assert shape == list(plain.tensors[last].shape[1:])
    close(weights, plain.tensors[last].mean(0))
    assert not torch.tensor(weights).view(shape).triu(1).any()
    close(numbers(page, "table.probabilities tr[data-position]", "data-log-prob"), plain.log_probs)

    page.js("document.querySelector('#decoder [data-key=\"causal mask\"]').click()")
    page.wait("document.querySelector('table.probabilities tr[data-open]')")
    close(shown_map(page, 0)[1], leaky.tensors[last].mean(0))
    close(numbers(page, "table.probabilities tr[data-position]", "data-open"), leaky.log_probs)
    page.js("document.querySelector('#decoder [data-key=\"head 1\"]').click()")
    close(shown_map(page, 0)[1], leaky.tensors[last][1])
    assert "tokens that are not written yet" in page.js("return document.getElementById('leak-sentence').textContent")


def test_a_token_lights_its_partners(open_chapter):
    page = open_chapter("decoder")
    show(page, "decoder")
    inspection = inspected()
    weights = inspection.tensors[f"decoder.layers.{opened()[0].config.decoder_layers - 1}.cross_attn.weights"].mean(0)
    close(shown_map(page, 1)[1], weights)
    page.js("document.querySelector('[data-key=\"alignment target 1\"]').click()")
    best = inspection.source[int(weights[1].argmax())].text.strip()
    sentence = page.js("return document.getElementById('alignment-sentence').textContent")
    assert sentence.startswith(f"To write “{inspection.outputs[1].text.strip()}”, the decoder looks at “{best}”")


def test_one_pass_gives_what_many_give(open_chapter):
    page = open_chapter("decoder")
    show(page, "decoder")
    page.js(SLIDE, "#decoder [data-key=position]", 1)
    assert len(numbers(page, "#decoder button.position", "data-log-prob")) == 2
    page.js("document.querySelector('#decoder [data-key=\"run forcing\"]').click()")
    page.wait(f"document.querySelectorAll('#decoder button.position').length === {len(inspected().outputs)}")
    close(numbers(page, "#decoder button.position", "data-log-prob"), inspected().log_probs)
    check = page.js("return document.getElementById('forcing-check').textContent")
    assert f"in {len(inspected().outputs)} passes" in check


def test_the_schedule_is_the_recipes(open_chapter):
    page = open_chapter("training")
    show(page, "training")
    page.js(SLIDE, '[data-key="schedule d_model"]', math.log2(512))
    page.js(SLIDE, '[data-key="schedule warmup"]', math.log2(4000))
    assert numbers(page, "#schedule-peak", "data-peak") == pytest.approx([(512 * 4000) ** -0.5])
    training = page.js("return (await (await fetch('api/model')).json()).training")
    names = ("warmup_steps", "decay_from", "learning_rate_scale", "cooldown_steps", "max_steps", "optimiser")
    recipe = Optimisation(**{name: training[name] for name in names})
    points = page.js("return document.getElementById('recipe-chart').series[0].points")
    expected = [learning_rate(step, opened()[0].config.d_model, recipe) for step, _ in points]
    assert [rate for _, rate in points] == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["t2t", "uniform"])
def test_the_smoothed_loss_is_the_models(open_chapter, kind):
    page = open_chapter("training")
    show(page, "training")
    model, _ = opened()
    inspection = inspected()
    page.js("document.querySelector('[data-key=\"smoothing 2\"]').click()")
    with torch.no_grad():
        logits = model(input_ids=inspection.source_ids, decoder_input_ids=inspection.target_ids[:, :-1]).logits[:, 2:3]
    label = inspection.target_ids[:, 3:4]
    page.js("document.querySelector(`[data-key='spread over ${arguments[0]}']`).click()", kind)
    for epsilon in (0.0, 0.1, 0.3):
        page.js(SLIDE, "[data-key=epsilon]", epsilon)
        plain, smoothed, least = (
            numbers(page, "#smoothing-sentence", f"data-{name}")[0] for name in ("plain", "smoothed", "least")
        )
        assert plain == pytest.approx(-inspection.log_probs[2].item(), abs=1e-4)
        constant = least if kind == "t2t" else 0  # which that one takes off
        assert smoothed - constant == pytest.approx(label_smoothed_loss(logits, label, epsilon, kind).item(), abs=1e-4)
        assert sum(numbers(page, "#training tr[data-target]", "data-target")) == pytest.approx(1)
        assert sum(numbers(page, "#training tr[data-target]", "data-predicted")) == pytest.approx(1)


def test_dropout_keeps_the_mean(open_chapter):
    page = open_chapter("training")
    show(page, "training")
    page.js(SLIDE, "#training [data-key=P_drop]", 0.5)
    before, after = page.js(
        "const e = document.getElementById('dropped'); return [[...e.before.data], [...e.tensor.data]]"
    )
    close(before, inspected().tensors["encoder.layers.0.self_attn.output"][0, : len(before)])
    assert all(y == 0 or y == pytest.approx(2 * x, abs=1e-6) for x, y in zip(before, after, strict=True))
    assert 0 < after.count(0) < len(after)
    bars = "[...document.querySelectorAll('.dropped-bars .before')].map((bar) => bar.getBoundingClientRect().height)"
    assert len(set(page.js(f"return {bars}"))) > len(before) / 2  # each is as long as its number


def test_the_search_is_the_models(open_chapter):
    page = open_chapter("beam")
    show(page, "beam")
    for beams in (4, 2):
        if beams != 4:
            page.js("document.querySelector('#beam figure').scrollIntoView()")
            page.js(SLIDE, "#beam [data-key=beams]", beams)
            page.wait(f"document.querySelectorAll('#finished tbody tr').length === {beams}")
        search = inspected(num_beams=beams).search
        nodes = page.js("return [...document.querySelectorAll('.node')].map((e) => [e.dataset.node, e.classList[1]])")
        assert nodes == [[c.key, c.fate] for step in search.steps for c in step]
        scores = [hypothesis.score for hypothesis in search.finished]
        close(numbers(page, "#finished tbody tr", "data-score"), torch.tensor(scores))
    page.js(SLIDE, "#beam [data-key=step]", 2)
    assert page.js("return document.querySelectorAll('.node').length") == sum(len(step) for step in search.steps[:3])


def test_another_alpha_ranks_the_finished(open_chapter):
    page = open_chapter("beam")
    show(page, "beam")
    finished = inspected().search.finished
    for alpha in (0.0, 1.5):
        page.js(SLIDE, '[data-key="penalty alpha"]', alpha)
        scores = [hypothesis.log_prob / length_penalty(len(hypothesis.tokens), alpha) for hypothesis in finished]
        close(numbers(page, "#rescored tbody tr", "data-score"), torch.tensor(sorted(scores, reverse=True)))


CURVE = [{"step": step, "train_loss": 9 - step, "validation_loss": 8 - step, "bleu": 10 * step} for step in (1, 2, 3)]
OTHER_MODEL = """const fetched = window.fetch;
    window.fetch = async (...request) => {
        const answer = await fetched(...request);
        if (!String(request[0]).includes("api/model?")) return answer;
        return new Response(JSON.stringify({ ...(await answer.json()), ...%s }));
    };"""


def test_a_recorded_curve_is_drawn(open_chapter, browser):
    script = OTHER_MODEL % json.dumps({"curve": CURVE})
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    try:
        page = open_chapter("training")
        page.browser.refresh()
        page.wait("document.documentElement.dataset.ready")
        show(page, "training")
        losses = page.js("return document.getElementById('curve-chart').series.map((s) => s.points)")
        assert losses == [[[p["step"], p[name]] for p in CURVE] for name in ("train_loss", "validation_loss")]
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})


def test_nothing_went_wrong(browser):
    errors = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []
