"""A browser that opens the explorer's page on a free port; without Chromium these tests are skipped."""

import shutil
import socket
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from waiting import TIMEOUT, wait_until


webdriver = pytest.importorskip("selenium.webdriver")

CHECKPOINT = "mini-en-de"


@pytest.fixture(scope="session")
def inspected():
    """`inspected(text)` returns the `Inspection` of a sentence by the server's checkpoint."""
    from vaswani_transformer import checkpoint_path, load
    from vaswani_transformer.inspection.inspection import inspect_translation

    model, tokenizer = load(checkpoint_path(CHECKPOINT))
    return lambda text, **settings: inspect_translation(model.float(), tokenizer, text, **settings)


@contextmanager
def serving(cache):
    """The address of an explorer of a cache of checkpoints, as long as the block lasts."""
    import uvicorn

    from vaswani_transformer.explorer.app import create_app
    from vaswani_transformer.explorer.runs import Runs

    app = create_app(cache, runs=Runs(patience=TIMEOUT, time_limit=TIMEOUT))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started, "the server did not start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join(TIMEOUT)


@contextmanager
def serving_files(folder: Path):
    """The address of a plain file server, as long as the block lasts."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def serve_files():
    return serving_files


@pytest.fixture(scope="session")
def serve():
    return serving


@pytest.fixture(scope="session")
def server():
    """The address of an explorer of the included checkpoints."""
    from vaswani_transformer.explorer.checkpoints import CheckpointCache

    with serving(CheckpointCache(CHECKPOINT)) as address:
        yield address


@pytest.fixture(scope="session")
def serve_copy(tmp_path_factory):
    """`serve_copy(checkpoint, ...)` is the address of an exported page on a plain file server, below its root."""
    from vaswani_transformer.explorer.app import PAGE
    from vaswani_transformer.explorer.checkpoints import CheckpointCache
    from vaswani_transformer.explorer.export import export

    folder = tmp_path_factory.mktemp("copies")
    with serving_files(folder) as address:

        def serve(*checkpoints: str) -> str:
            name = checkpoints[0].rpartition("/")[2]
            if not (folder / "some" / name).exists():
                cache = CheckpointCache(*checkpoints)
                export([cache.open(name) for name in cache.chosen], folder / "some" / name, PAGE)
            return f"{address}some/{name}/"

        yield serve


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
    browser.set_script_timeout(TIMEOUT)
    browser.set_page_load_timeout(TIMEOUT)
    yield browser
    browser.quit()


USE_CONTROLS = """(figure) => {
    const texts = [];
    const used = {};
    const act = (action) => {
      action();
      texts.push(figure.textContent);
    };
    const isWanted = (key) => {
      const row = key.replace(/[ \\d]+$/, "");
      used[row] = (used[row] ?? 0) + 1;
      return used[row] <= 3 && !/^(save|example)/.test(key);
    };
    const keys = [...new Set([...figure.querySelectorAll("[data-key]")].map((e) => e.dataset.key))];
    for (const key of keys.filter(isWanted)) {
      const find = () => figure.querySelector(`[data-key="${CSS.escape(key)}"]`); // it may be drawn again
      const element = find();
      if (!element) continue;
      if (element.type === "range") {
        for (const value of [element.max, element.min, (Number(element.max) + Number(element.min)) / 2])
          act(() => {
            find().value = value;
            find().dispatchEvent(new Event("input", { bubbles: true }));
          });
      } else if (element.matches(".map, .beam-box")) {
        for (const name of ["ArrowDown", "ArrowRight", "Enter"])
          act(() => find().dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true })));
      } else act(() => element.dispatchEvent(new MouseEvent("click", { bubbles: true })));
    }
    return texts;
  }"""


SUM_SHIFTS = """window.shift = 0;
    new PerformanceObserver((list) => list.getEntries().forEach(({ value }) => (window.shift += value)))
      .observe({ type: "layout-shift", buffered: true });"""


class Page:
    """The page in the browser; `js` runs JavaScript and returns its result."""

    def __init__(self, browser, address: str):
        self.browser, self.address = browser, address
        self.chapter: str | None = None  # at which it was opened

    def js(self, script: str, *arguments):
        return self.browser.execute_script(script, *arguments)

    @contextmanager
    def screen(self, width: int, height: int = 900):
        """Give the page a screen of this size in pixels."""
        size = dict(width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    @contextmanager
    def layout_shifts(self):
        """Yield a function that returns the sum of the layout shifts of the page that was opened in the block."""
        script = self.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SUM_SHIFTS})
        try:
            yield lambda: self.js("return window.shift")
        finally:
            self.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)

    def wait(self, condition: str):
        """Waits until the JavaScript expression is true.

        Raises:
            AssertionError: it never is; the page's problem and its console say why.
        """

        def failure() -> str:
            problem = self.js(
                "const p = document.getElementById('problem'); return p && !p.hidden ? p.textContent : null"
            )
            return f"never: {condition}; problem: {problem}; console: {self.errors()}"

        wait_until(lambda: self.js(f"return Boolean({condition})"), failure)

    def open(self, chapter: str = "", fresh: bool = True):
        """Loads the page, and brings a chapter into view, so that its figures are drawn.

        Not `fresh`, it stays as the last test of this chapter left it, which saves a second; what the figures show of
        a sentence is new with the next `translate`.
        """
        if fresh or self.chapter != chapter:
            self.chapter = None  # until it is open
            # A page that differs behind the # only would keep what a test before has set.
            self.browser.get("about:blank")
            self.browser.get(
                f"{self.address}#{chapter}?attention=encoder.self_attn.1.1"
            )  # instead of the page's choice
            self.wait("document.documentElement.dataset.ready")
        self.chapter = chapter
        if chapter:
            self.show(chapter)

    def show(self, chapter: str):
        self.js("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", chapter)
        self.wait(f"document.querySelector('#{chapter} figure .body')?.children.length")

    def each_figure(self):
        """Bring each figure into view, wait until it is drawn, and yield its id."""
        for figure in self.js("return [...document.querySelectorAll('figure')].map((figure) => figure.id)"):
            self.js("document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", figure)
            self.wait(f"document.querySelector('#{figure} .body').matches(':not([data-stale], :empty)')")
            yield figure

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

    def use_everything(self, chapter: str) -> str:
        """Use each control of a chapter, and return its texts after each use.

        Of a row of controls, such as tokens and heads, only the first ones are used; controls that leave the chapter or
        save a file are not.
        """
        texts = []
        for figure in range(self.js("return document.querySelectorAll(`#${arguments[0]} figure`).length", chapter)):
            place = f"document.querySelectorAll('#{chapter} figure')[{figure}]"
            self.js(f"{place}.scrollIntoView({{behavior: 'instant'}})")
            # Controls of the sentence before have other limits.
            self.wait(f"{place}.querySelector('.body').matches(':not([data-stale], :empty)')")
            texts += self.js(f"return ({USE_CONTROLS})({place})")
            self.wait(f"!{place}.querySelector('[aria-busy=true]')")
            texts.append(self.js(f"return {place}.textContent"))
        return "\n".join(texts)

    def errors(self) -> list[str]:
        """The errors in the browser's console."""
        return [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture(scope="session")
def only_page(browser, server) -> Page:
    """The page that all tests share; they ask for `page` or `open_chapter`."""
    return Page(browser, server)


@pytest.fixture(autouse=True)
def fresh_console(request):
    """Each test sees its own errors only, whatever ran before it."""
    if "browser" in request.fixturenames:
        request.getfixturevalue("browser").get_log("browser")


@pytest.fixture
def page_at(browser, only_page):
    """Opens another address: `page_at("http://...")` returns its page; the shared page is reloaded afterwards."""

    def open_(address: str) -> Page:
        only_page.chapter = None
        page = Page(browser, address)
        page.open()
        return page

    return open_


@pytest.fixture
def page(only_page) -> Page:
    """The page, open."""
    only_page.open(fresh=False)
    return only_page


@pytest.fixture
def open_chapter(only_page):
    """Opens the page at a chapter: `open_chapter("heads")` gives the page, as `Page.open` says."""

    def open_(chapter: str, fresh: bool = False) -> Page:
        only_page.open(chapter, fresh)
        return only_page

    return open_
