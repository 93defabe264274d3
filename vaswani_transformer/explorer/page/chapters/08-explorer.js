import { colour, headColour } from "../lib/colours.js";
import { attentionPicker, button, checkbox, slider } from "../lib/controls.js";
import { el, number, percent, prose, shown } from "../lib/dom.js";
import { figure } from "../lib/figure.js";
import { ATTENTIONS, isSameHead, longHeadName, maskOf, mostTellingHead, roleOf, strongestLink, weightsOf } from "../lib/heads.js";
import { links } from "../lib/links.js";
import { roving } from "../lib/roving.js";
import { thumbnail } from "../lib/thumbnails.js";

export default { id: "explorer", number: 8, title: "The attention explorer", paper: "section 4 and Figures 3 to 5", render };

const TEXT = String.raw`
<p>The paper ends with three figures of attention: a verb that attends to the distant words that complete it, a pronoun that attends to the
  noun it refers to, and heads that follow the structure of a sentence. They come from the fifth of six encoder layers of a model trained
  on millions of sentence pairs. The buttons below show the same phenomena in the model on this page. Each opens a sentence at the head
  where the effect is strongest, which does not mean that it is strong.</p>
<p>Point at a word, or move through the words with the arrow keys, to see where it looks. A temperature above 1 flattens the weights; a
  temperature below 1 sharpens them. Read such figures with care. A weight says how much of a token's <em>value</em> is mixed in, and
  above the first layer this value already contains much of the token's neighbours. Attention shows where a head looks, not why the
  model writes what it writes.</p>`;

const OVERVIEW = String.raw`
<p>This figure shows all attention weights of the model. Diagonals are heads that attend by position; vertical stripes are tokens that
  every query attends to; irregular patterns depend on the words. Choose a head to open it above.</p>`;

const FIGURES = { "long-distance": "Figure 3: a long distance", anaphora: "Figure 4: a pronoun", structure: "Figure 5: structure" };

function render(root, state) {
  root.append(prose(TEXT), el("h3", {}, "The weights as lines"));
  const settings = { isAll: false, temperature: 1, pending: null, remark: null };
  state.on("run", () => {
    settings.remark = null;
    if (settings.pending && state.run.request.text === settings.pending.text) openExample(state, settings);
    settings.pending = null;
  });
  const main = figure(root, state, {
    on: ["run", "select"],
    wide: true,
    draw: (body) => drawExplorer(body, state, settings, () => main.redraw()),
    title: () => titleOf(state.selection, settings) + (settings.temperature === 1 ? "" : `, temperature ${number(settings.temperature)}`),
    caption:
      "Left: the tokens that look. Right: the tokens that they look at. A thicker and stronger line means more weight. If all heads " +
      "are shown, each has its own colour.",
  });
  root.append(el("h3", {}, "All layers and heads"), prose(OVERVIEW));
  figure(root, state, {
    on: ["run", "select"],
    wide: true,
    draw: (body) => drawOverview(body, state),
    caption:
      "Rows are layers, columns are heads; within a picture rows are queries and columns are keys. The strongest colour is " +
      "the largest weight of the head.",
  });
}

// The paper's figures --------------------------------------------------------------------------------------------------

function exampleButtons(state, settings, redraw) {
  const open = (example) => {
    settings.pending = example;
    if (state.run.request.text === example.text) {
      openExample(state, settings);
      settings.pending = null;
      redraw();
      return;
    }
    document.getElementById("text").value = example.text; // as if the reader had typed it
    document.getElementById("sentence").requestSubmit();
  };
  return el(
    "div",
    { class: "controls examples", role: "group", "aria-label": "The paper's figures with this model" },
    state.model.examples.map((example) =>
      button(FIGURES[example.id] ?? example.id, () => open(example), {
        "data-example": example.id,
        "data-key": `example ${example.id}`,
        title: example.about,
      }),
    ),
  );
}

