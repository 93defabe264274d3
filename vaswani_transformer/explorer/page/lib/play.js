// The guided play: a dialog that walks the sentence through Figure 1, a step at a time.
import { drawArchitecture } from "./architecture.js";
import { button } from "./controls.js";
import { el } from "./dom.js";

/** Builds the play of `steps`, [{part, seconds, title, text(state), draw(root, state), isShown?(state)}]; returns {button, open(step)}. */
export function guidedPlay(state, steps) {
  const seconds = Math.round(steps.reduce((sum, step) => sum + step.seconds, 0) / 10) * 10;
  const dialog = el("dialog", { id: "play", "aria-labelledby": "play-title" });
  document.body.append(dialog);
  const open = (step = 0) => state.run && new Play(dialog, state, steps.filter(({ isShown }) => isShown?.(state) ?? true)).open(step);
  return { button: button(`Play: one sentence, ${seconds} seconds`, () => open(), { class: "primary", id: "play-open" }), open };
}

class Play {
  constructor(dialog, state, steps) {
    Object.assign(this, { dialog, state, steps, at: 0 });
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)").matches; // still pictures, without a clock
    this.map = drawArchitecture(state.model);
    this.title = el("h2", { id: "play-title", tabindex: -1 });
    this.text = el("p", { class: "play-text", "aria-live": "polite" });
    this.picture = el("div", { class: "picture" });
    this.pause = button("Pause", () => this.setPaused(!this.isPaused), { "data-key": "play pause", hidden: this.isStill });
    // The bar of a step fills in its time; the end of this animation is the clock, which a pause stops.
    this.bars = steps.map(({ title, seconds }, i) => {
      const bar = button("", () => this.show(i), { class: "bar", "aria-label": `Step ${i + 1}: ${title}`, animationend: () => this.show(this.at + 1) });
      bar.style.setProperty("--seconds", `${seconds}s`);
      return bar;
    });
  }

  open(step) {
    const move = (text, by) => button(text, () => this.show(this.at + by), { "data-key": `play ${text}` });
    this.back = move("Back", -1);
    this.next = move("Next", 1);
    this.more = el("a", { class: "more", click: () => this.dialog.close() });
    this.dialog.replaceChildren(
      el("header", {}, el("div", { class: "progress" }, this.bars), button("Close", () => this.dialog.close(), { "data-key": "play close" })),
      el("div", { class: "figure-map", "aria-hidden": "true" }, this.map),
      el("div", { class: "stage" }, this.title, this.text, this.picture),
      el("footer", {}, this.back, this.pause, this.next, this.more));
    this.map.setAttribute("inert", "");
    this.dialog.onkeydown = (event) => this.onKey(event);
    this.dialog.onclose = () => this.dialog.open || this.dialog.replaceChildren(); // the event comes late: it may be open again
    this.setPaused(false);
    this.dialog.showModal();
    this.show(Math.min(step, this.steps.length - 1));
  }

  onKey(event) {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (move) this.show(this.at + move);
    else if (event.key === " " && !event.target.matches("button, a")) this.setPaused(!this.isPaused);
    else return;
    event.preventDefault();
  }

  setPaused(isPaused) {
    if (this.isOver && !isPaused) this.show(0);
    this.isPaused = isPaused;
    this.pause.textContent = isPaused ? "Play" : "Pause";
    this.dialog.classList.toggle("paused", isPaused);
  }

  /** The last step stays; the button then starts the play again. */
  end() {
    this.isOver = true;
    this.setPaused(true);
    this.pause.textContent = "Play again";
  }

  show(index) {
    if (!this.steps[index]) return this.end();
    Object.assign(this, { at: index, isOver: false });
    const { part, title, text, draw, chapter } = this.steps[index];
    this.bars.forEach((bar, i) => {
      bar.className = `bar ${i < index ? "past" : i === index ? "current" : ""}`;
      bar.setAttribute("aria-current", i === index ? "step" : "false");
    });
    this.map.querySelectorAll("[data-part]").forEach((box) => box.classList.toggle("lit", part.includes(box.dataset.part)));
    this.title.textContent = `${index + 1}. ${title}`;
    this.text.textContent = text(this.state);
    this.picture.replaceChildren();
    draw(this.picture, this.state);
    this.more.href = `#${chapter}`;
    this.more.textContent = "Read more";
    this.back.disabled = index === 0;
    this.next.disabled = index === this.steps.length - 1;
    this.title.focus({ preventScroll: true });
  }
}
