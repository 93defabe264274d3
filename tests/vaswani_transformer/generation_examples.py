"""Small models that `generate` can be tested on, what they are given, and the search that theirs is compared with."""

import random

import pytest
import torch
from paper_beam_search import beam_search
from transformers import GenerationMixin, LogitsProcessorList

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.model.settings_vaswani import NeverPad


PAD, EOS = 0, 1
PAPER = dict(num_beams=4, length_penalty=0.6, early_stopping="never")
MODES = {
    "greedy": dict(),
    "sampling": dict(do_sample=True),
    "beam": dict(num_beams=3),
    "beam sampling": dict(num_beams=3, do_sample=True),
}
every_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())


def ending_model(seed: int = 0, **fields) -> VaswaniForConditionalGeneration:
    """A small model with large random weights that likes padding, and in which `</s>` comes at various lengths."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    config = VaswaniConfig(
        **{
            **dict(
                vocab_size=30, d_model=16, d_ff=24, encoder_layers=1, decoder_layers=1 + seed % 2,
                encoder_attention_heads=2, decoder_attention_heads=4, dropout=0.0, softmax_bias=True,
                scale_embedding=False,
            ),
            **fields,
        }
    )  # fmt: skip
    model = VaswaniForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(rng.uniform(1.0, 2.5))
        else:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    weight, bias = model.lm_head.weight.data, model.lm_head.bias.data
    with torch.no_grad():
        bias[:2] -= 1e4
        source, length = torch.randint(2, config.vocab_size, (4, 6)), rng.randint(1, 20)
        target = torch.randint(2, config.decoder_vocab_size, (4, 31))
        hidden_states = model.model(source, decoder_input_ids=target).last_hidden_state
        late = hidden_states[:, length:].mean(dim=(0, 1)) - hidden_states[:, :length].mean(dim=(0, 1))
        weight[EOS] += rng.uniform(2.0, 8.0) * late / late.norm()
        logits = model.lm_head(hidden_states)
        bias[:2] += 1e4
    leads = logits[:, length:, 2:].amax(dim=-1) - (logits[:, length:, EOS] + 1e4)
    bias[EOS] += leads.flatten().quantile(rng.uniform(0.1, 0.6))
    bias[PAD] += rng.uniform(0.0, 10.0)
    return model


def endless_model(**fields) -> VaswaniForConditionalGeneration:
    model = ending_model(**fields)
    model.lm_head.bias.data[EOS] = -1e4
    return model


def padded(sentences: list[list[int]], side: str = "right") -> torch.Tensor:
    width = max(map(len, sentences))
    rows = []
    for sentence in sentences:
        padding = [PAD] * (width - len(sentence))
        rows.append(sentence + padding if side == "right" else padding + sentence)
    return torch.tensor(rows)


SOURCES = [[5, 9, 7, 12, 3, 22, 1], [8, 4, 1], [17, 1]]
BATCH = padded(SOURCES)
MODEL = ending_model(4)


def generated(sequences: torch.Tensor) -> list[list[int]]:
    """What each row holds after the start token, without the padding after it."""
    rows = []
    for row in sequences[:, 1:].tolist():
        while row and row[-1] == PAD:
            row.pop()
        rows.append(row)
    return rows


def assert_well_formed(sequences: torch.Tensor):
    """Start token, tokens that are neither padding nor `</s>`, perhaps one `</s>`, then padding only."""
    assert (sequences[:, 0] == PAD).all()
    for row in generated(sequences):
        assert PAD not in row and EOS not in row[:-1]


def log_probability(model, source, tokens, prefix=()) -> float:
    """log P(tokens | source, prefix) in one pass of the model."""
    ids = [model.config.decoder_start_token_id, *prefix, *tokens]
    with torch.no_grad():
        logits = model(torch.tensor([source]), decoder_input_ids=torch.tensor([ids[:-1]])).logits[0].double()
    log_probs = logits.log_softmax(dim=-1)[-len(tokens) :]
    return log_probs.gather(-1, torch.tensor(tokens).unsqueeze(-1)).sum().item()


@torch.no_grad()
def paper_search(model, source, beams, alpha, max_new_tokens, n_best=1, prefix=(), allowed=None, offset=5):
    """The reference on one sentence: no batch, no padding, no cache. Greedy search is one beam without a penalty."""
    encoded = model.get_encoder()(torch.tensor([source])).last_hidden_state
    start = [model.config.decoder_start_token_id, *prefix]

    def log_probs(hypotheses):
        logits = model(
            encoder_outputs=(encoded.expand(len(hypotheses), -1, -1),),
            decoder_input_ids=torch.tensor([start + tokens for tokens in hypotheses]),
            use_cache=False,
        ).logits[:, -1]
        log_probs = logits.double().log_softmax(dim=-1)
        log_probs[:, model.config.pad_token_id] = -torch.inf
        if allowed is not None:
            forbidden = torch.ones(log_probs.shape[-1], dtype=torch.bool)
            forbidden[allowed] = False
            log_probs[:, forbidden] = -torch.inf
        return log_probs

    alpha = alpha if beams > 1 else 0.0
    return beam_search(log_probs, EOS, beams, alpha, max_new_tokens, n_best, offset=offset)


class LibrarySearch(VaswaniForConditionalGeneration):
    """With the library's own loop, which ranks by log P / length^alpha: ours does with an offset of 0."""

    _beam_search = GenerationMixin._beam_search

    def _get_logits_processor(self, *args, **kwargs):
        return LogitsProcessorList([NeverPad(PAD), *super()._get_logits_processor(*args, **kwargs)])


def shapes(nested) -> list | tuple:
    return [shapes(x) for x in nested] if isinstance(nested, tuple) else tuple(nested.shape)
