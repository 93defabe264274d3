"""The whole page opens, translates and reports problems; and chapter 2."""

import pytest
import torch
from selenium.webdriver import ActionChains

from vaswani_transformer import checkpoint_path, load
from vaswani_transformer.model.confidence_vaswani import confidences


SENTENCE = "The girl who lives next door gave her brother a book."


def test_a_sentence_is_translated_without_an_error_in_the_console(page, inspected):
    page.translate(SENTENCE)
    assert (
        page.js("return document.getElementById('translation').firstChild.textContent")
        == inspected(SENTENCE).translation
    )
    assert page.errors() == []


def test_uncertain_words_are_underlined_and_named(page):
    model, tokenizer = load(checkpoint_path("mini-en-de"))
    sentence = "The plumber fixed the leaking faucet with a rusty wrench."
    page.translate(sentence)
    translation = page.js("return document.getElementById('translation').firstChild.textContent")
    [words] = confidences(model.float(), tokenizer, [(sentence, translation)])
    expected = [f"{translation[slice(*span)]} ({value:.0%})" for span, value in words if 0.0995 <= value < 0.35]
    assert expected
    assert page.js("return [...document.querySelectorAll('#translation u')].map((u) => u.textContent)") == [
        translation[slice(*span)] for span, value in words if value < 0.35
    ]
    assert all(named in page.text("#translation .uncertain") for named in expected)
    page.translate("Good morning.")
    assert page.js("return document.querySelector('#translation u, #translation .uncertain')") is None


@pytest.mark.parametrize("text", ["", "   ", "word " * 600, "🙂", "Это предложение", "a\tb\x07"])
def test_odd_input_gives_a_translation_or_a_problem_in_words(page, text):
    before = page.text("#translation")
    page.translate(text)
    problem = page.js("const p = document.getElementById('problem'); return p.hidden ? '' : p.textContent")
    if problem:
        assert len(problem.split()) > 3
        assert page.text("#translation") == before
    else:
        assert page.text("#translation").strip()


@pytest.mark.parametrize("width", [360, pytest.param(1600, marks=pytest.mark.slow)])
def test_the_page_does_not_scroll_sideways(page, width):
    with page.screen(width):
        for chapter in page.js("return [...document.querySelectorAll('section.chapter')].map((s) => s.id)"):
            page.js("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", chapter)
        page.wait("document.documentElement.scrollWidth <= window.innerWidth")


