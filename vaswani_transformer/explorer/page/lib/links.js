// Two columns of words joined by lines, as in the paper's Figures 3 to 5: how much each word looks at each other.
import { colour } from "./colours.js";
import { percent, shown } from "./dom.js";
import { roving } from "./roving.js";

const [ROW, TOP, SIZE, CHARACTER] = [23, 26, 13, 7.4];
const FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
const LONGEST = 17; // letters of a word that are shown

/**
 * Adds the figure to `root`, and returns its SVG element; `svg.show({row})` or `svg.show({column})` brings out one word's lines.
 *
 * @param {object} options
 *   rows, columns: the tokens that look, and those that are looked at; rowName, columnName: the columns' headings
 *   heads: [{name, colour, weights: tensor [R, C]}], one or several
 *   selected: the row whose lines stay, or null; onSelect(row), onShow(row or null)
 *   least: weights below it have no line
 */
export function links(root, { rows, columns, rowName, columnName, heads, selected = null, onSelect, onShow, least = 0.03, label }) {
  const { d3 } = window;
  const [ink, soft, accent] = [colour("ink"), colour("soft"), colour("accent")];
  const width = Math.max(250, Math.min(620, root.clientWidth || 560));
  const short = (token) => (shown(token).length > LONGEST ? `${shown(token).slice(0, LONGEST - 1)}…` : shown(token));
  const wordWidth = (tokens) => Math.min(width * 0.34, Math.max(...tokens.map((token) => short(token).length)) * CHARACTER + 44);
  const cell = heads.length > 1 ? Math.min(8, 80 / heads.length) : 0; // small squares say which head looks where
  const [left, right] = [wordWidth(rows), width - wordWidth(columns)];
  const end = right - 8 - cell * heads.length;
  const height = TOP + Math.max(rows.length, columns.length) * ROW + 8;
  const y = (i) => TOP + (i + 0.5) * ROW;
  const apart = (head) => (head - (heads.length - 1) / 2) * Math.min(2.5, 14 / heads.length); // so that heads do not hide each other
  const largest = Math.max(1e-9, ...heads.map(({ weights }) => weights.data.reduce((a, x) => Math.max(a, x), 0)));

  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("height", height).attr("class", "links")
    .attr("role", "group").attr("aria-label", label);
  const write = (parent, x, at, text, anchor, fill = ink) => parent.append("text").attr("x", x).attr("y", at).attr("text-anchor", anchor)
    .attr("dominant-baseline", "central").attr("style", `fill:${fill};font-family:${FONT};font-size:${SIZE}px`).text(text);
  write(svg, left - 8, 10, rowName, "end", soft);
  write(svg, right + 8, 10, columnName, "start", soft);
  const step = Math.min(18, (end - left) / heads.length);
  if (heads.length > 1) heads.forEach(({ name, colour: c }, i) => {
    const x = (left + end) / 2 + (i - (heads.length - 1) / 2) * step;
    svg.append("rect").attr("x", x - step / 2 + 1).attr("y", 3).attr("width", step - 2).attr("height", 14).attr("rx", 3).attr("fill", c).append("title").text(name);
    write(svg, x, 10, name.replace(/\D/g, ""), "middle", colour("raised")).style("font-size", `${Math.min(11, step * 0.75)}px`).style("font-weight", 700);
  });
  const lines = svg.append("g").attr("fill", "none").attr("stroke-linecap", "round");
  const squares = svg.append("g");
  const words = (tokens, x, anchor) => tokens.map((token, i) => {
    const group = svg.append("g");
    const [from, size] = anchor === "end" ? [0, left] : [right, width - right];
    group.append("rect").attr("x", from).attr("y", y(i) - ROW / 2).attr("width", size).attr("height", ROW).attr("fill", ink).attr("fill-opacity", 0).attr("rx", 4);
    const text = write(group, x, y(i), "", anchor);
    const [share, word, other] = anchor === "end" ? [text.append("tspan"), text.append("tspan"), null] : [null, text.append("tspan"), text.append("tspan")];
    word.text(short(token)).attr("font-style", token.kind === "special" ? "italic" : null);
    const note = (share ?? other).attr("style", `fill:${soft};font-size:11px`);
    (anchor === "end" ? word : note).attr("dx", 6);
    group.append("title").text(shown(token));
    return { group, word, note, back: group.select("rect") };
  });
  const leftWords = words(rows, left - 8, "end");
  const rightWords = words(columns, right + 8, "start");

  /** All pairs that have a line now: [{r, c, weight, head}]. */
  const pairs = ({ row = null, column = null }) => {
    const lowest = row === null && column === null ? least : Math.min(least, 0.01);
    const found = [];
    heads.forEach(({ weights }, head) => {
      for (let r = row ?? 0; r <= (row ?? rows.length - 1); r++)
        for (let c = column ?? 0; c <= (column ?? columns.length - 1); c++) {
          const weight = weights.data[r * columns.length + c];
          if (weight >= lowest) found.push({ r, c, weight, head });
        }
    });
    return found.sort((a, b) => a.weight - b.weight);
  };
  const emphasise = (list, at, notes) => list.forEach(({ word, note, back }, i) => {
    const isDim = at !== null && at !== i;
    word.attr("font-weight", at === i ? 700 : null).attr("style", at === i ? `fill:${accent}` : isDim ? `fill:${soft}` : null);
    const weight = notes?.[i] ?? 0;
    back.attr("fill", heads.length === 1 ? heads[0].colour : ink).attr("fill-opacity", heads.length === 1 && notes ? 0.75 * weight : 0);
    note.text(notes && heads.length === 1 && weight >= 0.02 ? percent(weight) : "");
  });
  const show = ({ row = null, column = null } = {}) => {
    lines.selectAll("line").data(pairs({ row, column })).join("line").attr("x1", left).attr("x2", end)
      .attr("y1", ({ r, head }) => y(r) + apart(head)).attr("y2", ({ c, head }) => y(c) + apart(head)).attr("stroke", ({ head }) => heads[head].colour)
      .attr("stroke-width", ({ weight }) => 0.8 + 3.2 * weight).attr("stroke-opacity", ({ weight }) => Math.min(1, 0.08 + 0.92 * (weight / largest)));
    const cells = row === null || !cell ? [] : columns.flatMap((_, c) => heads.map(({ weights }, head) => ({ c, head, weight: weights.at(row, c) })));
    squares.selectAll("rect").data(cells).join("rect").attr("x", ({ head }) => end + 4 + head * cell).attr("y", ({ c }) => y(c) - ROW / 2 + 2)
      .attr("width", Math.max(1, cell - 1)).attr("height", ROW - 4).attr("fill", ({ head }) => heads[head].colour).attr("fill-opacity", ({ weight }) => Math.min(1, weight / largest));
    const one = heads[0].weights;
    emphasise(leftWords, row, column === null ? null : rows.map((_, r) => one.at(r, column)));
    emphasise(rightWords, column, row === null ? null : columns.map((_, c) => one.at(row, c)));
    onShow?.(row);
  };
  const rest = () => show({ row: selected });
  leftWords.forEach(({ group }, r) => group.attr("role", "button").attr("aria-pressed", String(selected === r)).attr("aria-label", shown(rows[r]))
    .attr("data-key", `link ${r}`).attr("style", "cursor:pointer").on("pointerenter", () => show({ row: r })).on("focus", () => show({ row: r }))
    .on("blur", rest).on("click", () => onSelect?.(r)).on("keydown.select", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onSelect?.(r);
    }));
  rightWords.forEach(({ group }, c) => group.on("pointerenter", () => show({ column: c })));
  svg.on("pointerleave", rest);
  roving(leftWords.map(({ group }) => group.node()), { current: selected ?? 0 });
  rest();
  const element = svg.node();
  Object.assign(element, { show, tensor: heads[0].weights, heads });
  root.append(element);
  return element;
}
