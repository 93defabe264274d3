// A tensor [rows, columns] as coloured cells, with a readout for pointer, keyboard and screen reader.
import { colour, signedScale, weightScale } from "./colours.js";
import { el, number, shown } from "./dom.js";

const LABEL = 12; // font size of a label in pixels
const CHARACTER = 6.6; // approximate width of a letter in pixels

/**
 * Adds a heat map of `tensor` [R, C] to `root` and returns its element, which has the tensor as a property.
 *
 * @param {object} options
 *   rows, columns: tokens as labels, or null
 *   label: a description, also for screen readers
 *   scale: "weight" (0 to `largest`, by default 1) or "signed" (-largest to largest, by default the largest number)
 *   masked: (row, column) => whether the cell is masked
 *   marked: (row, column) => whether the cell has the second colour
 *   selected: a row to mark; onSelect(row, column): called on click or Enter; onHover(row, column): the cell or nulls
 *   read: (row, column, value) => the text of the readout; rowName, columnName: names of a row and a column
 *   size: the maximum size of a cell in pixels
 */
export function heatmap(root, tensor, options) {
  const { rows = null, columns = null, label, scale = "weight", masked = () => false, marked = () => false, selected = null, size = 26 } = options;
  const { rowName = "row", columnName = "column", onSelect, onHover } = options;
  const [R, C] = tensor.shape;
  const largest = options.largest ?? (scale === "weight" ? 1 : tensor.data.reduce((a, x) => Math.max(a, Math.abs(x)), 0));
  const paint = scale === "weight" ? weightScale(largest) : signedScale(largest);
  const paintMarked = weightScale(largest, "scale-low");
  const left = rows ? labelWidth(rows) : 0;
  const top = columns ? labelWidth(columns) * 0.8 + 6 : 0;
  const available = Math.max(120, (root.clientWidth || 600) - left - 4);
  const width = Math.max(columns ? 12 : 1, Math.min(size, available / C));
  const height = rows ? Math.max(14, Math.min(size, Math.max(width, 16))) : Math.max(2, Math.min(size, width));
  const gap = Math.min(width, height) > 8 ? 1 : 0;

  const ratio = window.devicePixelRatio || 1;
  const canvas = el("canvas", { width: Math.ceil(C * width * ratio), height: Math.ceil(R * height * ratio) });
  Object.assign(canvas.style, { width: `${C * width}px`, height: `${R * height}px`, left: `${left}px`, top: `${top}px` });
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const map = el("div", { class: "map", tabindex: 0, role: "img", "data-key": `map ${label}`,
    "aria-label": `${label}. ${R} by ${C} numbers; use the arrow keys to read them.` }, canvas);
  Object.assign(map.style, { width: `${left + C * width}px`, height: `${top + R * height}px` });
  const element = el("div", { class: "heatmap" }, el("div", { class: "scroller" }, map), readout);
  element.tensor = tensor;
  root.append(element);
  readout.textContent = options.hint ?? " ";

  const bleed = gap ? 0 : 0.5; // cells without a gap overlap, or the background would show through half-covered pixels
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  for (let r = 0; r < R; r++)
    for (let c = 0; c < C; c++) {
      const [x, y, w, h] = [c * width, r * height, width - gap, height - gap];
      if (marked(r, c) && !masked(r, c)) {
        context.fillStyle = paintMarked(tensor.data[r * C + c]);
        context.fillRect(x, y, w || width, h || height);
        continue;
      }
      if (masked(r, c)) {
        context.fillStyle = colour("masked");
        context.fillRect(x, y, w, h);
        continue;
      }
      context.fillStyle = paint(tensor.data[r * C + c]);
      context.fillRect(x, y, w + bleed, h + bleed);
    }

  const addLabel = (text, x, y, className, turned) => {
    const span = el("span", { class: `label ${className}` }, text);
    Object.assign(span.style, { left: `${x}px`, top: `${y}px`, transform: turned ? "rotate(-52deg)" : null });
    map.append(span);
    return span;
  };
  const rowLabels = rows?.map((token, r) => addLabel(shown(token), 0, r * height + top + height / 2 - LABEL * 0.72, "row", false));
  rowLabels?.forEach((span) => (span.style.width = `${left - 6}px`));
  columns?.forEach((token, c) => addLabel(shown(token), left + c * width + width / 2 - 2, top - LABEL - 2, "column", true));
  if (selected !== null && rowLabels?.[selected]) rowLabels[selected].classList.add("selected");

  const cursor = el("span", { class: "cursor", hidden: true });
  Object.assign(cursor.style, { width: `${width}px`, height: `${height}px` });
  map.append(cursor);
  let at = null;
  const show = (r, c) => {
    at = [r, c];
    Object.assign(cursor.style, { left: `${left + c * width}px`, top: `${top + r * height}px` });
    cursor.hidden = false;
    const value = tensor.data[r * C + c];
    const names = `${rowName} ${r}${rows ? ` “${shown(rows[r])}”` : ""}, ${columnName} ${c}${columns ? ` “${shown(columns[c])}”` : ""}`;
    readout.textContent = options.read?.(r, c, value) ?? `${names}: ${masked(r, c) ? "masked" : number(value)}`;
    onHover?.(r, c);
  };
  const cell = (event) => {
    const box = canvas.getBoundingClientRect();
    return [Math.floor((event.clientY - box.top) / height), Math.floor((event.clientX - box.left) / width)];
  };
  const isInside = ([r, c]) => r >= 0 && r < R && c >= 0 && c < C;
  map.addEventListener("pointermove", (event) => isInside(cell(event)) && show(...cell(event)));
  map.addEventListener("pointerleave", () => {
    cursor.hidden = true;
    onHover?.(null, null);
  });
  map.addEventListener("click", (event) => isInside(cell(event)) && onSelect?.(...cell(event)));
  map.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter" && at) onSelect?.(...at);
    if (!step) return;
    event.preventDefault();
    const next = at ? [at[0] + step[0], at[1] + step[1]] : [0, 0];
    if (isInside(next)) show(...next);
  });
  return element;
}

const labelWidth = (tokens) => Math.min(110, Math.max(...tokens.map((token) => shown(token).length)) * CHARACTER + 17); // with room for bold letters
