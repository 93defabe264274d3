"""Configurations that share embeddings in each way, and how models are compared."""

import pytest
import torch
from transformers.cache_utils import EncoderDecoderCache, StaticCache


# One configuration for each way of sharing, with two vocabularies where that is possible.
SHARING = {
    "all": dict(share_embeddings="all", softmax_bias=True),
    "target": dict(share_embeddings="target", softmax_bias=True, decoder_vocab_size=56),
    "none": dict(share_embeddings="none", softmax_bias=True, decoder_vocab_size=56),
}
each_sharing = pytest.mark.parametrize("fields", SHARING.values(), ids=SHARING)


def enable_checkpointing(model, use_reentrant: bool):
    """Gradient checkpointing, under its new name where this version of transformers has it."""
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": use_reentrant})


def logits_of(model, batch):
    with torch.no_grad():
        return model(**batch).logits


def assert_same_parameters(actual, expected):
    """The same names, values and ties."""
    actual, expected = (dict(model.named_parameters(remove_duplicate=False)) for model in (actual, expected))
    assert actual.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], rtol=0, atol=0, msg=name)

    def ties(parameters):
        groups = {}
        for name, parameter in parameters.items():
            groups.setdefault(parameter, set()).add(name)
        return sorted(sorted(names) for names in groups.values())

    assert ties(actual) == ties(expected)


def gradients(model, batch, **options):
    model.zero_grad()
    torch.manual_seed(3)
    loss = model(**batch, labels=batch["decoder_input_ids"], **options).loss
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def static_cache(model, source_length, target_length):
    config = model.config.get_text_config(decoder=True)
    return EncoderDecoderCache(
        StaticCache(config=config, max_cache_len=target_length), StaticCache(config=config, max_cache_len=source_length)
    )
