// The heights of the figures' bodies on a phone, a tablet and a desktop, reserved until they are drawn; measured by tests/.../heights.py.
const HEIGHTS = {};
const DEFAULT = 360;

/** The height in pixels to reserve for a figure. */
export function reservedHeight(id) {
  const width = document.documentElement.clientWidth;
  return HEIGHTS[id]?.[width < 560 ? 0 : width < 1000 ? 1 : 2] ?? DEFAULT;
}
