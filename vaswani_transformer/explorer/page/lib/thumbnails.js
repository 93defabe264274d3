// A tensor [rows, columns] as a small picture with a pixel per number, which style.css enlarges.
import { colour, weightScale } from "./colours.js";
import { el } from "./dom.js";

/** A canvas with colours from 0 to `largest`; it has the tensor as a property. */
export function thumbnail(tensor, { masked = () => false, largest = 1 } = {}) {
  const [rows, columns] = tensor.shape;
  const canvas = el("canvas", { width: columns, height: rows, class: "thumbnail", "aria-hidden": "true" });
  canvas.style.aspectRatio = String(Math.max(0.7, Math.min(1.4, columns / rows)));
  const context = canvas.getContext("2d");
  const paint = weightScale(largest);
  const hidden = colour("masked");
  for (let r = 0; r < rows; r++)
    for (let c = 0; c < columns; c++) {
      context.fillStyle = masked(r, c) ? hidden : paint(tensor.data[r * columns + c]);
      context.fillRect(c, r, 1, 1);
    }
  canvas.tensor = tensor;
  return canvas;
}
