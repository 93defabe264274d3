// What a control asks of the server: when it rests, and only the last answer counts.
import { Problem } from "./data.js";
import { el } from "./dom.js";

/**
 * `ask(question, use)` calls `question()` once nothing was asked for 150 ms, and `use(answer)` unless something newer was asked
 * meanwhile. `status` is an element that says that it computes, or what is wrong; `drop()` forgets what is under way.
 */
export function asked(delay = 150) {
  const status = el("p", { class: "note status", role: "status" });
  let [last, timer] = [0, null];
  const drop = () => {
    last += 1;
    clearTimeout(timer);
    status.textContent = "";
  };
  const answer = async (turn, question, use) => {
    status.textContent = "Computing …";
    try {
      const result = await question();
      if (turn !== last) return;
      status.textContent = "";
      use(result);
    } catch (error) {
      if (turn !== last) return;
      if (!(error instanceof Problem)) console.error(error);
      status.textContent = error instanceof Problem ? error.message : `Something in this page went wrong: ${error.message}`;
    }
  };
  const ask = (question, use) => {
    drop();
    const turn = last;
    timer = setTimeout(() => answer(turn, question, use), delay);
  };
  return { status, ask, drop };
}
