"""Every tensor of a translation by name, heads switched off, and the search as it happened.

```python
from vaswani_transformer import checkpoint_path, inspect_translation, load

model, tokenizer = load(checkpoint_path("mini-en-de"))
inspection = inspect_translation(model, tokenizer, "A man is riding a bicycle.")
inspection.tensors["encoder.layers.0.self_attn.weights"]  # [H, S, S]
```

A model that is looked at is not changed: the hooks are on a twin, which is a second set of modules with the same
weights. Several threads may look at one model.

Shapes: S source tokens, T target tokens, D = d_model, H heads, K = d_k, V = d_v.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ..model.beam_search_vaswani import BeamSearch, length_penalty
from ..model.modeling_vaswani import scaled_dot_product_attention
from .heads import STACKS, SUBLAYERS, Head, search, twin_of, without_heads
from .readable import Token, read_source, read_target
from .search_record import RecordedSearch, SearchRecord


ALTERNATIVES = 10  # tokens that are named at each position, best first


@dataclass(frozen=True)
class Alternative:
    """A token that the model could have produced at a position, with its log-probability."""

    token: Token
    log_prob: float


@dataclass
class Inspection:
    """What happened in one translation.

    Attributes:
        text, translation: The sentence, and what the model's own search made of it.
        source: The S source tokens.
        target: The decoder's input, T tokens: the start token, then the translation without its last token.
        outputs: What each of the T positions predicts: the translation, its end last.
        tensors: By name, in float32, on the CPU; `tensor_names` says which there are:

            encoder.embedding, .positions, .input [S, D]: embeddings (times sqrt(d_model)), positions, their sum
            encoder.layers.0.self_attn.query, .key [H, S, K], .value [H, S, V]
                .scores [H, S, S] = Q K^T / sqrt(d_k), before the mask; .weights [H, S, S]: after mask and softmax
                .heads [H, S, V] = weights V, before W^O
            encoder.layers.0.self_attn.input, .output, .sum, .result [S, D]: the stream before the sub-layer, what the
                sub-layer gives, input + output, the stream after it: LayerNorm(sum), or the sum itself where pre-norm
            encoder.layers.0.feed_forward.hidden [S, d_ff]: after the activation; .input, .output, .sum, .result
            encoder.output [S, D]
            decoder...: the same with T for S, and in each layer cross_attn, whose keys are the source's

        log_probs: [T], of each token of `outputs`.
        mean_log_probs: [T], the mean over the whole vocabulary at each position, of which label smoothing makes use.
        alternatives: At each of the T positions the likeliest tokens, best first.
        score: log P / length penalty, by which the search ranks.
        search: Every candidate of every step.
        milliseconds: How long the search and the recording took.
    """

    text: str
    translation: str
    source: list[Token]
    target: list[Token]
    outputs: list[Token]
    source_ids: torch.Tensor  # [1, S]
    target_ids: torch.Tensor  # [1, 1 + T], the start token first
    tensors: dict[str, torch.Tensor]
    log_probs: torch.Tensor
    mean_log_probs: torch.Tensor
    alternatives: list[list[Alternative]]
    score: float
    search: SearchRecord
    milliseconds: dict[str, float]

    @property
    def log_prob(self) -> float:
        """log P of the whole translation."""
        return self.log_probs.sum().item()


def inspect_translation(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    num_beams: int | None = None,
    length_penalty: float | None = None,
    off: Iterable[Head] = (),
    causal: bool = True,
    max_time: float | None = None,
) -> Inspection:
    """Translates `text` with the model's own search, and records how.

    Args:
        num_beams, length_penalty: Those of the search; unset, the checkpoint's.
        off: Heads that are switched off, in the search and in the tensors; see `without_heads`.
        causal: False runs the decoder on the same translation without its causal mask: each position sees the token
            that it should predict.
        max_time: Seconds that the search may take.

    Raises:
        ValueError: the text is empty or too long for learned positions, a head does not exist, or a setting of the
            search cannot be used.
        TimeoutError: the search took longer than `max_time`.
    """
    twin = twin_of(model)
    source_ids = encode(tokenizer, text, twin)
    with without_heads(twin, off):
        start = time.perf_counter()
        target_ids, search = record_search(twin, source_ids, num_beams, length_penalty, max_time)
        middle = time.perf_counter()
        tensors, logits = record_tensors(twin, source_ids, target_ids[:, :-1], causal)
        end = time.perf_counter()
    return describe(
        tokenizer, twin, text, source_ids, target_ids, tensors, logits, search,
        {"search": 1000 * (middle - start), "inspect": 1000 * (end - middle)},
    )  # fmt: skip


def describe(tokenizer, model, text, source_ids, target_ids, tensors, logits, search, milliseconds) -> Inspection:
    """An `Inspection` from ids, tensors and logits [T, vocabulary]."""
    everything = logits.log_softmax(dim=-1)
    log_probs = everything.gather(-1, target_ids[0, 1:, None]).squeeze(-1).cpu()
    likeliest = everything.topk(min(ALTERNATIVES, everything.shape[-1]), dim=-1)
    read = read_target(tokenizer)
    alternatives = [
        [Alternative(read.token(i), log_prob) for i, log_prob in zip(ids, values, strict=True)]
        for ids, values in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
    ]
    ids = target_ids[0].tolist()
    penalty = length_penalty(len(ids) - 1, search.alpha, search.offset)
    return Inspection(
        text=text,
        translation=tokenizer.decode(ids, skip_special_tokens=True),
        source=read_source(tokenizer).tokens(source_ids[0].tolist()),
        target=[read.start(ids[0]), *read.tokens(ids[1:-1])],
        outputs=read.tokens(ids[1:]),
        source_ids=source_ids.cpu(),
        target_ids=target_ids.cpu(),
        tensors=tensors,
        log_probs=log_probs,
        mean_log_probs=everything.mean(dim=-1).cpu(),
        alternatives=alternatives,
        score=log_probs.sum().item() / penalty,
        search=search,
        milliseconds=milliseconds,
    )


def encode(tokenizer: PreTrainedTokenizerBase, text: str, model: PreTrainedModel) -> torch.Tensor:
    """A sentence as ids [1, S] on the model's device.

    Raises:
        ValueError: it is empty, or longer than learned positions reach.
    """
    if not text.strip():
        raise ValueError("There is no text to translate: give a sentence.")
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    model.config.check_length(ids.shape[1])
    return ids.to(model.device)


# The search ----------------------------------------------------------------------------------------------------------


def record_search(
    twin: PreTrainedModel,
    source_ids: torch.Tensor,
    num_beams: int | None = None,
    alpha: float | None = None,
    max_time: float | None = None,
) -> tuple[torch.Tensor, SearchRecord]:
    """`generate` for one sentence [1, S], watched: the translation's ids [1, 1 + T], and the record."""
    searches: list[RecordedSearch] = []

    def watch(begun: BeamSearch) -> RecordedSearch:
        searches.append(RecordedSearch.of(begun))
        return searches[0]

    output = search(twin, source_ids, num_beams, alpha, max_time, watch)
    return output.sequences, searches[0].record()


