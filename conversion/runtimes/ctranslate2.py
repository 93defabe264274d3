"""Writes a checkpoint of ours as a model for CTranslate2's Translator, in float32 or quantised.

    python -m conversion to-ctranslate2 mini-en-de OUT --quantization int8

The card in OUT shows how to translate with it. To rank translations as we do:

    from conversion.runtimes.ctranslate2 import translate
    translate(ctranslate2.Translator("OUT"), AutoTokenizer.from_pretrained("OUT"), ["Hello!"])

The same as with our `generate`: the probability of every token, greedy search, and beam search with length_penalty=0.
Different:

- CTranslate2 ranks by log P / length^length_penalty, without counting `</s>`. It has no option for the paper's ranking,
  log P / ((5 + length) / 6)^0.6 with `</s>`; `translate` reranks its hypotheses. For mini-en-de that gives our
  translation of 59 of the first 60 sentences of Multi30k's test_2016_flickr, CTranslate2's own ranking that of 47.
- With a length penalty its beam search ends once as many hypotheses as beams have ended (`patience` changes that).
- While `</s>` is not allowed yet (`min_decoding_length`), its scores renormalise the other tokens' probabilities.
- It must be told what generation_config.json forbids (`suppress_tokens`, such as Marian's `<unk>`, and
  `bad_words_ids`): `translate_batch(..., suppress_sequences=[["<unk>"]])`.
- Its limits are 256 tokens of output and 1,024 of input unless others are given; ours is the input's length plus 50.
- Positions come from a table of 2,048 rows unless `--positions` says otherwise. Longer texts raise an error.
- In int8 about one translation in ten differs: 55 greedy ones and 53 of `translate` of these sentences are ours.

Padding is never produced, as in our search: its bias is so low that its probability is 0.
"""

import argparse
from pathlib import Path

import ctranslate2
import numpy as np
import torch
from ctranslate2.converters import Converter
from ctranslate2.specs import common_spec, transformer_spec
from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES
from torch import nn
from transformers import PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniTokenizer
from vaswani_transformer.modeling_vaswani import sinusoidal_positions

from ..options import ConversionError, Options, shown
from ..parity.samples import padded, sample_ids
from ..parity.scores import TOLERANCE
from .exports import exported_folder, import_of, load


ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "gelu_python": common_spec.Activation.GELU,
    "gelu_new": common_spec.Activation.GELUTanh,
    "gelu_fast": common_spec.Activation.GELUTanh,
    "gelu_accurate": common_spec.Activation.GELUTanh,
    "gelu_pytorch_tanh": common_spec.Activation.GELUTanh,
    "quick_gelu": common_spec.Activation.GELUSigmoid,
    "silu": common_spec.Activation.SWISH,
    "swish": common_spec.Activation.SWISH,
    "tanh": common_spec.Activation.Tanh,
    "sigmoid": common_spec.Activation.Sigmoid,
}
NEVER = -1e4  # a bias whose exp is 0 in every type that CTranslate2 computes in
# The largest mean difference between the log-probabilities of a quantised model and ours.
QUANTISED_TOLERANCE = 0.5
START = """\
```python
import ctranslate2
{imports}from transformers import AutoTokenizer

folder = "PATH OF THIS FOLDER"
tokenizer = AutoTokenizer.from_pretrained(folder)
translator = ctranslate2.Translator(folder)
result = translator.translate_batch([tokenizer("TEXT").tokens()], beam_size=4)[0]
tokenizer.convert_tokens_to_string(result.hypotheses[0])
```
"""


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--quantization", choices=ACCEPTED_MODEL_TYPES, default="float32", help="default: float32")
    parser.add_argument(
        "--positions", type=int, default=2048, metavar="N", help="length of the longest text, in tokens (default: 2048)"
    )


