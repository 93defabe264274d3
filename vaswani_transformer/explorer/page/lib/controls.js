// The controls: sliders, checkboxes, choices, tokens, and the choice of an attention head.
import { headColour } from "./colours.js";
import { el, number, shown } from "./dom.js";

let controls = 0;
const newId = () => `control-${++controls}`;

/**
 * Makes an element a setting of its figure, which links hold: `read()` returns its value as text, and `change(text)` sets it
 * as the reader would.
 */
export function asSetting(element, name, read, change) {
  element.dataset.setting = name;
  return Object.assign(element, { readSetting: read, changeSetting: change });
}

/** A slider with its name and value; it calls `onChange(value)` at each move. `format(value)` is the text of the value. */
export function slider({ name, min, max, step, value, onChange, format = number, key = name }) {
  const id = newId();
  const output = el("output", { for: id }, format(value));
  const input = el("input", { id, type: "range", min, max, step, value, "data-key": key });
  input.addEventListener("input", () => {
    output.textContent = format(Number(input.value));
    onChange(Number(input.value));
  });
  const change = (text) => {
    input.value = text;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const control = el("div", { class: "control slider" }, el("label", { for: id }, name), input, output);
  return asSetting(control, key, () => input.value, change);
}

/** A checkbox. */
export function checkbox({ name, value, onChange, key = name }) {
  const id = newId();
  const input = el("input", { id, type: "checkbox", checked: value, "data-key": key, change: () => onChange(input.checked) });
  const control = el("div", { class: "control checkbox" }, input, el("label", { for: id }, name));
  return asSetting(control, key, () => (input.checked ? "on" : "off"), (text) => text !== (input.checked ? "on" : "off") && input.click());
}

/** A choice between options [value, text], shown as buttons side by side. */
export function choice({ name, options, value, onChange, key = name }) {
  const group = el("fieldset", { class: "control choice" }, el("legend", {}, name));
  const shared = newId();
  for (const [option, text] of options) {
    const id = newId();
    const input = el("input", { id, type: "radio", name: shared, value: option, checked: option === value, "data-key": `${key} ${option}`,
      change: () => onChange(option) });
    group.append(input, el("label", { for: id }, text));
  }
  const inputs = [...group.querySelectorAll("input")];
  return asSetting(group, key, () => inputs.find(({ checked }) => checked)?.value ?? "",
    (text) => inputs.find(({ value, checked }) => value === text && !checked)?.click());
}

/** A button. */
export const button = (text, onClick, attributes = {}) => el("button", { type: "button", click: onClick, ...attributes }, text);

/** Chooses the stack, layer and head of the page's selection; without `heads` only the stack and layer. */
export function attentionPicker(state, { heads = true, kinds = true } = {}) {
  const { stack, kind, layer, head } = state.selection;
  const size = state.size(stack);
  const names = [["encoder.self_attn", "encoder self"], ["decoder.self_attn", "decoder self"], ["decoder.cross_attn", "cross"]];
  const numbers = (n) => Array.from({ length: n }, (_, i) => [i, String(i + 1)]);
  const picker = el("div", { class: "controls attention-picker" },
    kinds && choice({ name: "attention", options: names, value: `${stack}.${kind}`, onChange: (value) => {
      const [stack, kind] = value.split(".");
      state.select({ stack, kind, token: null });
    } }),
    choice({ name: "layer", options: numbers(size.layers), value: layer, onChange: (layer) => state.select({ layer }) }),
    heads ? headChoice(size.heads, head, (head) => state.select({ head })) : null);
  picker.querySelectorAll("[data-setting]").forEach((control) => delete control.dataset.setting); // the address holds the selection
  return picker;
}

function headChoice(heads, value, onChange) {
  const group = choice({ name: "head", options: Array.from({ length: heads }, (_, i) => [i, String(i + 1)]), value, onChange });
  group.querySelectorAll("label").forEach((label, head) => label.style.setProperty("--mark", headColour(head)));
  group.classList.add("heads");
  return group;
}

/** A row of tokens to choose from with `onSelect(index)`; `shade(index)` is an optional background. */
export function tokenRow({ name, tokens, value = null, onSelect, onHover, shade, key = name }) {
  const row = el("div", { class: "tokens", role: "group", "aria-label": name });
  tokens.forEach((token, i) => {
    const chip = button(shown(token), () => onSelect?.(i), { "aria-pressed": String(i === value), class: `token ${token.kind ?? ""}`,
      "data-key": `${key} ${i}`, pointerenter: () => onHover?.(i), focus: () => onHover?.(i), pointerleave: () => onHover?.(null) });
    if (shade) chip.style.background = shade(i);
    row.append(chip);
  });
  const isPressed = (i) => row.children[i]?.getAttribute("aria-pressed") === "true";
  const read = () => Array.from(row.children, (_, i) => i).filter(isPressed).join(".");
  return asSetting(row, key, read, (text) => {
    const wanted = text === "" ? [] : text.split(".").map(Number);
    // Twice, because a row with two pressed tokens drops the older one.
    for (const i of [...wanted, ...wanted]) if (row.isConnected && !isPressed(i)) row.children[i]?.click();
  });
}

/** A slider over steps 0 to `last`, with a button that plays them unless the system reduces motion; calls `onChange(step)`. */
export function player({ name, last, value, onChange, format, key = name, delay = 700 }) {
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  const control = slider({ name, min: 0, max: last, step: 1, value, format, key, onChange: (step) => {
    stop();
    onChange(step);
  } });
  const [input, output] = [control.querySelector("input"), control.querySelector("output")];
  const move = (step) => {
    input.value = step;
    output.textContent = (format ?? number)(step);
    onChange(step);
  };
  const play = button("Play", () => {
    if (timer) return stop();
    if (Number(input.value) >= last) move(0);
    play.textContent = "Pause";
    timer = setInterval(() => {
      if (!control.isConnected || control.closest("[data-stale]") || Number(input.value) >= last) return stop();
      move(Number(input.value) + 1);
    }, delay);
  }, { "data-key": `${key} play` });
  play.hidden = matchMedia("(prefers-reduced-motion: reduce)").matches || last < 1;
  control.append(play);
  return control;
}
