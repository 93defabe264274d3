// Colours for colour-blind readers too (Okabe and Ito 2008); style.css has their values for the light and the dark theme.

const style = () => getComputedStyle(document.documentElement);

/** A colour of style.css: "query", "key", "value", "encoder", "decoder", "ink", "paper", "line", ... */
export const colour = (name) => style().getPropertyValue(`--${name}`).trim();

/** The colour of a head, the same everywhere on the page. Colours repeat after eight heads, so show the number as well. */
export const headColour = (head) => colour(`head-${head % 8}`);

/** A scale from 0 to `highest` for weights and probabilities; it emphasises small ones a little. `end` is the last colour. */
export function weightScale(highest = 1, end = "scale-high") {
  const scale = window.d3.interpolateLab(colour("scale-zero"), colour(end));
  return (x) => scale(Math.max(0, Math.min(1, x / highest)) ** 0.7);
}

/** A scale from -largest to largest for numbers of either sign. */
export function signedScale(largest) {
  const { interpolateLab } = window.d3;
  const [low, high] = [interpolateLab(colour("scale-zero"), colour("scale-low")), interpolateLab(colour("scale-zero"), colour("scale-high"))];
  return (x) => (x < 0 ? low : high)(Math.min(1, Math.abs(x) / (largest || 1)));
}

/** The class for readable text on a background: "on-light" or "on-dark" of style.css. */
export const lettersOn = (background) => (window.d3.lab(background).l > 49.5 ? "on-light" : "on-dark");