def export(checkpoint: str, out: Path, quantization: str = "float32", positions: int = 2048):
    """Writes the folder `out` after comparing CTranslate2's log-probabilities with ours.

    Raises:
        ConversionError: the checkpoint cannot be loaded, CTranslate2 cannot represent it, or its results differ.
    """
    model, tokenizer = load(checkpoint)
    converter = VaswaniConverter(model, tokenizer, positions)
    start = START.format(imports=import_of(tokenizer))
    with exported_folder(out, checkpoint, start, "ctranslate2", tokenizer) as folder:
        converter.convert(str(folder), force=True)
        difference = max(differences(model, converter, folder))
        if not difference < TOLERANCE:
            raise ConversionError(
                f"CTranslate2's log-probabilities differ from ours by up to {difference:.1e}; nothing was written."
            )
        version = f"CTranslate2 {ctranslate2.__version__}"
        print(f"{version}, float32: largest difference of log-probabilities {difference:.1e}")
        if quantization != "float32":
            converter.convert(str(folder), quantization=quantization, force=True)
            all_differences = differences(model, converter, folder)
            difference = sum(all_differences) / len(all_differences)
            if not difference < QUANTISED_TOLERANCE:
                raise ConversionError(
                    f"In {quantization}, log-probabilities differ by {difference:.2f} on average (accepted: below "
                    f"{QUANTISED_TOLERANCE}); nothing was written."
                )
            print(f"{version}, {quantization}: mean difference {difference:.1e}")


def translate(
    translator: ctranslate2.Translator, tokenizer: PreTrainedTokenizerBase, texts: list[str], beams: int = 4,
    alpha: float = 0.6, offset: float = 5,
) -> list[str]:  # fmt: skip
    """Beam search, ranked by log P / ((offset + length) / (offset + 1))^alpha as our models' `generate` does."""

    def rank(hypothesis: list[str], score: float) -> float:  # of n tokens, and log P / n^alpha
        n = len(hypothesis)
        return score * (n * (offset + 1) / (offset + n + 1)) ** alpha

    results = translator.translate_batch(
        [tokenizer(text).tokens() for text in texts],
        beam_size=beams,
        num_hypotheses=beams,
        length_penalty=alpha,
        return_scores=True,
    )
    ranked = [max(zip(r.hypotheses, r.scores, strict=True), key=lambda pair: rank(*pair))[0] for r in results]
    return [tokenizer.convert_tokens_to_string(tokens) for tokens in ranked]


class VaswaniConverter(Converter):
    """CTranslate2's converter interface for a model of ours and its tokenizer.

    Raises:
        ConversionError: CTranslate2 cannot represent the model; the message names every reason.
    """

    def __init__(
        self,
        model: VaswaniForConditionalGeneration,
        tokenizer: PreTrainedTokenizerBase | None,
        positions: int = 2048,
    ):
        refuse_what_it_lacks(model.config, tokenizer)
        self.model, self.tokenizer, self.positions = model, tokenizer, positions
        self.source_tokens, self.target_tokens = vocabularies(tokenizer, model.config)

    def _load(self) -> transformer_spec.TransformerSpec:
        model, config = self.model, self.model.config
        encoder, decoder = model.model.encoder, model.model.decoder
        spec = transformer_spec.TransformerSpec(
            stack_spec(transformer_spec.TransformerEncoderSpec, encoder, config.norm_position),
            stack_spec(transformer_spec.TransformerDecoderSpec, decoder, config.decoder_norm_position),
        )
        spec.encoder.embeddings[0].weight = array(encoder.embed_tokens.weight)
        spec.decoder.embeddings.weight = array(decoder.embed_tokens.weight)
        for side, stack in ((spec.encoder, encoder), (spec.decoder, decoder)):
            side.scale_embeddings = config.scale_embedding
            side.position_encodings.encodings = array(position_table(stack.embedding, self.positions))
        for layer_spec, layer in zip(spec.encoder.layer, encoder.layers, strict=True):
            set_attention(layer_spec.self_attention, layer.self_attn, layer.self_attn_norm)
            set_feed_forward(layer_spec.ffn, layer)
        for layer_spec, layer in zip(spec.decoder.layer, decoder.layers, strict=True):
            set_attention(layer_spec.self_attention, layer.self_attn, layer.self_attn_norm)
            set_attention(layer_spec.attention, layer.cross_attn, layer.cross_attn_norm)
            set_feed_forward(layer_spec.ffn, layer)
        starts_from_zero = config.zero_pad_embedding and config.decoder_start_token_id == config.pad_token_id
        spec.decoder.start_from_zero_embedding = starts_from_zero
        set_linear(spec.decoder.projection, model.lm_head)
        if config.pad_token_id is not None:
            bias = torch.zeros(config.decoder_vocab_size) if model.lm_head.bias is None else model.lm_head.bias.clone()
            bias[config.pad_token_id] = NEVER
            spec.decoder.projection.bias = array(bias)

        spec.register_source_vocabulary(self.source_tokens)
        spec.register_target_vocabulary(self.target_tokens)
        start = self.target_tokens[config.decoder_start_token_id]
        spec.config.bos_token = spec.config.decoder_start_token = start
        spec.config.eos_token = self.target_tokens[config.eos_token_id]
        spec.config.unk_token = self.unknown_token()
        spec.config.layer_norm_epsilon = config.layer_norm_eps
        return spec

    def unknown_token(self) -> str:
        """What CTranslate2 takes an unknown token for: `<unk>`, else padding, which has no other use."""
        ids = [i for i in (self.model.config.pad_token_id, self.model.config.eos_token_id) if i is not None]
        candidates = [self.tokenizer.unk_token, *(self.source_tokens[i] for i in ids)]
        return next(token for token in candidates if token in self.source_tokens and token in self.target_tokens)


