// The heights in pixels that are reserved for the figures until they are drawn, for the page's first sentence on a screen
// 390, 768 and 1,440 pixels wide. Written by tests/vaswani_transformer/explorer/page/measure_heights.py.
const HEIGHTS = {
  "attention-1": [2175, 1105, 1132],
  "attention-2": [662, 352, 318],
  "beam-1": [984, 761, 737],
  "beam-2": [992, 562, 542],
  "beam-3": [966, 654, 432],
  "decoder-1": [964, 1001, 558],
  "decoder-2": [786, 678, 643],
  "decoder-3": [779, 533, 510],
  "dictionary-1": [663, 329, 501],
  "dictionary-2": [1113, 643, 692],
  "encoder-1": [1057, 857, 670],
  "encoder-2": [576, 569, 547],
  "encoder-3": [460, 397, 397],
  "encoder-4": [753, 510, 510],
  "explorer-1": [752, 611, 443],
  "explorer-2": [1018, 650, 336],
  "heads-1": [793, 445, 439],
  "heads-2": [875, 852, 448],
  "heads-3": [39, 39, 39],
  "positions-1": [701, 695, 866],
  "positions-2": [967, 613, 385],
  "positions-3": [847, 454, 573],
  "positions-4": [39, 39, 39],
  "recurrence-1": [574, 527, 508],
  "recurrence-2": [857, 440, 421],
  "recurrence-3": [779, 609, 585],
  "training-1": [978, 589, 490],
  "training-2": [999, 579, 520],
  "training-3": [778, 813, 437],
  "training-4": [684, 349, 326],
  "training-5": [502, 410, 410],
};
const DEFAULT = 360;

/** The height to reserve for a figure. */
export function reservedHeight(id) {
  const width = document.documentElement.clientWidth;
  return HEIGHTS[id]?.[width < 560 ? 0 : width < 960 ? 1 : 2] ?? DEFAULT;
}
