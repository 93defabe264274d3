"""A step of training: gradients with checkpointing, under autocast, of every parameter; and that it learns."""

import pytest
import torch
from model_examples import SHARING, enable_checkpointing, gradients
from torch import nn


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradient_checkpointing_changes_no_gradient(tiny_model, make_batch, use_reentrant):
    """Dropout included: the second forward draws the same."""
    model, batch = tiny_model(dropout=0.2, attention_dropout=0.1).train(), make_batch()
    loss, expected = gradients(model, batch)
    enable_checkpointing(model, use_reentrant=use_reentrant)
    calls = []
    hook = model.model.decoder.layers[0].feed_forward.register_forward_hook(lambda *_: calls.append(1))
    again, actual = gradients(model, batch)
    hook.remove()
    assert len(calls) == 2, "the layer ran again for the backward pass"
    torch.testing.assert_close(again, loss)
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], msg=name)


def test_training_under_autocast(tiny_model, make_batch):
    model, batch = tiny_model().train(), make_batch()
    loss, expected = gradients(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(**batch, labels=batch["decoder_input_ids"])
    assert (outputs.logits.dtype, outputs.loss.dtype) == (torch.bfloat16, torch.float32)
    assert outputs.encoder_last_hidden_state.dtype == torch.bfloat16, "a stack converts its input only once"
    model.zero_grad()
    outputs.loss.backward()
    torch.testing.assert_close(outputs.loss.detach(), loss, rtol=0.02, atol=0.02)
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype == torch.float32
        error = (parameter.grad - expected[name]).norm() / (expected[name].norm() + 1e-3)
        assert error < 0.2, name  # bfloat16 has 8 bits


def test_it_learns(tiny_model, make_batch):
    model, batch = tiny_model(dropout=0.1).train(), make_batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
    labels = batch.pop("decoder_input_ids").masked_fill(batch.pop("decoder_attention_mask") == 0, -100)
    losses = []
    for _ in range(60):
        loss = model(**batch, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def test_parameters_are_all_used(tiny_model, make_batch):
    """Distributed training without `find_unused_parameters` needs it."""
    for fields in SHARING.values():
        model = tiny_model(**fields, attention_bias=True)
        for name, grad in gradients(model, make_batch())[1].items():
            assert grad is not None, name
        assert isinstance(model.model.encoder.norm, nn.Identity)
