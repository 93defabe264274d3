// The address of the page: #target?checkpoint=...&text=...&attention=encoder.self_attn.1.2&token=3, and the figure's settings.
// The target is a chapter or a figure. All of it is behind the #, which browsers do not send to a server.

/** Reads the address: {target, checkpoint, text, selection, settings}; what it does not hold is undefined. */
export function readAddress(hash = location.hash) {
  const at = hash.indexOf("?");
  const target = decodeURIComponent(at < 0 ? hash.slice(1) : hash.slice(1, at));
  const parameters = new URLSearchParams(at < 0 ? "" : hash.slice(at));
  const take = (name) => {
    const value = parameters.get(name) ?? undefined;
    parameters.delete(name);
    return value;
  };
  const [checkpoint, text, attention, token] = ["checkpoint", "text", "attention", "token"].map(take);
  return { target, checkpoint, text, selection: attention && selectionOf(attention, token), settings: new Map(parameters) };
}

/** "encoder.self_attn.1.2", counted from 1, as a selection. */
function selectionOf(attention, token) {
  const [stack, kind, layer, head] = attention.split(".");
  const isKnown = (stack === "encoder" || stack === "decoder") && ["self_attn", "cross_attn"].includes(kind);
  if (!isKnown || !(layer >= 1) || !(head >= 1)) return undefined;
  return { stack, kind, layer: layer - 1, head: head - 1, token: token >= 0 ? Number(token) : null };
}

/** The address of a chapter or figure in its present state. */
export function addressOf(state, target) {
  const { stack, kind, layer, head, token } = state.selection;
  const parameters = new URLSearchParams();
  if (state.run) {
    parameters.set("checkpoint", state.model.name);
    parameters.set("text", state.run.request.text);
    parameters.set("attention", `${stack}.${kind}.${layer + 1}.${head + 1}`);
    if (token !== null) parameters.set("token", token);
  }
  const element = document.getElementById(target);
  if (element?.matches("figure"))
    element.querySelectorAll("[data-setting]").forEach((control) => parameters.set(control.dataset.setting, control.readSetting()));
  return `#${target}?${parameters}`;
}

/** Changes the figure's controls to the settings of the address, and removes those from `settings`. */
export function restoreSettings(body, settings) {
  for (const [name, text] of [...settings]) {
    const control = body.querySelector(`[data-setting="${CSS.escape(name)}"]`);
    if (!control) continue;
    settings.delete(name); // before the change, which may draw the figure again
    if (control.readSetting() !== text) control.changeSetting(text);
  }
}

const SETTLING = 2500; // milliseconds in which figures draw themselves after a jump
let endLanding = () => {};

/** Jumps to a chapter or figure, and again when figures above it grow, until the reader moves. */
export function land(target) {
  endLanding();
  const element = target && document.getElementById(target);
  if (!element) return;
  const chapters = document.getElementById("chapters");
  let landed = null;
  const go = () => {
    element.scrollIntoView({ behavior: "instant" });
    landed = { top: scrollY, height: chapters.offsetHeight };
  };
  // A scroll that neither this function nor a figure's growth caused: by the scrollbar, or by a program.
  const onScroll = () => Math.abs(scrollY - landed.top) > 1 && chapters.offsetHeight === landed.height && endLanding();
  const growth = new ResizeObserver(go);
  const events = ["wheel", "touchstart", "pointerdown", "keydown"];
  const timer = setTimeout(() => endLanding(), SETTLING);
  endLanding = () => {
    growth.disconnect();
    clearTimeout(timer);
    events.forEach((event) => removeEventListener(event, endLanding, true));
    removeEventListener("scroll", onScroll);
  };
  go();
  growth.observe(chapters);
  addEventListener("scroll", onScroll);
  events.forEach((event) => addEventListener(event, endLanding, { capture: true, once: true }));
}
