// Helpers to draw shapes with D3.

/** Sets attributes on a selection: `parent.append("rect").call(set, { x: 1, y: 2 })`. */
export const set = (selection, attributes) => {
  for (const [name, value] of Object.entries(attributes)) selection.attr(name, value);
  return selection;
};

/** A new SVG element; `width` and `height` are those of its view box. */
export const picture = (width, height, attributes) =>
  window.d3.create("svg").call(set, { viewBox: `0 0 ${width} ${height}`, ...attributes });

/** Adds text, by default centred at x. */
export const write = (parent, text, attributes) =>
  parent
    .append("text")
    .call(set, { "text-anchor": "middle", ...attributes })
    .text(text);

/** A named box centred at x and y; style.css styles its class. */
export function box(parent, text, x, y, className, width) {
  const group = parent.append("g").attr("class", className);
  group.append("rect").call(set, { x: x - width / 2, y: y - 15, width, height: 30, rx: 7 });
  write(group, text, { x, y: y + 4 });
}

/** The circle with a plus, where two streams are added. */
export function plus(parent, x, y) {
  parent.append("circle").call(set, { cx: x, cy: y, r: 11, class: "plus" });
  parent.append("path").call(set, { d: `M${x - 6} ${y}h12M${x} ${y - 6}v12`, class: "branch" });
}

/** Makes a shape a button: it reacts to a click, Enter and the space bar. */
export const pressed = (selection, onPress) =>
  selection.on("click", onPress).on("keydown.press", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    onPress();
  });
