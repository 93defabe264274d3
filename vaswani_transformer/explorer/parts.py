"""Count a model's parameters, part by part. A shared matrix is counted once, at its first use."""

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ..inspection.heads import SUBLAYERS


@dataclass
class Part:
    """A part of the model and its number of parameters. If it has `parts`, their counts add up to its own."""

    name: str
    count: int = 0
    note: str = ""
    parts: list["Part"] = field(default_factory=list)

    @classmethod
    def from_parts(cls, name: str, parts: list["Part"], note: str = "") -> "Part":
        """Combine parts into one. Leaves out parts that have neither parameters nor a note."""
        parts = [part for part in parts if part.count or part.note]
        return cls(name, sum(part.count for part in parts), note, parts)


USES = {
    "model.encoder.embed_tokens": "source embedding",
    "model.decoder.embed_tokens": "target embedding",
    "lm_head": "pre-softmax linear transformation",
}
NAMES = {
    "self_attn": "self-attention",
    "cross_attn": "cross-attention",
    "feed_forward": "feed-forward",
    "qkv_proj": "W^Q, W^K and W^V of all heads",
    "q_proj": "W^Q of all heads",
    "kv_proj": "W^K and W^V of all heads",
    "out_proj": "W^O",
    "fc1": "W_1 and b_1",
    "fc2": "W_2 and b_2",
}


def parameter_tree(model: Any) -> Part:
    """Return the parameter counts of the whole model, down to single matrices."""
    stacks = [stack_part(name, getattr(model.base_model, name)) for name in ("encoder", "decoder")]
    return Part.from_parts("model", [embeddings_part(model), *stacks, softmax_part(model)])


def embeddings_part(model: Any) -> Part:
    """Return the embedding matrices, each once with a note on its uses, and the learned positions."""
    uses: dict[int, list[str]] = {}
    weights = {}
    for module, use in USES.items():
        weight = model.get_submodule(module).weight
        uses.setdefault(id(weight), []).append(use)
        weights[id(weight)] = weight
    head = id(model.get_submodule("lm_head").weight)
    parts = []
    for key, shared in uses.items():
        if shared == [USES["lm_head"]]:  # not shared: counted after the decoder
            continue
        note = f"shared by {' and '.join([', '.join(shared[:-1]), shared[-1]])}" if len(shared) > 1 else ""
        parts.append(Part(shared[0] if key != head or len(shared) == 2 else "embedding", weights[key].numel(), note))
    for name in ("encoder", "decoder"):
        embedding = getattr(model.base_model, name).embedding
        for child, title in (("positions", "learned positions"), ("space", "space vector")):
            if hasattr(embedding, child):
                parts.append(Part(f"{title} of the {name}", count_parameters(getattr(embedding, child))))
    return Part.from_parts("embeddings", parts)


def softmax_part(model: Any) -> Part:
    """Return the pre-softmax linear transformation: its bias, and its matrix unless that is an embedding matrix."""
    head = model.get_submodule("lm_head")
    embeddings = [model.get_submodule(name).weight for name in USES if name != "lm_head"]
    is_shared = any(head.weight is weight for weight in embeddings)
    bias = 0 if head.bias is None else head.bias.numel()
    matrix = 0 if is_shared else head.weight.numel()
    return Part(
        USES["lm_head"], matrix + bias, "its matrix is an embedding matrix and counted there" if is_shared else ""
    )


def stack_part(name: str, stack: Any) -> Part:
    layers = [layer_part(f"layer {index}", layer) for index, layer in enumerate(stack.layers)]
    return Part.from_parts(name, [*layers, Part("LayerNorm after the stack", count_parameters(stack.norm))])


def layer_part(name: str, layer: nn.Module) -> Part:
    parts = []
    for kind in SUBLAYERS:
        if hasattr(layer, kind):
            matrices = [
                Part(NAMES.get(name, name), count_parameters(child))
                for name, child in getattr(layer, kind).named_children()
            ]
            parts.append(Part.from_parts(NAMES[kind], matrices))
            parts.append(Part(f"LayerNorm of {NAMES[kind]}", count_parameters(getattr(layer, f"{kind}_norm"))))
    return Part.from_parts(name, parts)


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
