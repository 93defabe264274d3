// Roving tabindex: many elements are a single stop of the tab key, and arrow keys move between them.

/** `items` are elements in rows of `columns`; the tab key reaches the one at index `current`. */
export function roving(items, { columns = 1, current = 0 } = {}) {
  const set = (at) => items.forEach((item, i) => item.setAttribute("tabindex", i === at ? "0" : "-1"));
  set(Math.max(0, Math.min(current, items.length - 1)));
  items.forEach((item, i) =>
    item.addEventListener("keydown", (event) => {
      const across = columns > 1 ? { ArrowRight: 1, ArrowLeft: -1 } : {};
      const step = { ArrowDown: columns, ArrowUp: -columns, ...across }[event.key];
      const next = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : i + step;
      if (!items[next]) return;
      event.preventDefault();
      set(next);
      items[next].focus();
    }),
  );
}
