// Figures that draw themselves when they come into view, and again when their data, width or theme changes.
import { el } from "./dom.js";

/** Calls `redraw` and keeps the focus: it moves to the new element with the same data-key. */
export function keepFocus(root, redraw) {
  const focused = document.activeElement?.dataset?.key;
  redraw();
  if (focused && document.activeElement?.dataset?.key !== focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

/**
 * Adds a figure to `root`. `draw(body)` fills an empty element. It is called when the figure is near the screen and one of
 * these has changed: the events `on` of the state (by default "run"), the width, or the theme.
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
    body.removeAttribute("data-stale");
    keepFocus(body, () => {
      body.replaceChildren();
      draw(body);
    });
  };
  const redraw = () => {
    isDirty = true;
    body.setAttribute("data-stale", ""); // stays until the figure is in view; players in it must stop
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
