"""A browser that opens the explorer's page, served from a port of its own; without Chromium these tests are skipped."""

import shutil
import socket
import threading
import time

import pytest


webdriver = pytest.importorskip("selenium.webdriver")

CHECKPOINT = "mini-en-de"


@pytest.fixture(scope="session")
def inspected():
    """What PyTorch computes for a sentence: `inspected(text)` gives an `Inspection` of the server's checkpoint."""
    from vaswani_transformer import checkpoint_path, load
    from vaswani_transformer.inspection import inspect_translation

    model, tokenizer = load(checkpoint_path(CHECKPOINT))
    return lambda text, **settings: inspect_translation(model.float(), tokenizer, text, **settings)


@pytest.fixture(scope="session")
def server():
    """The address of an explorer."""
    import uvicorn

    from vaswani_transformer.explorer.app import create_app
    from vaswani_transformer.explorer.opened import Shelf

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = create_app(Shelf(CHECKPOINT))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window, 1200 pixels wide."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs Chromium and its driver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1200,1000",
        "--force-prefers-reduced-motion",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    browser.set_script_timeout(30)
    yield browser
    browser.quit()


class Page:
    """The page in the browser: JavaScript is run with `js`, which gives what it returns."""

    def __init__(self, browser, address: str):
        self.browser, self.address = browser, address

    def js(self, script: str, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, condition: str, seconds: float = 20):
        """Until the JavaScript expression is true.

        Raises:
            AssertionError: it is not, after so many seconds; the page's problem and its console say why.
        """
        end = time.monotonic() + seconds
        while not self.js(f"return Boolean({condition})"):
            problem = self.js(
                "const p = document.getElementById('problem'); return p && !p.hidden ? p.textContent : null"
            )
            assert time.monotonic() < end, f"never: {condition}; problem: {problem}; console: {self.errors()}"
            time.sleep(0.05)

    def open(self, chapter: str = ""):
        """Loads the page, and brings a chapter into view, so that its figures are drawn."""
        self.browser.get(f"{self.address}#{chapter}")
        self.wait("document.documentElement.dataset.ready")
        if chapter:
            self.show(chapter)

    def show(self, chapter: str):
        self.js("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", chapter)
        self.wait(f"document.querySelector('#{chapter} figure .body')?.children.length")

    def translate(self, text: str):
        """Writes the sentence and waits for its translation, or for the problem that is shown instead."""
        self.js(
            "document.getElementById('text').value = arguments[0];document.getElementById('sentence').requestSubmit()",
            text,
        )
        self.wait("document.getElementById('sentence').ariaBusy === 'false'")

    def text(self, selector: str) -> str:
        """The text of the first element."""
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def tensors(self, selector: str) -> list[tuple[list[int], list[float]]]:
        """What the heat maps under `selector` show: shapes and numbers."""
        maps = f"[...document.querySelectorAll('{selector} .heatmap')]"
        return self.js(f"return {maps}.map(({{ tensor }}) => [tensor.shape, [...tensor.data]])")

    def errors(self) -> list[str]:
        """What the browser's console has said in error."""
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture
def page(browser, server) -> Page:
    """The page with its example translated."""
    page = Page(browser, server)
    page.open()
    return page


@pytest.fixture
def open_chapter(browser, server):
    """Opens the page at a chapter: `open_chapter("heads")` gives the page."""

    def open_(chapter: str) -> Page:
        page = Page(browser, server)
        page.open(chapter)
        return page

    return open_
