"""Every chapter works with unusual checkpoints and in an exported copy, without errors or invalid numbers."""

import re

import pytest
import torch
from random_checkpoint import random_checkpoint
from tiny_checkpoint import PAIRS, tiny_checkpoint

from vaswani_transformer.explorer.app import PAGE
from vaswani_transformer.explorer.checkpoints import CheckpointCache
from vaswani_transformer.explorer.export import export


VARIANTS = {
    "learned positions": dict(position_encoding="learned", max_position_embeddings=40),
    "no positions, all kinds of dropout": dict(position_encoding="none", attention_dropout=0.1, activation_dropout=0.2),
    "pre-norm": dict(norm_position="pre", activation_function="gelu", label_smoothing_type="uniform"),
    "pre-norm decoder, d_k and d_v of their own": dict(norm_position="post", decoder_norm_position="pre", d_k=3, d_v=5),
    "separate vocabularies": dict(share_embeddings="none", decoder_vocab_size=260, decoder_d_ff=24),
    "one layer": dict(encoder_layers=1, decoder_layers=1, dropout=0.0, label_smoothing=0.0),
    "16 heads and 6 layers": dict(
        d_model=64, encoder_layers=6, decoder_layers=6, encoder_attention_heads=16, decoder_attention_heads=16
    ),
    "one head and eight": dict(encoder_attention_heads=1, decoder_attention_heads=8, position_layout="concatenated"),
}
SENTENCES = ["A woman reads a long book in the old park.", "Thanks"]
NO_NUMBER = re.compile(r".{0,40}(?:undefined|NaN|\[object|null).{0,40}")
CHAPTERS = (
    "recurrence", "dictionary", "attention", "heads", "positions", "encoder", "decoder", "training", "explorer", "beam",
)  # fmt: skip


def check_every_chapter(page, texts):
    for text in texts:
        page.translate(text)
        assert page.js("return document.getElementById('problem').hidden"), page.text("#problem")
        for chapter in CHAPTERS:
            page.show(chapter)
            assert NO_NUMBER.findall(page.use_everything(chapter)) == [], chapter
            assert page.errors() == [], chapter
    assert NO_NUMBER.findall(page.js("return document.body.textContent")) == []


@pytest.mark.slow
@pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_chapter_works_with_another_checkpoint(serve, browser, page_at, tmp_path, fields):
    with serve(CheckpointCache(str(random_checkpoint(tmp_path / "random", max_length=24, **fields)))) as address:
        page = page_at(address)
        check_every_chapter(page, SENTENCES)
        page.show("training")
        check_places_of_dropout(
            page.text("#dropout-places"), page.js("return (await (await fetch('api/model')).json()).config")
        )


def check_places_of_dropout(text: str, config: dict):
    encoder, decoder = config["encoder_layers"], config["decoder_layers"]
    places = {
        "dropout": f"{2 + 2 * encoder + 3 * decoder} times in the paper's places",
        "attention_dropout": f"{encoder + 2 * decoder} times on the attention weights",
        "activation_dropout": f"{encoder + decoder} times on the inner units of the feed-forward networks",
    }
    for name, sentence in places.items():
        assert (sentence in text) == (config[name] > 0)


@pytest.mark.slow
def test_every_chapter_works_with_the_included_checkpoint(page_at, server):
    check_every_chapter(page_at(server), ["The girl who lives next door gave her brother a book."])


