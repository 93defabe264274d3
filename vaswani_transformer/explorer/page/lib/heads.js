// The heads of a model: their names, what they may see, what they do. A place is {stack, kind, layer, head}.
import { softmax, Tensor } from "./tensors.js";

/** The three places of multi-head attention (section 3.2.3): stack, kind, name. */
export const ATTENTIONS = [
  { stack: "encoder", kind: "self_attn", name: "encoder self-attention" },
  { stack: "decoder", kind: "self_attn", name: "decoder self-attention" },
  { stack: "decoder", kind: "cross_attn", name: "cross-attention" },
];

const SHORT = { "encoder.self_attn": "encoder", "decoder.self_attn": "decoder", "decoder.cross_attn": "cross" };

/** "encoder 2 · head 3"; layers and heads are counted from 1 on the page, and from 0 in the requests. */
export const headName = ({ stack, kind, layer, head }) => `${SHORT[`${stack}.${kind}`]} ${layer + 1} · head ${head + 1}`;

/** "encoder self-attention, layer 2, head 3" */
export const longHeadName = ({ stack, kind, layer, head }) =>
  `${ATTENTIONS.find((a) => a.stack === stack && a.kind === kind).name}, layer ${layer + 1}, head ${head + 1}`;

export const isSameHead = (a, b) => a.stack === b.stack && a.kind === b.kind && a.layer === b.layer && a.head === b.head;

/** What the run says of a head: {label, measures}. */
export const roleOf = (run, place) => run.heads.find((role) => isSameHead(role, place)) ?? { label: "", measures: {} };

/** (row, column) => whether the causal mask hides it. */
export const maskOf = (state, { stack, kind }) =>
  stack === "decoder" && kind === "self_attn" && state.run.request.causal !== false ? (r, c) => c > r : () => false;

/** The weights of a head [T, S]: the model's own, or with another temperature those of its scores. */
export function weightsOf(state, place, temperature = 1) {
  if (temperature === 1) return state.tensor("weights", place).part(place.head);
  const isMasked = maskOf(state, place);
  const scores = state.tensor("scores", place).part(place.head);
  const columns = scores.shape[1];
  const visible = scores.data.map((x, i) => (isMasked(Math.floor(i / columns), i % columns) ? -Infinity : x));
  return softmax(new Tensor(scores.shape, visible, scores.name), temperature);
}