def refuse_what_it_lacks(config: VaswaniConfig, tokenizer: PreTrainedTokenizerBase | None):
    options = Options(config.to_dict(), "model")
    options.only("activation_function", *ACTIVATIONS)
    options.only("layer_norm_deviation", "biased", default="biased")
    for stack in ("encoder", "decoder"):
        even = config.d_model // getattr(config, f"{stack}_attention_heads")
        if (d_k := config.d_k or even) != (d_v := config.d_v or even):
            options.refuse(f"d_k={d_k} with d_v={d_v} in the {stack} (supported: the same)")
    for name in ("eos_token_id", "decoder_start_token_id"):
        if not isinstance(getattr(config, name), int):
            options.refuse(f"{name}={shown(getattr(config, name))} (supported: one token)")
    if tokenizer is None:
        options.refuse("no tokenizer, from which CTranslate2's vocabulary is written")
    if options.problems:
        raise ConversionError.of("CTranslate2 cannot represent this model", options.problems, 99)


def vocabularies(tokenizer: PreTrainedTokenizerBase, config: VaswaniConfig) -> tuple[list[str], list[str]]:
    """The tokens of source and target in the order of their ids, as `tokenizer(text).tokens()` has them.

    Raises:
        ConversionError: the tokenizer has more tokens than the model.
    """

    def tokens(size: int, surfaces: dict[str, int] | None = None) -> list[str]:
        known = {i: token for token, i in tokenizer.get_vocab().items()}
        # Tokens that a `VaswaniTokenizer` knows by their spelling in a text.
        known |= {i: token for token, i in (surfaces or {}).items()}
        if len(known) > size or any(i >= size for i in known):
            raise ConversionError(f"The tokenizer has {len(known)} tokens, or ids beyond the model's {size}.")
        # Rows that only fill the vocabulary up have no token.
        return [known.get(i, f"<no token {i}>") for i in range(size)]

    source = tokens(config.vocab_size, tokenizer.init_kwargs.get("surfaces"))
    if not isinstance(tokenizer, VaswaniTokenizer):
        return source, tokens(config.decoder_vocab_size)
    tokenizer._switch_to_target_mode()
    target = tokens(config.decoder_vocab_size)
    tokenizer._switch_to_input_mode()
    return source, target


def stack_spec(kind: type, stack: nn.Module, norm_position: str):
    """An empty encoder or decoder with the sizes of the stack."""
    attention = stack.layers[0].self_attn
    spec = kind(
        len(stack.layers),
        attention.num_heads,
        pre_norm=not isinstance(stack.norm, nn.Identity),  # so that there is a final norm to set
        activation=ACTIVATIONS[stack.config.activation_function],
        head_dim=attention.d_k,
    )
    spec.pre_norm = norm_position == "pre"
    if not isinstance(stack.norm, nn.Identity):
        set_norm(spec.layer_norm, stack.norm)
    return spec


