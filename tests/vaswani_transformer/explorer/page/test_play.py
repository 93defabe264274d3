"""The guided play: every step shows the model's own values, and it can be stopped and stepped at any moment."""

import re

import pytest
import torch
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


OPENING = "I cannot read the book because it is too difficult."
TITLE = "document.getElementById('play-title').textContent"


@pytest.fixture
def play(page):
    """The page with the open play."""
    page.js("document.getElementById('play')?.close()")
    page.translate(OPENING)
    page.js("document.getElementById('play-open').click()")
    yield page
    page.js("document.getElementById('play').close()")


def texts(page) -> list[str]:
    """The text of every step, with its picture."""
    steps = page.js("return document.querySelectorAll('#play .bar').length")
    shown = []
    for step in range(steps):
        page.js("document.querySelectorAll('#play .bar')[arguments[0]].click()", step)
        assert page.js("return document.querySelector('#play .picture').children.length > 0"), step
        shown.append(page.js("return document.querySelector('#play .stage').textContent"))
    return shown


def press(page, key: str):
    page.browser.find_element(By.ID, "play-title").send_keys(key)


def test_the_steps_show_the_models_values(play, inspected):
    inspection = inspected(OPENING)
    shown = texts(play)
    assert len(shown) == 10
    assert f"a list of {len(inspection.source)}" in shown[0]
    source = [token.text.strip() for token in inspection.source]
    weights = [inspection.tensors[f"encoder.layers.{layer}.self_attn.weights"] for layer in range(4)]
    largest = max(w[:, source.index("it"), source.index("book")].max().item() for w in weights)
    assert f"“it” gives {largest:.0%} of its weight to “book”" in shown[3]
    first = inspection.tensors["encoder.input"][row := source.index("it")]
    last = inspection.tensors["encoder.layers.3.feed_forward.result"][row]
    assert f"after layer 4{torch.cosine_similarity(first, last, dim=0).item():.0%}" in shown[5]
    choice = min(range(len(inspection.log_probs)), key=lambda i: inspection.log_probs[i])
    assert inspection.alternatives[choice][1].token.text.strip() in shown[8]
    assert inspection.translation in shown[9]
    assert play.errors() == []


def test_the_texts_are_short_enough_to_read_while_it_plays(play):
    words = 0
    for step in range(play.js("return document.querySelectorAll('#play .bar').length")):
        play.js("document.querySelectorAll('#play .bar')[arguments[0]].click()", step)
        text, seconds = play.js(
            "return [document.querySelector('.play-text').textContent,"
            "parseFloat(document.querySelectorAll('#play .bar')[arguments[0]].style.getPropertyValue('--seconds'))]",
            step,
        )
        sentences = [sentence.split() for sentence in re.split(r"[.?:”;]\s", text) if sentence]
        assert max(map(len, sentences)) <= 15 and sum(map(len, sentences)) / len(sentences) <= 11, text
        assert len(text.split()) / seconds <= 4.5, text  # words in a second
        words += len(text.split())
    assert words / 90 <= 3.3


def test_after_the_last_step_it_plays_again(page):
    media = [{"name": "prefers-reduced-motion", "value": "no-preference"}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    try:
        page.js("document.getElementById('play-open').click()")
        page.wait("document.querySelector('#play .bar.current')")
        page.js("[...document.querySelectorAll('#play .bar')].at(-1).click()")
        page.js("document.getAnimations().find(({ animationName }) => animationName === 'fill').finish()")
        again = "document.querySelector('#play [data-key=\"play pause\"]')"
        page.wait(f"{again}.textContent === 'Play again'")
        page.js(f"{again}.click()")
        assert page.js(f"return {TITLE}").startswith("1.")
        assert page.js(f"return {again}.textContent") == "Pause"
    finally:
        page.js("document.getElementById('play').close()")
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_arrow_keys_step_and_escape_closes(play):
    first = play.js(f"return {TITLE}")
    press(play, Keys.ARROW_RIGHT)
    assert play.js(f"return {TITLE}").startswith("2.")
    press(play, Keys.ARROW_LEFT)
    assert play.js(f"return {TITLE}") == first
    press(play, Keys.ESCAPE)
    play.wait("!document.getElementById('play').open")


def test_it_can_be_closed_and_opened_at_once(play):
    steps = play.js(
        "const dialog = document.getElementById('play');"
        "const closed = new Promise((resolve) => dialog.addEventListener('close', resolve));"
        "dialog.close();"
        "document.getElementById('play-open').click();"
        "return closed.then(() => document.querySelectorAll('#play .bar').length);"
    )
    assert steps == 10


def test_with_reduced_motion_the_pictures_are_still(play):
    # The tests' browser prefers reduced motion.
    assert play.js("return document.querySelector('#play [data-key=\"play pause\"]').hidden")
    assert play.js("return document.getAnimations().length") == 0


def test_without_it_the_clock_moves_on_and_a_pause_stops_it(page):
    media = [{"name": "prefers-reduced-motion", "value": "no-preference"}]
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    try:
        page.js("document.getElementById('play-open').click()")
        page.wait("document.querySelector('#play .bar.current')")
        clocks = "document.getAnimations().filter((animation) => animation.animationName === 'fill')"
        assert page.js(f"return {clocks}.map((animation) => animation.playState)") == ["running"]
        press(page, " ")
        assert page.js(f"return {clocks}.map((animation) => animation.playState)") == ["paused"]
        press(page, " ")
        page.js(f"{clocks}.forEach((animation) => animation.finish())")
        page.wait(f"{TITLE}.startsWith('2.')")
    finally:
        page.js("document.getElementById('play').close()")
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
