// Attention weights as lines between two columns of words, as in the paper's Figures 3 to 5.
import { colour } from "./colours.js";
import { percent, shown } from "./dom.js";
import { roving } from "./roving.js";
import { set } from "./svg.js";

const [ROW, TOP, SIZE, CHARACTER] = [23, 26, 13, 7.4];
const FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
const MAX_LETTERS = 17; // of a word
const MIN_WEIGHT_OF_WORD = 0.01; // of a line when a single word's lines are shown
const short = (token) => (shown(token).length > MAX_LETTERS ? `${shown(token).slice(0, MAX_LETTERS - 1)}…` : shown(token));

/**
 * Adds the figure to `root` and returns its SVG element; `svg.show({row})` and `svg.show({column})` show one word's lines.
 *
 * @param {object} options
 *   rows, columns: the tokens of the queries and of the keys; rowName, columnName: headings
 *   heads: [{name, colour, weights: tensor [R, C]}], one or several
 *   selected: the row whose lines stay, or null; onSelect(row); onShow(row or null)
 *   minWeight: smaller weights have no line
 */
export function links(root, options) {
  const figure = new Links(root, { selected: null, minWeight: 0.03, ...options });
  const element = figure.svg.node();
  Object.assign(element, { show: (words) => figure.show(words), tensor: options.heads[0].weights, heads: options.heads });
  root.append(element);
  return element;
}

class Links {
  constructor(root, options) {
    Object.assign(this, options, { ink: colour("ink"), soft: colour("soft"), accent: colour("accent") });
    this.layOut(root);
    const { width, height, label } = this;
    this.svg = window.d3.create("svg");
    this.svg.call(set, { viewBox: `0 0 ${width} ${height}`, width, height, class: "links", role: "group", "aria-label": label });
    this.drawHeadings();
    this.lines = this.svg.append("g").call(set, { fill: "none", "stroke-linecap": "round" });
    this.squares = this.svg.append("g");
    this.left = this.rows.map((token, i) => this.drawWord(token, i, true));
    this.right = this.columns.map((token, i) => this.drawWord(token, i, false));
    this.listen();
    this.rest();
  }

  /** Computes the layout in pixels. */
  layOut(root) {
    const { rows, columns, heads } = this;
    this.width = Math.max(250, Math.min(620, root.clientWidth || 560));
    const room = (tokens) => Math.min(this.width * 0.34, Math.max(...tokens.map((token) => short(token).length)) * CHARACTER + 44);
    this.cell = heads.length > 1 ? Math.min(8, 80 / heads.length) : 0; // width of the squares that show the weights of several heads
    this.from = room(rows);
    this.words = this.width - room(columns);
    this.to = this.words - 8 - this.cell * heads.length;
    this.height = TOP + Math.max(rows.length, columns.length) * ROW + 8;
  }

  y = (i) => TOP + (i + 0.5) * ROW;

  /** The vertical offset of a head's lines, so that heads do not hide each other. */
  apart = (head) => (head - (this.heads.length - 1) / 2) * Math.min(2.5, 14 / this.heads.length);

  write(parent, x, y, anchor, text = "", fill = this.ink, size = SIZE) {
    const style = `fill:${fill};font-family:${FONT};font-size:${size}px`;
    return parent.append("text").call(set, { x, y, "text-anchor": anchor, "dominant-baseline": "central", style }).text(text);
  }

  /** The names of the columns, and the colours of several heads. */
  drawHeadings() {
    const { heads, from, to, svg } = this;
    this.write(svg, from - 8, 10, "end", this.rowName, this.soft);
    this.write(svg, this.words + 8, 10, "start", this.columnName, this.soft);
    const step = Math.min(18, (to - from) / heads.length);
    if (heads.length === 1 || step < 9) return; // too narrow for readable numbers
    heads.forEach(({ name, colour: fill }, i) => {
      const x = (from + to) / 2 + (i - (heads.length - 1) / 2) * step;
      svg
        .append("rect")
        .call(set, { x: x - step / 2 + 1, y: 3, width: step - 2, height: 14, rx: 3, fill })
        .append("title")
        .text(name);
      this.write(svg, x, 10, "middle", String(i + 1), colour("raised"), Math.min(11, step * 0.75)).attr("font-weight", 700);
    });
  }

