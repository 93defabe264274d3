// Chapter 5: LayerNorm applied to one token, and the lengths of vectors.
import { el, number, shown } from "../lib/dom.js";
import { picture, set } from "../lib/svg.js";
import { norm } from "../lib/tensors.js";

export const mean = (xs) => xs.reduce((a, x) => a + x, 0) / xs.length;

/** The length of each row of a tensor [T, D]. */
export const lengths = (tensor) => Array.from({ length: tensor.shape[0] }, (_, t) => norm(tensor.part(t).data));

const momentsOf = (row) => {
  const mu = mean([...row]);
  return { mu, sigma: Math.sqrt(mean([...row].map((x) => (x - mu) ** 2))) };
};

/** A token's vector before the norm, standardised, and (if recorded) after gain and bias. */
export function drawNorm(body, state, stop, { token }, tokens) {
  const isPre = stop.kind === "output";
  const before = state.tensor(`${stop.place}.${isPre ? "input" : "sum"}`).part(token);
  const { mu, sigma } = momentsOf(before.data);
  const panels = [
    ["before", before],
    ["standardised", before.map((x) => (x - mu) / (sigma || 1))],
  ];
  if (!isPre) panels.push(["after gain and bias", state.tensor(stop.tensor).part(token)]);
  body.append(el("h4", {}, `LayerNorm on “${shown(tokens[token])}”${isPre ? ", before the sub-layer" : ""}`));
  const places = panels.map(() => el("div"));
  const row = el("div", { class: "side-by-side norm-panels" }, places);
  body.append(row);
  panels.forEach(([name, tensor], i) => normPanel(places[i], name, tensor));
}

const [LEFT, HEIGHT] = [30, 120];

/** A vector's components as bars, their mean as a line, and one standard deviation around it as a band. */
function normPanel(root, name, tensor) {
  const { mu, sigma } = momentsOf(tensor.data);
  const width = Math.max(200, root.clientWidth || 300);
  const moments = `${name}: mean ${number(Math.abs(mu) < 1e-6 ? 0 : mu)}, standard deviation ${number(sigma)}`;
  const { d3 } = window;
  const largest = tensor.data.reduce((a, x) => Math.max(a, Math.abs(x)), 1e-9);
  const up = d3.scaleLinear([-largest, largest], [HEIGHT - 4, 4]);
  const across = d3.scaleLinear([0, tensor.shape[0]], [LEFT, width]);
  const svg = picture(width, HEIGHT, { width, height: HEIGHT, role: "img", "aria-label": moments });
  const [top, bottom] = [up(mu + sigma), up(mu - sigma)];
  svg.append("rect").call(set, { x: LEFT, width: width - LEFT, y: top, height: bottom - top, class: "band" });
  const bars = [...tensor.data].map((x, i) => `M${across(i + 0.5).toFixed(1)} ${up(0)}V${up(x).toFixed(1)}`);
  svg.append("path").call(set, { class: "components", d: bars.join("") });
  svg.append("line").call(set, { x1: LEFT, x2: width, y1: up(mu), y2: up(mu), class: "mean" });
  svg
    .append("g")
    .attr("transform", `translate(${LEFT - 2},0)`)
    .call(d3.axisLeft(up).ticks(4).tickSizeOuter(0));
  root.append(el("p", { class: "note" }, moments), svg.node());
  Object.assign(root, { tensor });
  Object.assign(root.dataset, { mean: mu, deviation: sigma });
}
