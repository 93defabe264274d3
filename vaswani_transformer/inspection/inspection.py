"""Every tensor of a translation by name, and the trace of its search, optionally with heads switched off.

```python
from vaswani_transformer import checkpoint_path, inspect_translation, load

model, tokenizer = load(checkpoint_path("mini-en-de"))
inspection = inspect_translation(model, tokenizer, "A man is riding a bicycle.")
inspection.tensors["encoder.layers.0.self_attn.weights"]  # [H, S, S]
```

Inspection does not change the model: hooks are registered on a copy that shares its weights. Several threads can
inspect one model.

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

from ..model.beam_search_vaswani import length_penalty
from ..model.hooks_vaswani import check_text
from ..model.modeling_vaswani import scaled_dot_product_attention
from .heads import STACKS, SUBLAYERS, Head, search, shared_copy, without_heads
from .search_trace import SearchTrace, TracedSearch
from .token_text import Token, source_reader, target_reader


ALTERNATIVES = 10  # tokens listed at each position, best first


@dataclass(frozen=True)
class Alternative:
    """One of the likeliest tokens at a position, with its log-probability."""

    token: Token
    log_prob: float


@dataclass
class Inspection:
    """The tokens, tensors, probabilities and search of one translation, as `inspect_translation` returns them.

    Attributes:
        text, translation: The sentence, and its translation by the model's own search.
        source: The S source tokens.
        target: The decoder's input, T tokens: the start token, then the translation without its last token.
        outputs: The token at each of the T positions of the output: the translation, the end token last.
        source_ids, target_ids: Token ids [1, S] and [1, 1 + T], the latter with the start token first.
        tensors: By name, in float32, on the CPU (sections 3.1 to 3.5):

            encoder.embedding, .positions, .input [S, D]: embeddings (times sqrt(d_model)), positions, their sum
            encoder.layers.0.self_attn.query, .key [H, S, K], .value [H, S, V]
                .scores [H, S, S] = Q K^T / sqrt(d_k), before the mask; .weights [H, S, S]: after mask and softmax
                .heads [H, S, V] = weights V, before W^O
            encoder.layers.0.self_attn.input, .output, .sum, .result [S, D]: the input of the sub-layer, its output,
                their sum, and the input of the next sub-layer: LayerNorm(sum), or in a pre-norm stack the sum itself
            encoder.layers.0.feed_forward.hidden [S, d_ff]: after the activation; .input, .output, .sum, .result
            encoder.output [S, D]
            decoder...: the same with T for S, and in each layer cross_attn, whose keys are the source's

        log_probs: The log-probability of each token of `outputs`, [T].
        mean_log_probs: The mean log-probability of the whole vocabulary at each position, [T]. Label smoothing
            (section 5.4) depends on it.
        alternatives: The likeliest tokens at each of the T positions, best first.
        score: log P / length penalty, by which the search ranks (section 6.1).
        search: Every candidate of every step.
        milliseconds: The time that the search ("search") and the recording ("inspect") took.
    """

    text: str
    translation: str
    source: list[Token]
    target: list[Token]
    outputs: list[Token]
    source_ids: torch.Tensor
    target_ids: torch.Tensor
    tensors: dict[str, torch.Tensor]
    log_probs: torch.Tensor
    mean_log_probs: torch.Tensor
    alternatives: list[list[Alternative]]
    score: float
    search: SearchTrace
    milliseconds: dict[str, float]

    @property
    def log_prob(self) -> float:
        """The sum of `log_probs`: log P of the whole translation."""
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
    """Translate a text with the model's own search (section 6.1), and record its tensors and candidates.

    Args:
        model: A `VaswaniForConditionalGeneration`; it does not change.
        tokenizer: The model's tokenizer.
        text: One sentence.
        num_beams, length_penalty: The settings of the search; by default the checkpoint's.
        off: Heads to switch off, in the search and in the tensors; see `without_heads`.
        causal: False runs the decoder on the same translation without its causal mask (section 3.2.3), so that each
            position sees the token that it should predict.
        max_time: Maximum seconds for the search.

    Returns:
        An `Inspection`, whose attributes list the shapes.

    Raises:
        ValueError: The text is empty or too long for learned positions, a head does not exist, or a setting of the
            search is invalid.
        TimeoutError: The search took longer than `max_time`.
    """
    copied = shared_copy(model)
    source_ids = encode(tokenizer, text, copied)
    with without_heads(copied, off):
        start = time.perf_counter()
        target_ids, trace = trace_search(copied, source_ids, num_beams, length_penalty, max_time)
        middle = time.perf_counter()
        tensors, logits = record_tensors(copied, source_ids, target_ids[:, :-1], causal)
        end = time.perf_counter()
    milliseconds = {"search": 1000 * (middle - start), "inspect": 1000 * (end - middle)}
    return describe(tokenizer, text, source_ids, target_ids, tensors, logits, trace, milliseconds)


def describe(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    source_ids: torch.Tensor,
    target_ids: torch.Tensor,
    tensors: dict[str, torch.Tensor],
    logits: torch.Tensor,
    search: SearchTrace,
    milliseconds: dict[str, float],
) -> Inspection:
    """Build an `Inspection` from ids, tensors and logits [T, vocabulary]."""
    all_log_probs = logits.log_softmax(dim=-1)
    log_probs = all_log_probs.gather(-1, target_ids[0, 1:, None]).squeeze(-1).cpu()
    likeliest = all_log_probs.topk(min(ALTERNATIVES, all_log_probs.shape[-1]), dim=-1)
    target = target_reader(tokenizer)
    alternatives = []
    for ids, values in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True):
        pairs = zip(ids, values, strict=True)
        alternatives.append([Alternative(target.token(i), log_prob) for i, log_prob in pairs])
    ids = target_ids[0].tolist()
    penalty = length_penalty(len(ids) - 1, search.alpha, search.offset)
    return Inspection(
        text=text,
        translation=tokenizer.decode(ids, skip_special_tokens=True),
        source=source_reader(tokenizer).tokens(source_ids[0].tolist()),
        target=[target.start(ids[0]), *target.tokens(ids[1:-1])],
        outputs=target.tokens(ids[1:]),
        source_ids=source_ids.cpu(),
        target_ids=target_ids.cpu(),
        tensors=tensors,
        log_probs=log_probs,
        mean_log_probs=all_log_probs.mean(dim=-1).cpu(),
        alternatives=alternatives,
        score=log_probs.sum().item() / penalty,
        search=search,
        milliseconds=milliseconds,
    )


def encode(tokenizer: PreTrainedTokenizerBase, text: str, model: PreTrainedModel) -> torch.Tensor:
    """The token ids of a sentence, [1, S], on the model's device.

    Raises:
        ValueError: The text is empty, not valid Unicode, or too long for learned positions.
    """
    check_text(text)
    if not text.strip():
        raise ValueError("The text is empty: give a sentence to translate.")
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    model.config.check_length(ids.shape[1])
    return ids.to(model.device)


# The search ----------------------------------------------------------------------------------------------------------


def trace_search(
    model: PreTrainedModel,
    source_ids: torch.Tensor,
    num_beams: int | None = None,
    alpha: float | None = None,
    max_time: float | None = None,
) -> tuple[torch.Tensor, SearchTrace]:
    """Translate one sentence [1, S], and return the translation's ids [1, 1 + T] and the trace of the search."""
    searches: list[TracedSearch] = []

    def start(*args, **kwargs) -> TracedSearch:
        searches.append(TracedSearch(*args, **kwargs))
        return searches[0]

    output = search(model, source_ids, num_beams, alpha, max_time, start)
    return output.sequences, searches[0].trace()


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
    """Equation 1 as in modeling_vaswani.py, with the same shapes, which also calls `module.record` with its parts."""
    heads, weights = scaled_dot_product_attention(module, query, key, value, attention_mask, scaling, **kwargs)
    scores = torch.matmul(query, key.transpose(2, 3)) * scaling
    module.record(query=query, key=key, value=value, scores=scores, weights=weights, heads=heads.transpose(1, 2))
    return heads, weights


