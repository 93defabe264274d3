// The state of the page: a model, a run (a sentence and its translation) with its tensors, and a selection.

export class State {
  #listeners = new Map();

  constructor(source) {
    this.source = source;
    this.model = null;
    this.modelTensors = null;
    this.run = null;
    this.tensors = null;
    this.target = "top"; // the chapter or figure in the address
    this.pending = null; // the address whose figure is not yet restored
    this.selection = { stack: "encoder", kind: "self_attn", layer: 0, head: 0, token: null };
  }

  /** Calls `listener` at each "model", "run", "select", "theme", "chapter" or "address". */
  on(event, listener) {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
  }

  emit(event) {
    for (const listener of this.#listeners.get(event) ?? []) listener();
  }

  async openModel(name) {
    const [model, tensors] = await Promise.all([this.source.model(name), this.source.modelTensors(name)]);
    Object.assign(this, { model, modelTensors: tensors, run: null, tensors: null });
    this.select({});
    this.emit("model");
  }

  async translate(text) {
    const run = await this.source.run({ checkpoint: this.model.name, text });
    const tensors = await this.source.tensors(run);
    Object.assign(this, { run, tensors });
    this.select({ token: null });
    this.emit("run");
  }

  /** Changes the selection; a layer or head that the model does not have becomes the nearest one. */
  select(change) {
    const selection = { ...this.selection, ...change };
    if (selection.stack === "encoder") selection.kind = "self_attn";
    const { layers, heads } = this.size(selection.stack);
    selection.layer = Math.max(0, Math.min(selection.layer, layers - 1));
    selection.head = Math.max(0, Math.min(selection.head, heads - 1));
    this.selection = selection;
    this.emit("select");
  }

  /** The number of layers and heads of a stack. */
  size(stack) {
    const { config } = this.model;
    return { layers: config[`${stack}_layers`], heads: config[`${stack}_attention_heads`] };
  }

  /** A tensor of the run, by its full name, or by "query", "weights" and so on for the selected attention. */
  tensor(name, { stack, layer, kind } = this.selection) {
    return this.tensors.get(name) ?? this.tensors.get(`${stack}.layers.${layer}.${kind}.${name}`);
  }

  /** The tokens of the queries (rows) and of the keys (columns) of an attention. */
  tokens({ stack, kind } = this.selection) {
    const { source, target } = this.run;
    return { rows: stack === "encoder" ? source.tokens : target.tokens, columns: kind === "cross_attn" || stack === "encoder" ? source.tokens : target.tokens };
  }
}
