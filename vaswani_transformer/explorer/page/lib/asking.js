// Questions to the source while the reader changes something: one at a time, and the last one wins.
import { Problem } from "./data.js";

/** Asks when the reader's hand rests, and drops answers that come too late. `onChange` is called when anything is new. */
export class Asking {
  #last = 0;
  #timer = 0;

  constructor(onChange, wait = 150) {
    Object.assign(this, { onChange, wait, isBusy: false, answer: null, problem: "" });
  }

  /** Asks `work()`, a promise of the answer; the answer before stays until the new one is there. */
  ask(work) {
    const number = ++this.#last;
    Object.assign(this, { isBusy: true, problem: "" });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#work(work, number), this.wait);
    this.onChange();
  }

  async #work(work, number) {
    let [answer, problem] = [null, ""];
    try {
      answer = await work();
    } catch (error) {
      if (!(error instanceof Problem)) console.error(error);
      problem = error instanceof Problem ? error.message : `Something in this page went wrong: ${error.message}`;
    }
    if (number !== this.#last) return;
    Object.assign(this, { isBusy: false, answer, problem });
    this.onChange();
  }

  /** Back to the start: no answer, no problem, and nothing that is still on its way. */
  forget() {
    this.#last++;
    clearTimeout(this.#timer);
    Object.assign(this, { isBusy: false, answer: null, problem: "" });
  }
}
