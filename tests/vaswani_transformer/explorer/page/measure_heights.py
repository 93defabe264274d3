"""Measure the heights of the page's figures, and write them to page/lib/heights.js.

Run `vaswani explore --no-browser`, then `python tests/vaswani_transformer/explorer/page/measure_heights.py`.
"""

import json
import shutil
import sys
import time
from pathlib import Path

from selenium import webdriver


SIZES = [(390, 844), (768, 1000), (1440, 1000)]
MEASURE = """
    const done = arguments[0];
    const pause = () => new Promise((resolve) => setTimeout(resolve, 300));
    (async () => {
      const heights = {};
      for (const figure of document.querySelectorAll("figure")) {
        figure.scrollIntoView();
        const body = figure.querySelector(".body");
        do await pause(); while (body.style.minHeight); // the reserved height, until the figure is drawn
        heights[figure.id] = Math.round(body.offsetHeight);
      }
      done(heights);
    })()"""


def measure(address: str) -> dict[str, list[int]]:
    """Return the heights of each figure's body in pixels, for each of `SIZES`."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    heights: dict[str, list[int]] = {}
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))) as browser:
        browser.set_script_timeout(120)
        for width, height in SIZES:
            size = dict(width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            browser.get("about:blank")
            browser.get(address)
            while not browser.execute_script("return document.documentElement.dataset.ready"):
                time.sleep(0.1)
            for figure, pixels in browser.execute_async_script(MEASURE).items():
                heights.setdefault(figure, []).append(pixels)
    return heights


if __name__ == "__main__":
    file = Path(__file__).parents[4] / "vaswani_transformer" / "explorer" / "page" / "lib" / "heights.js"
    before, _, rest = file.read_text(encoding="utf-8").partition("const HEIGHTS = {")
    lines = [
        f"  {json.dumps(figure)}: {pixels},\n"
        for figure, pixels in measure(sys.argv[1] if sys.argv[1:] else "http://127.0.0.1:8017/").items()
    ]
    after = rest.partition("};")[2]
    file.write_text(f"{before}const HEIGHTS = {{\n{''.join(lines)}}};{after}", encoding="utf-8")
