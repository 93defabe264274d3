// Chapter 7: the recorded curve of a small model from its first step; first-steps.json has the command.
import { lineChart } from "../lib/charts.js";
import { count, el, number } from "../lib/dom.js";

/** The record: {vocab_size, layers, d_model, pairs, points: [{step, train_loss, validation_loss, bleu}]}. */
const record = fetch(new URL("first-steps.json", import.meta.url)).then((response) => response.json());

export async function drawFirstSteps(body) {
  const place = el("div", { class: "side-by-side" }, el("div"), el("div"));
  body.append(place);
  const { vocab_size, layers, d_model, pairs, points } = await record;
  const curve = (name) => points.filter((point) => Number.isFinite(point[name])).map((point) => [point.step, point[name]]);
  const [start, last] = [Math.log(vocab_size), points.at(-1)];
  const [losses, scores] = place.children;
  losses.append(el("h4", {}, "Loss"));
  const chart = lineChart(losses, { x: "step", y: "loss", domainY: [0, start], marks: [{ x: 0, y: start, colour: "soft", text: `untrained: ${number(start)}` }], series: [
    { name: "training", colour: "a", points: [[0, start], ...curve("train_loss")] }, { name: "validation", colour: "b", points: curve("validation_loss") }] });
  chart.id = "first-steps-chart";
  scores.append(el("h4", {}, "BLEU on 200 validation sentences"));
  const bleu = curve("bleu");
  lineChart(scores, { x: "step", y: "BLEU", domainX: [0, last.step], domainY: [0, 30], series: [{ name: "BLEU", colour: "c", points: [[0, 0], ...bleu] }],
    marks: [{ x: last.step, y: bleu.at(-1)[1], colour: "c", text: number(bleu.at(-1)[1]) }] });
  body.append(el("p", { class: "note" }, `A model with ${layers} + ${layers} layers and d_model ${d_model}, on ${count(pairs)} image captions: `
    + `${count(last.step)} steps in 24 minutes on one CPU core.`));
}