# The tensors ---------------------------------------------------------------------------------------------------------

RECORDING = "vaswani_recording"


def recording_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The model file's equation 1, whose parts go to `module.record` as well. Shapes are those given there."""
    heads, weights = scaled_dot_product_attention(module, query, key, value, attention_mask, scaling, **kwargs)
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
    module.record(query=query, key=key, value=value, scores=scores, weights=weights, heads=heads.transpose(1, 2))
    return heads, weights


ALL_ATTENTION_FUNCTIONS.register(RECORDING, recording_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(RECORDING, eager_mask)


@torch.no_grad()
def record_tensors(
    twin: PreTrainedModel, source_ids: torch.Tensor, decoder_input_ids: torch.Tensor, causal: bool = True
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Source [1, S] and target [1, T] -> the tensors by name, and the logits [T, vocabulary].

    Adds hooks to the model, and leaves them there: give it a twin.
    """
    tensors: dict[str, torch.Tensor] = {}
    mask = None
    if not causal:
        length = decoder_input_ids.shape[1]
        mask = torch.zeros(1, 1, length, length, dtype=twin.dtype, device=twin.device)  # nothing is hidden
    twin.config._attn_implementation = RECORDING
    for stack in STACKS:
        watch_stack(getattr(twin.base_model, stack), stack, tensors)
    logits = twin(
        input_ids=source_ids, decoder_input_ids=decoder_input_ids, decoder_attention_mask=mask, use_cache=False
    ).logits
    for stack in STACKS:
        follow_stream(getattr(twin.base_model, stack), stack, tensors)
    ordered = {name: tensors[name].float().cpu() for name in sorted(tensors, key=place_of)}
    return {name: x for name, x in ordered.items() if not name.endswith((".norm_in", ".norm_out"))}, logits[0].float()


def watch_stack(stack: nn.Module, name: str, tensors: dict[str, torch.Tensor]):
    """Hooks that put a stack's tensors into `tensors` by name."""

    def record_embedding(module, args, output):
        embedded, mask, *past = args
        positions = torch.zeros_like(output[0])
        if module.config.position_encoding != "none":
            positions = module.embed_positions(embedded, mask, *past).to(output.dtype)
            positions = positions[0] if positions.dim() == 3 else positions
        scaled = embedded[0] * module.scale + (module.space.weight if hasattr(module, "space") else 0.0)
        tensors.update({f"{name}.embedding": scaled, f"{name}.positions": positions, f"{name}.input": output[0]})

    def keep(place: str, of_input: str = "") -> Callable:
        def hook(module, args, output):
            if of_input:
                tensors[of_input] = args[0][0]
            tensors[place] = (output[0] if isinstance(output, tuple) else output)[0]

        return hook

    def recorder(place: str) -> Callable:
        def record(**parts: torch.Tensor):
            tensors.update({f"{place}.{part}": x[0] for part, x in parts.items()})

        return record

    stack.embedding.register_forward_hook(record_embedding)
    for place, layer, kind in sublayers_of(stack, name):
        sublayer = getattr(layer, kind)
        sublayer.register_forward_hook(keep(f"{place}.output"))
        getattr(layer, f"{kind}_norm").register_forward_hook(keep(f"{place}.norm_out", of_input=f"{place}.norm_in"))
        if kind == "feed_forward":
            sublayer.activation.register_forward_hook(keep(f"{place}.hidden"))
        else:
            sublayer.record = recorder(place)
    stack.norm.register_forward_hook(keep(f"{name}.output"))


def sublayers_of(stack: nn.Module, name: str) -> Iterator[tuple[str, nn.Module, str]]:
    """Each sub-layer from the bottom to the top: its name, its layer, its kind."""
    for index, layer in enumerate(stack.layers):
        for kind in SUBLAYERS:
            if hasattr(layer, kind):
                yield f"{name}.layers.{index}.{kind}", layer, kind


def follow_stream(stack: nn.Module, name: str, tensors: dict[str, torch.Tensor]):
    """Names what goes into each sub-layer and what comes out of its "Add & Norm", wherever the norm is."""
    stream = tensors[f"{name}.input"]
    for place, layer, _ in sublayers_of(stack, name):
        tensors[f"{place}.input"] = stream
        if layer.pre_norm:
            tensors[f"{place}.sum"] = tensors[f"{place}.result"] = stream + tensors[f"{place}.output"]
        else:
            tensors[f"{place}.sum"] = tensors[f"{place}.norm_in"]
            tensors[f"{place}.result"] = tensors[f"{place}.norm_out"]
        stream = tensors[f"{place}.result"]


PARTS = (
    "embedding", "positions", "input", "query", "key", "value", "scores", "weights", "heads", "hidden", "output",
    "sum", "result", "layers",
)  # fmt: skip


def place_of(name: str) -> tuple:
    """Sorts names in the order in which the tensors come about."""
    stack, _, rest = name.partition(".")
    is_layer = rest.startswith("layers.")
    _, layer, kind, part = rest.split(".") if is_layer else ("", -1, SUBLAYERS[0], rest)
    last = rest == "output"
    return (STACKS.index(stack), last, int(layer), SUBLAYERS.index(kind), PARTS.index(part) if part in PARTS else 99)