ALL_ATTENTION_FUNCTIONS.register(RECORDING, recording_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(RECORDING, eager_mask)


@torch.no_grad()
def record_tensors(
    model: PreTrainedModel, source_ids: torch.Tensor, decoder_input_ids: torch.Tensor, causal: bool = True
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Source [1, S] and target [1, T] -> the tensors by name, and the logits [T, vocabulary].

    Adds hooks to the model and does not remove them, so pass a `shared_copy`.
    """
    tensors: dict[str, torch.Tensor] = {}
    mask = None
    if not causal:
        length = decoder_input_ids.shape[1]
        mask = torch.zeros(1, 1, length, length, dtype=model.dtype, device=model.device)  # masks nothing
    model.config._attn_implementation = RECORDING
    for stack in STACKS:
        add_hooks(getattr(model.base_model, stack), stack, tensors)
    logits = model(
        input_ids=source_ids, decoder_input_ids=decoder_input_ids, decoder_attention_mask=mask, use_cache=False
    ).logits
    for stack in STACKS:
        name_stream(getattr(model.base_model, stack), stack, tensors)
    ordered = {name: tensors[name].float().cpu() for name in sorted(tensors, key=order_of)}
    return {name: x for name, x in ordered.items() if not name.endswith((".norm_in", ".norm_out"))}, logits[0].float()


def add_hooks(stack: nn.Module, name: str, tensors: dict[str, torch.Tensor]):
    """Add hooks that put a stack's tensors into `tensors` by name."""

    def record_embedding(module, args, output):
        embedded, mask, *past = args
        positions = torch.zeros_like(output[0])
        if module.config.position_encoding != "none":
            positions = module.embed_positions(embedded, mask, *past).to(output.dtype)
            positions = positions[0] if positions.dim() == 3 else positions
        scaled = embedded[0] * module.scale + (module.space.weight if hasattr(module, "space") else 0.0)
        tensors.update({f"{name}.embedding": scaled, f"{name}.positions": positions, f"{name}.input": output[0]})

    def record_output(output_name: str, input_name: str = "") -> Callable:
        def hook(module, args, output):
            if input_name:
                tensors[input_name] = args[0][0]
            tensors[output_name] = (output[0] if isinstance(output, tuple) else output)[0]

        return hook

    def recorder(prefix: str) -> Callable:
        def record(**parts: torch.Tensor):
            tensors.update({f"{prefix}.{part}": x[0] for part, x in parts.items()})

        return record

    stack.embedding.register_forward_hook(record_embedding)
    for prefix, layer, kind in sublayers_of(stack, name):
        sublayer, norm = getattr(layer, kind), getattr(layer, f"{kind}_norm")
        sublayer.register_forward_hook(record_output(f"{prefix}.output"))
        norm.register_forward_hook(record_output(f"{prefix}.norm_out", f"{prefix}.norm_in"))
        if kind == "feed_forward":
            sublayer.activation.register_forward_hook(record_output(f"{prefix}.hidden"))
        else:
            sublayer.record = recorder(prefix)
    stack.norm.register_forward_hook(record_output(f"{name}.output"))


def sublayers_of(stack: nn.Module, name: str) -> Iterator[tuple[str, nn.Module, str]]:
    """Yield the name, layer and kind of each sub-layer, from the bottom to the top."""
    for index, layer in enumerate(stack.layers):
        for kind in SUBLAYERS:
            if hasattr(layer, kind):
                yield f"{name}.layers.{index}.{kind}", layer, kind


def name_stream(stack: nn.Module, name: str, tensors: dict[str, torch.Tensor]):
    """Name the input of each sub-layer, and the sum and result of its "Add & Norm", wherever the norm is."""
    stream = tensors[f"{name}.input"]
    for prefix, layer, _ in sublayers_of(stack, name):
        tensors[f"{prefix}.input"] = stream
        if layer.pre_norm:
            tensors[f"{prefix}.sum"] = tensors[f"{prefix}.result"] = stream + tensors[f"{prefix}.output"]
        else:
            tensors[f"{prefix}.sum"] = tensors[f"{prefix}.norm_in"]
            tensors[f"{prefix}.result"] = tensors[f"{prefix}.norm_out"]
        stream = tensors[f"{prefix}.result"]


PARTS = (
    "embedding", "positions", "input", "query", "key", "value", "scores", "weights", "heads", "hidden", "output",
    "sum", "result", "layers",
)  # fmt: skip


def order_of(name: str) -> tuple:
    """A key that sorts tensors in the order in which they are computed."""
    stack, _, rest = name.partition(".")
    is_layer = rest.startswith("layers.")
    _, layer, kind, part = rest.split(".") if is_layer else ("", -1, SUBLAYERS[0], rest)
    last = rest == "output"
    return (STACKS.index(stack), last, int(layer), SUBLAYERS.index(kind), PARTS.index(part) if part in PARTS else 99)