def position_table(embedding: nn.Module, rows: int) -> torch.Tensor:
    """What is added to scaled embeddings at each position, [rows, D]; learned positions have a number of their own."""
    config = embedding.config
    if config.position_encoding == "learned":
        table = embedding.positions.weight[config.position_offset :]
    elif config.position_encoding == "sinusoidal":
        table = sinusoidal_positions(torch.arange(rows) + config.position_offset, config)
    else:
        table = torch.zeros(rows, config.d_model)
    return table + embedding.space.weight if hasattr(embedding, "space") else table


def set_attention(spec, attention: nn.Module, norm: nn.LayerNorm):
    projections = [attention.q_proj, attention.kv_proj] if attention.is_cross else [attention.qkv_proj]
    for linear_spec, linear in zip(spec.linear, [*projections, attention.out_proj], strict=True):
        set_linear(linear_spec, linear)
    set_norm(spec.layer_norm, norm)


def set_feed_forward(spec, layer: nn.Module):
    set_linear(spec.linear_0, layer.feed_forward.fc1)
    set_linear(spec.linear_1, layer.feed_forward.fc2)
    set_norm(spec.layer_norm, layer.feed_forward_norm)


def set_norm(spec, norm: nn.LayerNorm):
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


def set_linear(spec, linear: nn.Linear):
    spec.weight = array(linear.weight)
    if linear.bias is not None:
        spec.bias = array(linear.bias)


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().numpy().copy()  # CTranslate2 quantises in place


@torch.no_grad()
def differences(model: VaswaniForConditionalGeneration, converter: VaswaniConverter, folder: Path) -> list[float]:
    """|log P of CTranslate2 - log P of ours| for the tokens of given targets, and for whole greedy translations.

    Greedy translations are compared by their scores: of two tokens that score the same, either is right.
    """
    config = model.config
    longest = min(converter.positions, config.max_position_embeddings or converter.positions) - 2
    lengths = tuple(min(n, max(longest - config.position_offset, 1)) for n in (1, 4, 9, 23))
    sources = sample_ids(config, lengths, len(converter.source_tokens))
    targets = sample_ids(config, lengths[::-1], len(converter.target_tokens))
    source_words = [[converter.source_tokens[i] for i in ids] for ids in sources]
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=torch.get_num_threads())

    def ours(targets: list[list[int]]) -> torch.Tensor:
        """[N, T], 0 after the end"""
        input_ids, attention_mask = padded(sources, config.pad_token_id)
        labels, real = padded(targets, config.pad_token_id)
        start = labels.new_full((len(labels), 1), config.decoder_start_token_id)
        decoder_input_ids = torch.cat((start, labels[:, :-1]), dim=1)
        logits = model(input_ids, attention_mask, decoder_input_ids, use_cache=False).logits
        if config.pad_token_id is not None:
            logits[..., config.pad_token_id] = float("-inf")
        log_probs = logits.log_softmax(dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        return log_probs.masked_fill(real == 0, 0.0)

    target_words = [[converter.target_tokens[i] for i in ids[:-1]] for ids in targets]
    scored = translator.score_batch(source_words, target_words)
    expected = ours(targets)
    differences = [
        abs(a - b)
        for row, result in zip(expected.tolist(), scored, strict=True)
        for a, b in zip(row, result.log_probs, strict=False)
    ]
    longest_output = min(lengths[-1], 16)
    translated = translator.translate_batch(
        source_words,
        beam_size=1,
        length_penalty=0,
        min_decoding_length=0,
        max_decoding_length=longest_output,
        return_scores=True,
    )
    ids = {token: i for i, token in enumerate(converter.target_tokens)}
    outputs = [[ids[token] for token in result.hypotheses[0]] for result in translated]
    ended = [row if len(row) == longest_output else [*row, config.eos_token_id] for row in outputs]
    for row, output, result in zip(ours(ended).sum(dim=-1).tolist(), ended, translated, strict=True):
        differences.append(abs(row - result.scores[0]) / len(output))
    return differences
