// Requests that a control sends to the server: they wait until the control rests, and only the latest response counts.
import { Problem } from "./data.js";
import { el } from "./dom.js";

/**
 * Returns an object whose `send(request, use, onProblem)` calls `request()` after `delay` ms without another `send`, and then
 * `use(response)`, unless a newer request was sent meanwhile. `status` is an element that shows `message` while a request runs,
 * or its problem; keep it outside the part of the page that `use` redraws. `cancel()` discards the current request.
 */
export function latestRequest({ delay = 150, message = "Computing …" } = {}) {
  const status = el("p", { class: "note status", role: "status", "aria-busy": "false" });
  const show = (text, isBusy) => {
    status.textContent = text;
    status.setAttribute("aria-busy", String(isBusy));
  };
  let [latest, timer] = [0, null];
  const cancel = () => {
    latest += 1;
    clearTimeout(timer);
    show("", false);
  };
  const run = async (turn, request, use, onProblem) => {
    try {
      const response = await request();
      if (turn !== latest) return;
      show("", false);
      use(response);
    } catch (error) {
      if (turn !== latest) return;
      if (!(error instanceof Problem)) console.error(error);
      show(error instanceof Problem ? error.message : `Error in this page: ${error.message}`, false);
      onProblem?.();
    }
  };
  const send = (request, use, onProblem) => {
    cancel();
    const turn = latest;
    show(message, true);
    timer = setTimeout(() => run(turn, request, use, onProblem), delay);
  };
  return { status, send, cancel, get isBusy() { return status.getAttribute("aria-busy") === "true"; } };
}
