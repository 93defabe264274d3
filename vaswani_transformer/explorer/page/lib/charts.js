// Curves and bars with D3.
import { colour } from "./colours.js";
import { el, number } from "./dom.js";

const LETTERS = 15; // height of a line of text in pixels

/** A number at an axis: 500, 1.5k, 0.2. */
const shortNumber = (x) => window.d3.format(Math.abs(x) >= 1000 ? "~s" : "~g")(x);

/**
 * Adds a chart of curves to `root`, and returns its element.
 *
 * @param {object} options
 *   x, y: names of the axes; logX, logY: whether an axis is logarithmic; domainX, domainY: its range, by default that of the data
 *   series: [{name, colour: a name of style.css or a colour, points: [[x, y], ...], dashed}]; marks: [{x, y, colour, text, isBelow}]
 *   height: in pixels; read: (x) => the text of the readout at x
 */
export function lineChart(root, { x, y, series, marks = [], logX = false, logY = false, domainX, domainY, height = 240, read }) {
  const { d3 } = window;
  const width = Math.max(240, root.clientWidth || 420);
  const [right, top, bottom] = [12, 12, 38];
  const all = [...series.flatMap(({ points }) => points), ...marks.map((mark) => [mark.x, mark.y])].filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b));
  const scale = (isLog, domain, values, range) => {
    const positive = isLog ? values.filter((v) => v > 0) : values;
    return (isLog ? d3.scaleLog() : d3.scaleLinear()).domain(domain ?? d3.extent(positive)).range(range).nice();
  };
  const up = scale(logY, domainY, all.map(([, b]) => b), [height - bottom, top]);
  const left = Math.max(46, 28 + 6.8 * Math.max(...up.ticks(5).map((tick) => up.tickFormat(5, "~g")(tick).length))); // room for the longest number
  const across = scale(logX, domainX, all.map(([a]) => a), [left, width - right]);
  const paint = (name) => (/^[a-z-]+\d?$/.test(name) && colour(name)) || name;
  const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("height", height).attr("role", "img")
    .attr("aria-label", `${y} against ${x}: ${series.map(({ name }) => name).join(", ")}`);
  svg.append("g").attr("transform", `translate(0,${height - bottom})`).call(d3.axisBottom(across).ticks(6, "~s").tickFormat(logX ? across.tickFormat(6, "~s") : shortNumber).tickSizeOuter(0));
  svg.append("g").attr("transform", `translate(${left},0)`).call(d3.axisLeft(up).ticks(5, logY ? (up.domain()[1] >= 1e5 ? "~s" : "~g") : null).tickSizeOuter(0));
  svg.append("text").attr("x", (left + width - right) / 2).attr("y", height - 4).attr("text-anchor", "middle").text(x);
  const title = svg.append("text").attr("transform", `translate(11,${(height - bottom + top) / 2}) rotate(-90)`).attr("text-anchor", "middle");
  title.text(y);
  const line = d3.line(([a]) => across(a), ([, b]) => up(b)).defined(([a, b]) => Number.isFinite(a) && Number.isFinite(b) && (!logY || b > 0) && (!logX || a > 0));
  for (const { points, colour: name, dashed } of series)
    svg.append("path").attr("d", line(points)).attr("fill", "none").attr("stroke", paint(name)).attr("stroke-width", 2).attr("stroke-dasharray", dashed ? "5 4" : null);
  const heights = []; // of the texts so far; one that would cover another moves up
  for (const { x: a, y: b, colour: name, text, isBelow } of marks) {
    const isLate = across(a) > width * 0.6 && !isBelow;
    svg.append("circle").attr("cx", across(a)).attr("cy", up(b)).attr("r", 5).attr("fill", paint(name));
    if (!text) continue;
    let height = isBelow ? up(b) + 17 : Math.max(11, up(b) - 9);
    while (heights.some((other) => Math.abs(other - height) < LETTERS)) height -= 1;
    heights.push(height);
    svg.append("text").attr("x", across(a) + (isLate ? -9 : 9)).attr("y", height).attr("text-anchor", isLate ? "end" : "start").attr("class", "mark").text(text);
  }
  const legend = el("p", { class: "note legend" }, series.map(({ name, colour: c, dashed }) => {
    const swatch = el("span", { class: dashed ? "swatch dashed" : "swatch" });
    swatch.style.background = paint(c);
    return el("span", {}, swatch, `${name} `);
  }));
  const element = el("div", { class: "chart" }, svg.node(), legend);
  element.series = series;
  if (read) {
    const readout = el("p", { class: "readout", "aria-live": "polite" }, " ");
    element.append(readout);
    svg.on("pointermove", (event) => { readout.textContent = read(across.invert(d3.pointer(event)[0])); });
  }
  root.append(element);
  return element;
}

/** Adds bars with names and numbers; `items` are {name, value, colour, text}. With `onSelect(index)` they are buttons. */
export function bars(root, items, { largest = Math.max(...items.map(({ value }) => value)), label, onSelect, format = number } = {}) {
  const table = el("div", { class: "bars", role: onSelect ? "group" : "table", "aria-label": label });
  items.forEach(({ name, value, colour: c, text }, i) => {
    const bar = el("span", { class: "bar" });
    bar.style.width = `${(100 * Math.max(0, value)) / (largest || 1)}%`;
    bar.style.background = c ? colour(c) || c : "";
    const row = el(onSelect ? "button" : "div", { role: onSelect ? null : "row", class: "bar-row", type: onSelect ? "button" : null, click: onSelect ? () => onSelect(i) : null,
      "data-key": onSelect ? `${label} ${i}` : null },
    el("span", { class: "bar-name", role: onSelect ? null : "rowheader" }, name),
    el("span", { class: "bar-place", role: onSelect ? null : "cell" }, bar), el("span", { class: "bar-value", role: onSelect ? null : "cell" }, text ?? format(value)));
    table.append(row);
  });
  root.append(table);
  return table;
}
