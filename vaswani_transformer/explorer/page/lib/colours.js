// Colours that the colour-blind can tell apart (Okabe and Ito 2008), in light and in dark; style.css has their values.

const style = () => getComputedStyle(document.documentElement);

/** A colour of style.css: "query", "key", "value", "encoder", "decoder", "ink", "paper", "line", ... */
export const colour = (name) => style().getPropertyValue(`--${name}`).trim();

/** The colour of a head, the same everywhere on the page. With more than eight heads colours come again: show the number. */
export const headColour = (head) => colour(`head-${head % 8}`);

/** From 0 (the paper) to 1: for weights and probabilities. Small ones are shown a little stronger than they are. */
export function weightScale(highest = 1) {
  const scale = window.d3.interpolateLab(colour("scale-zero"), colour("scale-high"));
  return (x) => scale(Math.max(0, Math.min(1, x / highest)) ** 0.7);
}

/** From -largest over 0 (the paper) to largest: for numbers of either sign. */
export function signedScale(largest) {
  const { interpolateLab } = window.d3;
  const [low, high] = [interpolateLab(colour("scale-zero"), colour("scale-low")), interpolateLab(colour("scale-zero"), colour("scale-high"))];
  return (x) => (x < 0 ? low : high)(Math.min(1, Math.abs(x) / (largest || 1)));
}
