"""The page as a whole: it opens, translates, and says what is wrong. And chapter 2."""

import pytest
import torch


SENTENCE = "The girl who lives next door gave her brother a book."


def test_a_sentence_is_translated_without_an_error_in_the_console(page, inspected):
    page.translate(SENTENCE)
    assert (
        page.js("return document.getElementById('translation').firstChild.textContent")
        == inspected(SENTENCE).translation
    )
    assert page.errors() == []


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


@pytest.mark.parametrize("width", [360, 1600])
def test_the_page_does_not_scroll_sideways(page, width):
    size = dict(width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for chapter in page.js("return [...document.querySelectorAll('section.chapter')].map((s) => s.id)"):
            page.js("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", chapter)
        page.wait("document.documentElement.scrollWidth <= window.innerWidth", seconds=2)
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
