"""The guided play: every step shows the model's own values, and it can be stopped and stepped at any moment."""

import pytest
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
    assert inspection.translation in shown[9]
    assert play.errors() == []


def test_the_arrow_keys_step_and_escape_closes(play):
    first = play.js(f"return {TITLE}")
    press(play, Keys.ARROW_RIGHT)
    assert play.js(f"return {TITLE}").startswith("2.")
    press(play, Keys.ARROW_LEFT)
    assert play.js(f"return {TITLE}") == first
    press(play, Keys.ESCAPE)
    play.wait("!document.getElementById('play').open")


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
