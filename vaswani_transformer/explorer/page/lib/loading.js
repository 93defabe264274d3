// The progress of loading a model in an exported page.
import { el, percent } from "./dom.js";

/** An element that shows how much of the current model has arrived, while it is loading; nothing with a server. */
export function loading(state) {
  const bar = el("progress", { max: 1, value: 0, "aria-label": "Loading the model" });
  const text = el("span");
  const element = el("p", { id: "loading", class: "note", hidden: true }, bar, " ", text);
  state.source.onProgress?.((checkpoint, share) => {
    if (checkpoint !== state.model?.name) return;
    element.hidden = share === 1;
    bar.value = share;
    text.textContent = `Loading the model: ${percent(share)}`;
  });
  return element;
}
