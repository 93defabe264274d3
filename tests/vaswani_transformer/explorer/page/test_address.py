"""Links: an address holds what the page shows, opening it shows the same, and every figure can be saved."""

import base64
import xml.etree.ElementTree as ElementTree

import pytest


SENTENCE = "The girl who lives next door gave her brother a book."
SETTINGS = "[...document.querySelectorAll('#%s [data-setting]')].map((e) => [e.dataset.setting, e.readSetting()])"
PADDING = "parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop)"
NEAR_FIGURES_ARE_DRAWN = """[...document.querySelectorAll("figure")].every((figure) => {
    const { top, bottom } = figure.getBoundingClientRect();
    const isFar = bottom < -500 || top > innerHeight + 500;
    return isFar || figure.querySelector(".body").matches(":not([data-stale], :empty)");
})"""
TOP = "document.getElementById('%s').getBoundingClientRect().top"


def open_at(page, address: str):
    page.chapter = None  # another test must load the page
    page.browser.get("about:blank")
    page.browser.get(page.address + address)
    page.wait("document.documentElement.dataset.ready")


def wait_for_landing(page, target: str):
    page.wait(f"Math.abs({TOP % target} - {PADDING}) < 40 && {NEAR_FIGURES_ARE_DRAWN}")


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("target", ["beam", "heads-2"])
def test_a_link_lands_at_its_chapter_or_figure(page, width, target):
    with page.screen(width):
        open_at(page, f"#{target}")
        wait_for_landing(page, target)


def test_without_a_head_in_the_address_the_page_opens_at_the_head_that_the_play_explains(page):
    open_at(page, "#attention-1")
    page.wait("document.querySelectorAll('#attention-1 .heatmap').length")
    assert "“it” attends most to “book”" in page.text("#attention-1")
    open_at(page, "#attention-1?attention=encoder.self_attn.1.2")
    page.wait("document.querySelectorAll('#attention-1 .heatmap').length")
    assert page.js("return [...document.querySelectorAll('#attention-1 input:checked')].map(({ value }) => value)")[
        :3
    ] == [
        "encoder.self_attn",
        "0",
        "1",
    ]


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_does_not_move_while_its_figures_appear(page, width):
    with page.screen(width), page.layout_shifts() as shift:
        open_at(page, "#heads")
        wait_for_landing(page, "heads")
        assert shift() < 0.1


def test_a_link_in_the_contents_lands_at_its_chapter(page):
    open_at(page, "")
    page.js("document.querySelector('#contents a[href=\"#training\"]').click()")
    wait_for_landing(page, "training")


def test_an_address_holds_sentence_selection_and_settings(page):
    address = "#beam-1?checkpoint=mini-en-fr&text=The+dog+sleeps.&attention=decoder.cross_attn.2.3&beams=2&step=3"
    open_at(page, address)
    wait_for_landing(page, "beam-1")
    page.wait("document.querySelector('#beam-1 [role=status]')?.ariaBusy === 'false'")
    assert page.js("return document.getElementById('text').value") == "The dog sleeps."
    assert page.js("return document.getElementById('checkpoint').value") == "mini-en-fr"
    settings = dict(page.js(f"return {SETTINGS % 'beam-1'}"))
    assert (settings["beams"], settings["step"]) == ("2", "3")
    page.show("explorer")
    assert "cross-attention, layer 2, head 3" in page.text("#explorer-1 h4")


@pytest.mark.parametrize(
    "change",
    [
        ("dictionary-1", "plane temperature", "0.5"),
        pytest.param(("dictionary-1", "q", "-1.00 0.50"), marks=pytest.mark.slow),
        pytest.param(("recurrence-2", "two words", "1.4"), marks=pytest.mark.slow),
        ("heads-1", "off", "encoder.self_attn.0.2"),
        ("encoder-1", "stop", "3"),
        pytest.param(("training-1", "logarithmic axes", "on"), marks=pytest.mark.slow),
    ],
    ids=lambda change: " ".join(change),
)
def test_a_copied_link_opens_the_figure_as_it_was(page, change):
    figure, name, value = change
    open_at(page, f"#{figure}?text=The+dog+sleeps.")
    wait_for_landing(page, figure)
    page.js(
        "document.querySelector(`#${arguments[0]} [data-setting='${arguments[1]}']`).changeSetting(arguments[2])",
        *change,
    )
    page.js("document.querySelector(`#${arguments[0]} [data-tool='Copy link']`).click()", figure)
    before, link = page.js(f"return [{SETTINGS % figure}, location.hash]")
    assert dict(before)[name] == value
    open_at(page, link)
    wait_for_landing(page, figure)
    page.wait(f"String({SETTINGS % figure}) === {str(','.join(f'{a},{b}' for a, b in before))!r}")
    assert page.errors() == []


def test_back_and_forward_show_the_sentences_again(page):
    open_at(page, "#heads?text=The+dog+sleeps.")
    page.translate(SENTENCE)
    page.wait("location.hash.includes('girl')")
    page.browser.back()
    page.wait("document.getElementById('text').value === 'The dog sleeps.'")
    page.wait("document.getElementById('translation').textContent.includes('Hund')")
    page.browser.forward()
    page.wait("document.getElementById('translation').textContent.includes('Mädchen')")
    assert page.js("return document.getElementById('text').value") == SENTENCE


@pytest.mark.parametrize(
    "hash_", ["#nowhere", "#beam-1?beams=x&step=", "#heads-1?off=a.b", "#%22?attention=a.b.c&token=z"]
)
def test_a_damaged_address_opens_the_page(page, hash_):
    open_at(page, hash_)
    assert page.text("#translation").strip()
    assert page.errors() == []


def test_every_figure_is_saved(page):
    open_at(page, "#recurrence?text=The+dog+sleeps.")
    page.js("URL.createObjectURL = (blob) => { window.blob = blob; return '#'; }")
    for figure in page.each_figure():
        page.js(
            "window.blob = null; document.querySelector(`#${arguments[0]} [data-tool='Save as SVG']`).click()", figure
        )
        page.wait("window.blob")
        svg = ElementTree.fromstring(page.browser.execute_async_script("window.blob.text().then(arguments[0])"))
        title = svg.find("{http://www.w3.org/2000/svg}title").text
        assert title.startswith("“The dog sleeps.”, mini-en-de"), figure
        assert len(list(svg.iter())) > 3, figure
    assert page.errors() == []


def test_a_figure_is_saved_as_an_image(page):
    open_at(page, "#heads-2?text=The+dog+sleeps.")
    wait_for_landing(page, "heads-2")
    script = """
        const [done, create] = [arguments[0], URL.createObjectURL];
        URL.createObjectURL = (blob) => {
          const onload = ({ target }) => done(target.result);
          if (blob.type === "image/png") Object.assign(new FileReader(), { onload }).readAsDataURL(blob);
          return create(blob);
        };
        document.querySelector("#heads-2 [data-tool='Save as PNG']").click();"""
    image = base64.b64decode(page.browser.execute_async_script(script).partition(",")[2])
    assert image.startswith(b"\x89PNG") and len(image) > 10_000
