// Elements, formulas and numbers.

/** An element with attributes (functions become listeners, `null` and `false` are left out) and children. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// \q{Q}, \k{K}, \v{V}, \pos{PE} and \res{x} have the colours of their concepts.
const MACROS = Object.fromEntries(["q", "k", "v", "pos", "res"].map((name) => [`\\${name}`, `\\htmlClass{${name}}{#1}`]));
const COLOURED = { macros: MACROS, trust: ({ command }) => command === "\\htmlClass", strict: false };

/** A TeX formula as an element; `display` puts it on a separate line. */
export function formula(tex, display = false) {
  const element = el("span", { class: display ? "formula display" : "formula" });
  window.katex.render(tex, element, { displayMode: display, throwOnError: true, ...COLOURED, macros: { ...MACROS } });
  return element;
}

/** HTML with formulas between \( and \) or \[ and \]; use it with String.raw. */
export function prose(html) {
  const element = el("div", { class: "prose" });
  // Punctuation after a formula stays on the same line.
  element.innerHTML = html.replace(/\\\[(.+?)\\\]|\\\((.+?)\\\)([.,:;!?)]*)/gs, (_, display, inline, after) =>
    display !== undefined ? formula(display, true).outerHTML : el("span", { class: "whole" }, formula(inline), after).outerHTML);
  return element;
}

/** A number for readers: 3 significant digits by default, a minus sign, an exponent only for very large or small ones. */
export function number(x, digits = 3) {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "–";
  if (x !== 0 && (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e7)) {
    const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
    return `${mantissa}·10${superscript(Number(exponent))}`.replace("-", "−");
  }
  return String(Number(x.toPrecision(digits))).replace("-", "−");
}

/** An integer with thousands separators. */
export const count = (x) => Math.round(x).toLocaleString("en");

/** A share as a percentage: 0.123 -> "12%"; with one decimal below 10%. */
export const percent = (x) => `${(100 * x).toFixed(x < 0.0995 ? 1 : 0)}%`;

const superscript = (n) => String(n).replace(/[-\d]/g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻");

/** A token's text without surrounding spaces; a token of spaces only is shown as ␣. */
export const shown = (token) => token.text.trim() || "␣";
