"""axe-core reports nothing on the whole page, with all figures drawn."""

from pathlib import Path

import pytest


AXE = Path(__file__).parents[4] / "build" / "npm" / "node_modules" / "axe-core" / "axe.min.js"
# Its default rules, and an experimental one that Lighthouse has, too.
RUN = """
    const rules = { "label-content-name-mismatch": { enabled: true } };
    const done = arguments[0];
    axe.run({ rules, resultTypes: ["violations"] }).then(({ violations }) =>
      done(violations.flatMap(({ id, nodes }) => nodes.map(({ target, html }) => [id, String(target), html]))))"""


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.exists():
        pytest.skip("needs axe-core: npm install --prefix build/npm axe-core")
    return AXE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "kind, theme",
    [
        ("exported", "light"),
        pytest.param("exported", "dark", marks=pytest.mark.slow),
        pytest.param("served", "light", marks=pytest.mark.slow),
        pytest.param("served", "dark", marks=pytest.mark.slow),
    ],
)
def test_axe_reports_nothing(axe, page_at, browser, server, serve_copy, kind, theme):
    scheme = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    try:
        page = page_at(server if kind == "served" else serve_copy("mini-en-de"))
        assert page.js("return document.documentElement.dataset.theme") == theme
        list(page.each_figure())
        page.js(axe)
        assert browser.execute_async_script(RUN) == []
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