def go_offline(browser, offline: bool):
    browser.execute_cdp_cmd("Network.enable", {})
    conditions = {"offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)


def test_an_exported_page_translates_without_a_network(page_at, browser, serve_copy):
    page = page_at(serve_copy(str(tiny_checkpoint())))
    page.translate("Two dogs run.")
    go_offline(browser, True)
    try:
        for text, translation in PAIRS.items():
            page.translate(text)
            page.wait(f"document.getElementById('translation').firstChild.textContent === '{translation}'")
        page.show("heads")
        for head in (1, 2):
            page.js(f"document.querySelector('#heads .head-card:nth-child({head}) .switch').click()")
            page.wait("document.querySelectorAll('#heads-outcome tbody tr').length === 2")
        assert len(list(page.each_figure())) > 20
    finally:
        go_offline(browser, False)
    host = page.address.split("/")[2]
    loaded = page.js("return performance.getEntriesByType('resource').map(({ name }) => new URL(name).host)")
    assert set(loaded) == {host}
    assert page.errors() == []


OWN_SENTENCES = {  # not among the page's, and their translations
    "mini-en-de": ("The old bridge is very long.", "Die alte Brücke ist sehr lang."),
    "mini-de-en": ("Die alte Brücke ist sehr lang.", "The old bridge is very long."),
    "mini-en-fr": ("The old bridge is very long.", "Le vieux pont est très long."),
    "mini-fr-en": ("Le vieux pont est très long.", "The old bridge is very long."),
}


@pytest.mark.slow
def test_all_directions_are_translated_after_the_server_has_stopped(page_at, browser, serve_files, tmp_path):
    export([CheckpointCache(name).open() for name in OWN_SENTENCES], tmp_path / "site", PAGE)
    choose = """const select = document.getElementById("checkpoint"); select.value = arguments[0];
        select.dispatchEvent(new Event("change"));"""
    is_open = "document.getElementById('about').textContent.startsWith('%s,') && %s"
    is_idle = "document.getElementById('sentence').ariaBusy === 'false'"
    with serve_files(tmp_path / "site") as address:
        page = page_at(address)
        for name in OWN_SENTENCES:
            page.js(choose, name)
            page.wait(is_open % (name, is_idle))
            page.translate("Paris")  # so that the weights are here
    for name, (text, translation) in OWN_SENTENCES.items():
        page.js(choose, name)
        page.wait(is_open % (name, is_idle))
        page.translate(text)
        assert page.js("return document.getElementById('problem').hidden"), page.text("#problem")
        assert page.js("return document.getElementById('translation').firstChild.textContent") == translation
    assert page.errors() == []


@pytest.mark.parametrize("width", [390, 1200])
def test_an_exported_page_does_not_move_while_it_loads(browser, only_page, page_at, serve_copy, width):
    """The sentence, its translation and the progress of loading appear in places that were reserved for them."""
    with only_page.screen(width), only_page.layout_shifts() as shift:
        page = page_at(serve_copy("mini-en-de"))
        page.wait("document.querySelector('#loading progress').value === 1")
        assert shift() < 0.05


def test_a_file_that_is_missing_is_a_problem_in_words(page_at, browser, serve_copy):
    page = page_at(serve_copy(str(tiny_checkpoint())))
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/model.json"]})
    try:
        page.open()
    finally:
        browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    assert page.text("#problem").startswith("A file of this page could not be loaded. Check the connection")
    browser.get_log("browser")  # the blocked request


TENSORS = """
const [text, done] = arguments;
(async () => {
  const source = (await import(new URL("lib/data.js", location))).connect();
  const run = await source.run({ checkpoint: "mini-en-de", text });
  const tensors = await source.tensors(run);
  done([run.target.text, Array.from(tensors, ([name, { shape, data }]) => [name, shape, Array.from(data)])]);
})().catch((error) => done(error.message));
"""


def test_the_engine_in_the_browser_computes_the_models_tensors(page_at, browser, serve_copy, inspected):
    page_at(serve_copy("mini-en-de"))
    text = "The girl sleeps."
    translation, tensors = browser.execute_async_script(TENSORS, text)
    inspection = inspected(text)
    assert translation == inspection.translation
    assert [name for name, _, _ in tensors] == list(inspection.tensors)
    for name, shape, data in tensors:
        tensor = torch.tensor(data).view(shape)
        torch.testing.assert_close(
            tensor, inspection.tensors[name], atol=1e-4, rtol=0, msg=lambda m, n=name: f"{n} {m}"
        )


@pytest.mark.slow
def test_every_chapter_works_in_a_copy(page_at, serve_copy):
    check_every_chapter(page_at(serve_copy(str(tiny_checkpoint()))), SENTENCES)


@pytest.mark.slow
def test_every_chapter_works_in_a_copy_of_a_pre_norm_checkpoint(page_at, serve_copy, tmp_path):
    checkpoint = random_checkpoint(tmp_path / "pre-norm", norm_position="pre")
    check_every_chapter(page_at(serve_copy(str(checkpoint))), SENTENCES[-1:])