/** Opens the head that shows the phenomenon of an example best. */
function openExample(state, settings) {
  const { pending: example } = settings;
  const link = example.words ? strongestLink(state, example.words) : null;
  const best = link ?? mostTellingHead(state);
  settings.isAll = false;
  settings.temperature = 1;
  if (!best) return;
  settings.remark = { place: best.place, text: link ? linkRemark(state, link) : headRemark(state, best) };
  state.select({ ...best.place, token: link ? link.row : null });
}

const headsOf = (state) => state.size("encoder").layers * state.size("encoder").heads;

function linkRemark(state, { row, column, weight }) {
  const { tokens } = state.run.source;
  const even = 1 / tokens.length;
  const pair = `from “${shown(tokens[row])}” to “${shown(tokens[column])}”`;
  if (weight < 2 * even)
    return (
      `None of the encoder's ${headsOf(state)} heads has a weight above ${percent(weight)} ${pair}; equal weights would be ` +
      `${percent(even)}. This model does not show the effect here.`
    );
  const share = `${percent(weight)}; equal weights would be ${percent(even)}`;
  return `Of the encoder's ${headsOf(state)} heads, this one has the largest weight ${pair}: ${share}.`;
}

function headRemark(state, { row, column, link }) {
  const { tokens } = state.run.source;
  return (
    `Of the encoder's ${headsOf(state)} heads, this one says most about pairs of words that are not adjacent; ` +
    `the clearest pair is “${shown(tokens[row])}” to “${shown(tokens[column])}” (${percent(link)}).`
  );
}

// The explorer ---------------------------------------------------------------------------------------------------------

function drawExplorer(body, state, settings, redraw) {
  const [plot, about] = [el("div", { class: "plot" }), el("div", {})];
  const readout = el("p", { class: "looks", "aria-live": "polite", id: "explorer-looks" });
  const drawPlot = () => showLinks(state, settings, plot, readout, about);
  body.append(
    exampleButtons(state, settings, redraw),
    attentionPicker(state, { heads: !settings.isAll }),
    el("div", { class: "controls" }, allHeads(settings, redraw), temperature(settings, drawPlot)),
    el(
      "div",
      { class: "side-by-side explorer" },
      plot,
      el("div", { class: "panel" }, about, readout, remarkOf(state, settings)),
    ),
  );
  drawPlot();
}

function allHeads(settings, redraw) {
  const onChange = (isAll) => {
    settings.isAll = isAll;
    redraw();
  };
  return checkbox({ name: "all heads", value: settings.isAll, onChange });
}

/** A slider that redraws only the plot; it would lose the pointer if it were redrawn itself. */
function temperature(settings, drawPlot) {
  const onChange = (value) => {
    settings.temperature = value;
    drawPlot();
  };
  return slider({ name: "temperature", key: "explorer temperature", min: 0.1, max: 4, step: 0.1, value: settings.temperature, onChange });
}

/** The remark on the head that an example has opened, while that head is shown. */
function remarkOf({ selection }, { remark }) {
  if (!remark || !isSameHead(remark.place, selection)) return null;
  return el("p", { class: "notice", id: "explorer-remark", "aria-live": "polite" }, remark.text);
}

const HINT = "Point at a word to see where it looks; click to keep it selected.";
const COLUMNS = { encoder: ["source", "source"], self_attn: ["translation", "translation"], cross_attn: ["translation", "source"] };

function showLinks(state, settings, plot, readout, about) {
  const place = state.selection;
  const { rows, columns } = state.tokens();
  const heads = headsShown(state, settings);
  const selected = place.token !== null && place.token < rows.length ? place.token : null;
  const [rowName, columnName] = place.stack === "encoder" ? COLUMNS.encoder : COLUMNS[place.kind];
  const onSelect = (token) => state.select({ token: token === selected ? null : token });
  const onShow = (row) => (readout.textContent = row === null ? HINT : looks(row, rows, columns, heads));
  const label = `${titleOf(place, settings)}: attention weights as lines`;
  plot.replaceChildren();
  links(plot, { rows, columns, rowName, columnName, heads, selected, label, onSelect, onShow });
  about.replaceChildren(el("h4", {}, titleOf(place, settings)), settings.isAll ? legend(heads) : measures(state, place));
}

