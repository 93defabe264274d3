// Chapter 5: the parameters of the model as a hierarchy of parts.
import { bars } from "../lib/charts.js";
import { button } from "../lib/controls.js";
import { count, el, percent } from "../lib/dom.js";
import { picture, set, write } from "../lib/svg.js";

const KINDS = [
  [/LayerNorm/, "norm"],
  [/attention|W\^/, "attention"],
  [/feed-forward|W_/, "feed-forward"],
  [/embedding|position|space/, "embedding"],
  [/linear/, "softmax"],
];
const kindOf = (name) => KINDS.find(([pattern]) => pattern.test(name))?.[1] ?? "";
const sumOf = (part) => (part.parts.length ? part.parts.reduce((sum, child) => sum + sumOf(child), 0) : part.count);

/** The name of a part on the page, where layers are counted from 1. */
const nameOf = (part, siblings) =>
  /^layer \d+$/.test(part.name) ? `layer ${siblings.filter(({ name }) => /^layer \d+$/.test(name)).indexOf(part) + 1}` : part.name;

export function drawParameters(body, state, settings, change) {
  const { parameters } = state.model;
  const sum = sumOf(parameters);
  const [part, names] = partAt(parameters, settings.part);
  body.append(trail(part, names, parameters, settings, change), icicle(body, parameters, settings, change));
  const items = part.parts.map((child) => ({
    name: nameOf(child, part.parts),
    value: child.count,
    text: count(child.count),
    colour: "accent",
  }));
  const onSelect = (i) => part.parts[i].parts.length && change({ part: [...settings.part, i] });
  if (items.length) bars(body, items, { label: "parameters", largest: part.count, onSelect });
  const notes = part.parts.filter(({ note }) => note).map(({ name, note }) => el("p", { class: "note" }, `${name}: ${note}.`));
  const facts = { class: "note", id: "encoder-parameters", "data-sum": sum, "data-count": parameters.count };
  body.append(...notes, el("p", facts, `Sum of the smallest parts: ${count(sum)}. Parameters of the model: ${count(parameters.count)}.`));
}

/** The part at a list of indices, and the names on the path to it. */
function partAt(parameters, indices) {
  let [part, names] = [parameters, ["the whole model"]];
  for (const index of indices) {
    names = [...names, nameOf(part.parts[index], part.parts)];
    part = part.parts[index];
  }
  return [part, names];
}

/** The path to a part as buttons that lead back, and its count. */
function trail(part, names, parameters, settings, change) {
  const back = (depth) => change({ part: settings.part.slice(0, depth) });
  const steps = names.map((name, depth) =>
    depth === names.length - 1 ? el("strong", {}, name) : button(name, () => back(depth), { class: "token", "data-key": `part ${depth}` }),
  );
  const share = part === parameters ? "" : `, ${percent(part.count / parameters.count)} of the model`;
  const children = steps.flatMap((step, i) => (i ? [" › ", step] : [step]));
  return el("p", { class: "trail", "aria-live": "polite" }, children, `: ${count(part.count)} parameters${share}`);
}

const ROW = 34;
const LABEL = "The parts of the model, each as wide as its number of parameters; the list below has the numbers";

/** The hierarchy of parts, each as wide as its number of parameters. */
function icicle(body, parameters, settings, change) {
  const { d3 } = window;
  const tree = d3.hierarchy(parameters, (part) => part.parts).sum((part) => (part.parts.length ? 0 : part.count));
  const [width, height] = [Math.max(240, body.clientWidth || 600), (tree.height + 1) * ROW];
  d3.partition().size([width, height]).round(true)(tree);
  const svg = picture(width, height, { class: "icicle", role: "img", "aria-label": LABEL });
  const indices = (node) => (node.parent ? [...indices(node.parent), node.parent.data.parts.indexOf(node.data)] : []);
  for (const node of tree.descendants().filter(({ x0, x1 }) => x1 > x0)) {
    const path = indices(node);
    const isOpen = path.join() === settings.part.join();
    drawPart(svg, node, isOpen).on("click", () => change({ part: node.children ? path : path.slice(0, -1) }));
  }
  return svg.node();
}

function drawPart(svg, { data, parent, value, x0, x1, y0 }, isOpen) {
  const name = parent ? nameOf(data, parent.data.parts) : "model";
  const group = svg.append("g").attr("class", `${kindOf(name)} ${isOpen ? "open" : ""}`);
  group.append("rect").call(set, { x: x0 + 0.5, y: y0 + 0.5, width: Math.max(0.5, x1 - x0 - 1), height: ROW - 2, rx: 3 });
  group.append("title").text(`${name}: ${count(value)}`);
  const room = Math.floor((x1 - x0 - 8) / 6.4); // letters that fit
  const brief = name.replace(/ of all heads|LayerNorm of |layer /, "");
  const text = [name, brief].find(({ length }) => length <= room);
  if (text) write(group, text, { x: (x0 + x1) / 2, y: y0 + ROW / 2 + 3 });
  return group;
}
