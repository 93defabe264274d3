// What a control asks of the server: when it rests, and only the last answer counts.
import { Problem } from "./data.js";
import { el } from "./dom.js";

/**
 * `ask(question, use, onProblem)` calls `question()` once nothing was asked for `delay` ms, and `use(answer)`, unless something
 * newer was asked meanwhile. `status` is an element that says that it computes, or what is wrong; it stands outside of what is
 * drawn again, or is put back. `drop()` forgets what is under way.
 */
export function asked({ delay = 150, words = "Computing …" } = {}) {
  const status = el("p", { class: "note status", role: "status", "aria-busy": "false" });
  const show = (text, isBusy) => {
    status.textContent = text;
    status.setAttribute("aria-busy", String(isBusy));
  };
  let [last, timer] = [0, null];
  const drop = () => {
    last += 1;
    clearTimeout(timer);
    show("", false);
  };
  const answer = async (turn, question, use, onProblem) => {
    try {
      const result = await question();
      if (turn !== last) return;
      show("", false);
      use(result);
    } catch (error) {
      if (turn !== last) return;
      if (!(error instanceof Problem)) console.error(error);
      show(error instanceof Problem ? error.message : `Something in this page went wrong: ${error.message}`, false);
      onProblem?.();
    }
  };
  const ask = (question, use, onProblem) => {
    drop();
    const turn = last;
    show(words, true);
    timer = setTimeout(() => answer(turn, question, use, onProblem), delay);
  };
  return { status, ask, drop, get isBusy() { return status.getAttribute("aria-busy") === "true"; } };
}