/** The chosen head, in the colour of queries, or all heads of its layer, each in its own: [{name, colour, weights}]. */
function headsShown(state, { isAll, temperature }) {
  const place = state.selection;
  const chosen = isAll ? Array.from({ length: state.size(place.stack).heads }, (_, head) => head) : [place.head];
  const weights = (head) => weightsOf(state, { ...place, head }, temperature);
  return chosen.map((head) => ({ name: `head ${head + 1}`, colour: isAll ? headColour(head) : colour("query"), weights: weights(head) }));
}

const titleOf = (place, { isAll }) =>
  isAll ? longHeadName({ ...place, head: 0 }).replace(/, head 1$/, ", all heads") : longHeadName(place);

const legend = (heads) =>
  el(
    "p",
    { class: "note legend" },
    heads.map(({ name, colour }) => {
      const swatch = el("span", { class: "swatch" });
      swatch.style.background = colour;
      return el("span", {}, swatch, name);
    }),
  );

function measures(state, place) {
  const { label, measures: values } = roleOf(state.run, place);
  const name = label ? `“${label}”; entropy` : "Entropy";
  return el("p", { class: "note" }, `${name} ${number(values.entropy)} bits, mean distance ${number(values.reach)} tokens.`);
}

/** The tokens that a token attends to, in a sentence. */
function looks(row, rows, columns, heads) {
  const mean = columns.map((_, c) => heads.reduce((sum, { weights }) => sum + weights.at(row, c), 0) / heads.length);
  const order = mean
    .map((weight, c) => ({ weight, c }))
    .sort((a, b) => b.weight - a.weight)
    .slice(0, 3);
  const parts = order
    .filter(({ weight }) => weight >= 0.005)
    .map(({ weight, c }) => `“${shown(columns[c])}” (${percent(weight)})`)
    .join(", ");
  return `“${shown(rows[row])}” looks at ${parts}${heads.length > 1 ? ", on average over the heads" : ""}.`;
}

// All layers and heads -------------------------------------------------------------------------------------------------

function drawOverview(body, state) {
  const grids = el(
    "div",
    { class: "overviews" },
    ATTENTIONS.map((attention) => overview(state, attention)),
  );
  grids.style.setProperty("--heads", Math.max(state.size("encoder").heads, state.size("decoder").heads));
  body.append(grids);
}

function overview(state, { stack, kind, name }) {
  const { layers, heads } = state.size(stack);
  const { selection } = state;
  const cells = [];
  const grid = el("div", { class: "overview", role: "group", "aria-label": `${name}; arrow keys move, Enter opens` });
  grid.style.setProperty("--heads", heads);
  grid.append(el("span"), ...Array.from({ length: heads }, (_, head) => el("span", { class: "note" }, String(head + 1))));
  for (let layer = 0; layer < layers; layer++) {
    grid.append(el("span", { class: "note" }, String(layer + 1)));
    for (let head = 0; head < heads; head++) {
      const place = { stack, kind, layer, head };
      const isSelected = isSameHead(place, selection);
      const open = () => state.select({ ...place, token: stack === selection.stack && kind === selection.kind ? selection.token : null });
      const weights = weightsOf(state, place);
      const cell = el(
        "button",
        {
          type: "button",
          click: open,
          class: "cell",
          "aria-pressed": String(isSelected),
          title: roleOf(state.run, place).label || null,
          "aria-label": `${longHeadName(place)}${roleOf(state.run, place).label ? `, ${roleOf(state.run, place).label}` : ""}`,
          "data-key": `cell ${stack} ${kind} ${layer} ${head}`,
        },
        thumbnail(weights, { masked: maskOf(state, place), largest: weights.data.reduce((a, x) => Math.max(a, x), 0) }),
      );
      cells.push(cell);
      grid.append(cell);
    }
  }
  roving(cells, {
    columns: heads,
    current: Math.max(
      0,
      cells.findIndex((cell) => cell.getAttribute("aria-pressed") === "true"),
    ),
  });
  return el("div", {}, el("h4", {}, name), el("div", { class: "scroller" }, grid));
}
