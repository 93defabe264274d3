// A figure that draws itself when it comes into view, and again when what it shows, its width or the theme has changed.
import { el } from "./dom.js";

/**
 * Adds a figure to `root`. `draw(body)` fills an empty element; it is called when the figure is near the screen and
 * something has changed since: an event of the state ("run" unless told otherwise), the width, or the theme.
 */
export function figure(root, state, { caption = "", on = ["run"], draw, wide = false }) {
  const body = el("div", { class: "body" });
  const element = el("figure", { class: wide ? "wide" : null }, body, caption ? el("figcaption") : null);
  if (caption) element.lastChild.append(typeof caption === "string" ? document.createTextNode(caption) : caption);
  root.append(element);

  let [isDirty, isNear, width] = [true, false, 0];
  const update = () => {
    if (!isDirty || !isNear || !state.run) return;
    isDirty = false;
    const focused = document.activeElement?.dataset?.key; // a control that redraws its figure keeps the focus
    body.replaceChildren();
    draw(body);
    if (focused) body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  };
  const redraw = () => {
    isDirty = true;
    update();
  };
  for (const event of [...on, "theme"]) state.on(event, redraw);
  new IntersectionObserver(([entry]) => {
    isNear = entry.isIntersecting;
    update();
  }, { rootMargin: "600px" }).observe(element);
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) < 1) return;
    width = entry.contentRect.width;
    redraw();
  }).observe(element);
  return { element, body, redraw };
}
