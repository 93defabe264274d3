// A figure that draws itself when it comes into view, and again when what it shows, its width or the theme has changed.
import { el } from "./dom.js";

/** Does `redraw`, and focuses what had the focus before, drawn anew: a control that redraws its figure keeps the focus. */
export function keepFocus(root, redraw) {
  const focused = document.activeElement?.dataset?.key;
  redraw();
  if (focused && document.activeElement?.dataset?.key !== focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

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
    body.removeAttribute("data-stale");
    keepFocus(body, () => {
      body.replaceChildren();
      draw(body);
    });
  };
  const redraw = () => {
    isDirty = true;
    body.setAttribute("data-stale", ""); // out of sight it stays so, and what plays in it has to stop
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