  /** A word and its share: left of a word on the left, right of a word on the right. */
  drawWord(token, i, isLeft) {
    const group = this.svg.append("g");
    const place = isLeft ? { x: 0, width: this.from } : { x: this.words, width: this.width - this.words };
    const back = group
      .append("rect")
      .call(set, { ...place, y: this.y(i) - ROW / 2, height: ROW, rx: 4, fill: this.ink, "fill-opacity": 0 });
    const text = this.write(group, isLeft ? this.from - 8 : this.words + 8, this.y(i), isLeft ? "end" : "start");
    const [first, second] = [text.append("tspan"), text.append("tspan").attr("dx", 6)];
    const [word, share] = isLeft ? [second, first] : [first, second];
    word.text(short(token)).attr("font-style", token.kind === "special" ? "italic" : null);
    share.attr("style", `fill:${this.soft};font-size:11px`);
    group.append("title").text(shown(token));
    return { group, back, word, share };
  }

  listen() {
    this.left.forEach(({ group }, row) => {
      const names = { role: "button", "aria-pressed": String(this.selected === row), "aria-label": shown(this.rows[row]) };
      group.call(set, { ...names, "data-key": `link ${row}`, style: "cursor:pointer" });
      const choose = (event) => {
        if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        this.onSelect?.(row);
      };
      group
        .on("click", choose)
        .on("keydown.select", choose)
        .on("blur", () => this.rest());
      group.on("pointerenter", () => this.show({ row })).on("focus", () => this.show({ row }));
    });
    this.right.forEach(({ group }, column) => group.on("pointerenter", () => this.show({ column })));
    this.svg.on("pointerleave", () => this.rest());
    const words = this.left.map(({ group }) => group.node());
    roving(words, { current: this.selected ?? 0 });
  }

  rest() {
    this.show({ row: this.selected });
  }

  /** Draws the lines of one row, of one column, or all lines. */
  show({ row = null, column = null } = {}) {
    const pairs = this.pairs(row, column);
    const strongest = pairs.at(-1)?.weight ?? 1;
    this.drawLines(pairs, strongest);
    this.drawSquares(row, strongest);
    const { weights } = this.heads[0];
    this.emphasise(this.left, row, column === null ? null : this.rows.map((_, r) => weights.at(r, column)));
    this.emphasise(this.right, column, row === null ? null : this.columns.map((_, c) => weights.at(row, c)));
    this.onShow?.(row);
  }

  /** The pairs that have a line, [{row, column, weight, head}], by increasing weight. */
  pairs(row, column) {
    const minWeight = row === null && column === null ? this.minWeight : MIN_WEIGHT_OF_WORD;
    const range = (only, tokens) => (only === null ? tokens.map((_, i) => i) : [only]);
    const [rows, columns] = [range(row, this.rows), range(column, this.columns)];
    const all = this.heads.flatMap(({ weights }, head) =>
      rows.flatMap((r) => columns.map((c) => ({ row: r, column: c, weight: weights.at(r, c), head }))),
    );
    return all.filter(({ weight }) => weight >= minWeight).sort((a, b) => a.weight - b.weight);
  }

  drawLines(pairs, strongest) {
    this.lines
      .selectAll("line")
      .data(pairs)
      .join("line")
      .call(set, {
        x1: this.from,
        x2: this.to,
        y1: ({ row, head }) => this.y(row) + this.apart(head),
        y2: ({ column, head }) => this.y(column) + this.apart(head),
        stroke: ({ head }) => this.heads[head].colour,
        "stroke-width": ({ weight }) => 0.8 + 3.2 * weight,
        "stroke-opacity": ({ weight }) => 0.08 + (0.92 * weight) / strongest,
      });
  }

  /** With several heads, the weight of each head on each word as a square. */
  drawSquares(row, strongest) {
    const cells = row === null || !this.cell ? [] : this.columns.flatMap((_, column) => this.heads.map((_, head) => ({ column, head })));
    this.squares
      .selectAll("rect")
      .data(cells)
      .join("rect")
      .call(set, {
        x: ({ head }) => this.to + 4 + head * this.cell,
        y: ({ column }) => this.y(column) - ROW / 2 + 2,
        width: Math.max(1, this.cell - 1),
        height: ROW - 4,
        fill: ({ head }) => this.heads[head].colour,
        "fill-opacity": ({ column, head }) => this.heads[head].weights.at(row, column) / strongest,
      });
  }

  /** Marks the word at `at`; with one head also shows the `shares` of the words. */
  emphasise(words, at, shares) {
    const isOne = this.heads.length === 1;
    words.forEach(({ word, share, back }, i) => {
      const fill = at === i ? this.accent : at === null ? this.ink : this.soft;
      word.call(set, { "font-weight": at === i ? 700 : null, style: `fill:${fill}` });
      const weight = (isOne && shares?.[i]) || 0;
      back.call(set, { fill: this.heads[0].colour, "fill-opacity": 0.75 * weight });
      share.text(weight >= 0.02 ? percent(weight) : "");
    });
  }
}
