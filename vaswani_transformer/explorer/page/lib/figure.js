// Figures that draw themselves when they come into view, and again when their data, width or theme changes.
import { addressOf, restoreSettings } from "./address.js";
import { button } from "./controls.js";
import { el } from "./dom.js";
import { reservedHeight } from "./heights.js";
import { savePicture } from "./save.js";

/** Calls `redraw` and keeps the focus: it moves to the new element with the same data-key. */
export function keepFocus(root, redraw) {
  const focused = document.activeElement?.dataset?.key;
  redraw();
  if (focused && document.activeElement?.dataset?.key !== focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

/**
 * Adds a figure to `root`, with the id of its chapter and its number, such as "heads-2". `draw(body)` fills an empty element.
 * It is called when the figure is near the screen and one of these has changed: the events `on` of the state (by default
 * "run"), the width, or the theme. `title()` returns what a saved picture needs to say besides sentence and checkpoint.
 */
export function figure(root, state, { caption = "", on = ["run"], draw, wide = false, title = () => "" }) {
  const body = el("div", { class: "body" });
  const chapter = root.closest("section");
  const id = `${chapter.id}-${chapter.querySelectorAll("figure").length + 1}`;
  const element = el("figure", { id, class: wide ? "wide" : null }, body, el("figcaption", {}, el("span", {}, caption), tools(state, id, body, title)));
  body.style.minHeight = `${reservedHeight(id)}px`; // so that the page does not move when the figure appears
  root.append(element);

  let [isDirty, isNear, width] = [true, false, 0];
  const restore = () => state.pending?.target === id && restoreSettings(body, state.pending.settings);
  const update = () => {
    if (!isDirty || !isNear || !state.run) return;
    isDirty = false;
    body.removeAttribute("data-stale");
    keepFocus(body, () => {
      body.replaceChildren();
      Promise.resolve(draw(body)).then(() => (body.style.minHeight = ""));
    });
    restore();
  };
  const redraw = () => {
    isDirty = true;
    body.setAttribute("data-stale", ""); // stays until the figure is in view; players in it must stop
    update();
  };
  for (const event of [...on, "theme"]) state.on(event, redraw);
  state.on("address", () => isDirty || restore());
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

/** The buttons below a figure: copy a link to its present state, or save it as a picture. */
function tools(state, id, body, title) {
  const status = el("span", { role: "status" });
  const copy = async () => {
    history.replaceState({ isOurs: true }, "", addressOf(state, id));
    // Without permission for the clipboard the link is in the address bar.
    status.textContent = await navigator.clipboard.writeText(location.href).then(() => "copied", () => "see the address bar");
    setTimeout(() => (status.textContent = ""), 3000);
  };
  const picture = (type) => () => {
    const { run, model } = state;
    savePicture(body, { type, name: `${model.name}-${id}`, title: [`“${run.request.text}”`, model.name, title()].filter(Boolean).join(", ") });
  };
  const actions = [["Copy link", copy], ["Save as SVG", picture("svg")], ["Save as PNG", picture("png")]];
  return el("span", { class: "tools" }, status, actions.map(([text, act]) => button(text, act, { "data-key": `save ${text}`, "data-tool": text })));
}