def test_on_a_phone_the_sentence_can_be_changed_from_every_chapter(page):
    size = dict(width=390, height=844, deviceScaleFactor=1, mobile=True)
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    visible = "document.getElementById('%s').getBoundingClientRect().top >= 0"
    try:
        page.js("document.getElementById('beam').scrollIntoView({behavior: 'instant'})")
        page.wait("document.getElementById('edit').checkVisibility()")
        page.wait(f"{visible % 'translation'} && !({visible % 'text'})")
        assert page.js("return document.getElementById('sentence').getBoundingClientRect().bottom") < 844 * 0.13
        page.js("document.getElementById('edit').click()")
        page.wait(visible % "text")
        page.translate(SENTENCE)
        page.wait(f"!({visible % 'text'})")
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [390, 1200])
def test_the_texts_at_the_marks_of_a_chart_do_not_cover_each_other(open_chapter, width):
    size = dict(width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
    page = open_chapter("training")
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.js("document.getElementById('training-2').scrollIntoView({behavior: 'instant'})")
        page.wait("document.querySelectorAll('#training-2 .mark').length === 2")
        boxes = page.js("""return [...document.querySelectorAll('#training-2 .mark')].map((e) => {
            const { top, bottom } = e.getBoundingClientRect();
            return [top, bottom];
        })""")
        (top, _), (_, bottom) = sorted(boxes, reverse=True)
        assert bottom <= top + 2
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_control_has_a_name(page):
    nameless = page.js("""
        const named = (e) => e.ariaLabel || e.labels?.length || e.textContent.trim();
        const controls = [...document.querySelectorAll("button, select, input, textarea, [tabindex]")];
        return controls.filter((e) => !named(e)).map((e) => e.outerHTML)""")
    assert nameless == []


def test_chapter_2_shows_the_models_queries_keys_values_and_weights(open_chapter, inspected):
    page = open_chapter("attention")
    page.translate(SENTENCE)
    page.wait("document.querySelectorAll('#attention .heatmap').length >= 6")
    tensors = inspected(SENTENCE).tensors
    names = ["query", "key", "value", "scores", "weights", "heads"]
    for name, (shape, data) in zip(names, page.tensors("#attention"), strict=True):
        theirs = tensors[f"encoder.layers.0.self_attn.{name}"][0]
        torch.testing.assert_close(torch.tensor(data).view(shape), theirs, atol=1e-4, rtol=0)


def test_chapter_2_without_the_scaling_the_scores_are_the_plain_products(open_chapter, inspected):
    page = open_chapter("attention")
    page.translate(SENTENCE)
    page.js("document.querySelector('#attention input[type=checkbox]').click()")
    shown = page.tensors("#attention")[3][1]
    tensors = inspected(SENTENCE).tensors
    query, key = (tensors[f"encoder.layers.0.self_attn.{name}"][0] for name in ("query", "key"))
    torch.testing.assert_close(torch.tensor(shown).view(len(query), -1), query @ key.T, atol=1e-3, rtol=1e-4)


def test_chapter_2_has_a_temperature_that_is_dragged(open_chapter, inspected):
    page = open_chapter("attention", fresh=True)
    page.translate(SENTENCE)
    slider = page.browser.find_element("css selector", "#attention [data-key=temperature]")
    page.js("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", slider)
    note = "slider.values = []; slider.addEventListener('input', () => slider.values.push(Number(slider.value)))"
    page.js(f"const slider = arguments[0]; {note}", slider)
    ActionChains(page.browser).click_and_hold(slider).move_by_offset(15, 0).move_by_offset(20, 0).release().perform()
    values = page.js("return arguments[0].values", slider)
    assert len(values) >= 2 and values == sorted(set(values))
    assert page.js("return arguments[0].isConnected", slider)
    tensors = inspected(SENTENCE).tensors
    scores = tensors["encoder.layers.0.self_attn.scores"][0]
    shape, data = page.tensors("#attention")[4]
    torch.testing.assert_close(torch.tensor(data).view(shape), (scores / values[-1]).softmax(-1), atol=1e-4, rtol=0)


@pytest.mark.slow
def test_a_slider_stays_while_it_is_moved(page):
    for chapter in page.js("return [...document.querySelectorAll('section.chapter')].map((s) => s.id)"):
        page.show(chapter)
    lost = page.js("""
        const sliders = [...document.querySelectorAll("input[type=range]")];
        for (const slider of sliders) slider.dispatchEvent(new Event("input", { bubbles: true }));
        return [sliders.length, sliders.filter((slider) => !slider.isConnected).map((slider) => slider.dataset.key)]""")
    assert lost[0] > 8 and lost[1] == []


@pytest.mark.slow
def test_what_plays_out_of_sight_stops_with_its_sentence(open_chapter):
    page = open_chapter("decoder")
    page.translate(SENTENCE)
    page.errors()  # of other tests
    page.js("document.querySelector('#decoder figure:last-of-type').scrollIntoView({ behavior: 'instant' })")
    page.wait("document.querySelector('#decoder [data-key=\"position play\"]')")
    play = "document.querySelector('#decoder [data-key=\"position play\"]')"
    page.js("window.scrollTo({ top: 0, behavior: 'instant' })")
    page.js(f"{play}.click()")
    page.translate("Hello!")
    page.wait(f"!{play} || {play}.textContent === 'Play'")
    assert page.errors() == []
