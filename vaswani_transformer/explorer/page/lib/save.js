// Saves a figure as an SVG or PNG file: its texts, boxes, canvases and drawings become shapes at the same places.
import { colour } from "./colours.js";
import { set } from "./svg.js";

const MARGIN = 16;
const SKIPPED = ".controls, .status, .readout, .katex-mathml, [hidden], .hidden, input, textarea, select, .tools";
const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linecap", "stroke-linejoin",
  "opacity", "paint-order", "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "mask"];
const isClear = (paint) => /^rgba\(.*, 0\)$/.test(paint);

const isDrawn = (element) => !element.matches(SKIPPED) && element.checkVisibility({ opacityProperty: true });

/** The text of an SVG file that shows `root`, with a title below it. */
export function drawing(root, title) {
  const { left, bottom, width: seen } = root.getBoundingClientRect();
  const top = Math.min(...[...root.children].filter(isDrawn).map((child) => child.getBoundingClientRect().top), bottom); // without the controls
  const [origin, width, bodyHeight] = [{ left, top }, Math.max(root.scrollWidth, seen), bottom - top];
  const lines = wrapped(title, Math.floor(width / 6));
  const height = bodyHeight + 12 + 16 * lines.length;
  const svg = window.d3.create("svg:svg").call(set, { viewBox: `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`,
    width: width + 2 * MARGIN, height: height + 2 * MARGIN, role: "img" });
  svg.append("title").text(title);
  svg.append("rect").call(set, { x: -MARGIN, y: -MARGIN, width: width + 2 * MARGIN, height: height + 2 * MARGIN, fill: colour("raised") });
  addElement(svg, root, origin);
  const font = getComputedStyle(root).fontFamily;
  lines.forEach((line, i) => svg.append("text").call(set, { x: 0, y: bodyHeight + 22 + 16 * i, fill: colour("soft"), "font-family": font,
    "font-size": 12 }).text(line));
  return new XMLSerializer().serializeToString(svg.node());
}

/** Adds an element and everything in it. */
function addElement(svg, element, origin) {
  if (!isDrawn(element)) return;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  const place = { x: box.left - origin.left, y: box.top - origin.top, width: box.width, height: box.height };
  if (element instanceof SVGElement) return addSvg(svg, element, place);
  if (element instanceof HTMLCanvasElement)
    return svg.append("image").call(set, { ...place, href: element.toDataURL(), preserveAspectRatio: "none", style: "image-rendering:pixelated" });
  addBox(svg, style, place);
  for (const child of element.childNodes) {
    if (child instanceof Element) addElement(svg, child, origin);
    else if (child.textContent.trim()) style.transform === "none" ? addText(svg, child, style, origin) : addTurned(svg, element, style, origin);
  }
}

/** The background and the border of a box. */
function addBox(svg, style, { x, y, width, height }) {
  if (!isClear(style.backgroundColor))
    svg.append("rect").call(set, { x, y, width, height, rx: Math.min(parseFloat(style.borderRadius) || 0, height / 2), fill: style.backgroundColor });
  const sides = { top: [x, y, x + width, y], right: [x + width, y, x + width, y + height], bottom: [x, y + height, x + width, y + height],
    left: [x, y, x, y + height] };
  for (const [side, [x1, y1, x2, y2]] of Object.entries(sides)) {
    const border = parseFloat(style[`border-${side}-width`]);
    if (border && style[`border-${side}-style`] !== "none")
      svg.append("line").call(set, { x1, y1, x2, y2, stroke: style[`border-${side}-color`], "stroke-width": border });
  }
}

const fontOf = (style) => ({ fill: style.color, "font-family": style.fontFamily, "font-size": style.fontSize, "font-weight": style.fontWeight,
  "font-style": style.fontStyle, "xml:space": "preserve" });

/** A text node, a line of the page at a time. */
function addText(svg, node, style, origin) {
  const range = document.createRange();
  const lines = [];
  for (const { index, 0: word } of node.textContent.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const box = range.getBoundingClientRect();
    const last = lines.at(-1);
    if (last && Math.abs(last.box.top - box.top) < 2) last.words.push(word);
    else lines.push({ box, words: [word] });
  }
  for (const { box, words } of lines)
    svg.append("text").call(set, { x: box.left - origin.left, y: box.top - origin.top + box.height * 0.78, ...fontOf(style) }).text(words.join(" "));
}

/** A label with a transform of its own, such as the columns of a map. */
function addTurned(svg, element, style, origin) {
  const parent = element.offsetParent.getBoundingClientRect();
  const [ox, oy] = style.transformOrigin.split(" ").map(parseFloat);
  const [x, y] = [parent.left - origin.left + element.offsetLeft + ox, parent.top - origin.top + element.offsetTop + oy];
  svg.append("text").call(set, { x: -ox, y: element.offsetHeight * 0.78 - oy, transform: `translate(${x} ${y}) ${style.transform}`, ...fontOf(style) })
    .text(element.textContent);
}

/** A drawing of the page: a copy with its computed colours and fonts. */
function addSvg(svg, element, place) {
  const copy = element.cloneNode(true);
  const [originals, copies] = [element, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  originals.forEach((original, i) => {
    const style = getComputedStyle(original);
    copies[i].setAttribute("style", PAINT.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    [...copies[i].attributes].filter(({ name }) => /^(data-|aria-|role|tabindex|class)/.test(name)).forEach(({ name }) => copies[i].removeAttribute(name));
  });
  window.d3.select(copy).call(set, place);
  svg.node().append(copy);
}

function wrapped(text, letters) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= letters) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines;
}

/** Downloads `root` as a file of `type` "svg" or "png". */
export async function savePicture(root, { type, name, title }) {
  const svg = new Blob([drawing(root, title)], { type: "image/svg+xml" });
  download(type === "svg" ? svg : await rasterised(svg), `${name}.${type}`);
}

/** An SVG file as a PNG file, with two pixels for one of the page. */
async function rasterised(svg) {
  const image = new Image();
  const address = URL.createObjectURL(svg);
  await new Promise((resolve, reject) => Object.assign(image, { onload: resolve, onerror: reject, src: address }));
  URL.revokeObjectURL(address);
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function download(file, name) {
  const address = URL.createObjectURL(file);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
