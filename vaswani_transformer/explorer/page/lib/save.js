// Saves a figure as an SVG file.
import { colour } from "./colours.js";

const MARGIN = 14;

/** The text of a standalone SVG file, with the page's colours and a title below the figure. */
export function standalone(svg, title) {
  const [width, height] = [Number(svg.getAttribute("width")), Number(svg.getAttribute("height"))];
  const font = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
  const lines = wrapped(title, Math.floor(width / 5.9));
  const whole = height + lines.length * 15 + 10;
  const make = (tag, attributes, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    element.textContent = text;
    return element;
  };
  const file = make("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    role: "img",
    viewBox: `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${whole + 2 * MARGIN}`,
    width: width + 2 * MARGIN,
    height: whole + 2 * MARGIN,
  });
  const body = make("g", { color: colour("ink"), "font-family": font, "font-size": 12 });
  body.append(...svg.cloneNode(true).childNodes);
  file.append(
    make("title", {}, title),
    make("rect", { x: -MARGIN, y: -MARGIN, width: width + 2 * MARGIN, height: whole + 2 * MARGIN, fill: colour("raised") }),
    body,
    ...lines.map((line, i) =>
      make("text", { x: 0, y: height + 18 + i * 15, "font-family": font, "font-size": 11, fill: colour("soft") }, line),
    ),
  );
  file
    .querySelectorAll("[data-key]")
    .forEach((element) => ["data-key", "role", "tabindex", "aria-pressed", "aria-label"].forEach((name) => element.removeAttribute(name)));
  return new XMLSerializer().serializeToString(file);
}

function wrapped(text, letters) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= letters) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines;
}

/** Downloads `text` as a file. */
export function save(text, name, type = "image/svg+xml") {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
