"""Label smoothing (section 5.4): both forms against references, gradients, what is counted and what memory it takes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from vaswani_transformer.model.loss_vaswani import label_smoothed_loss
from vaswani_transformer.model.modeling_vaswani import shift_right


pytestmark = pytest.mark.quick


def tensor2tensor_loss(logits, labels, smoothing):
    """`smoothing_cross_entropy` of tensor2tensor in float64, averaged over the labels that are not -100."""
    logits = logits.detach().double().numpy().reshape(-1, logits.shape[-1])
    labels = labels.numpy().reshape(-1)
    vocab_size = logits.shape[-1]
    confidence, low_confidence = 1.0 - smoothing, smoothing / (vocab_size - 1)
    normalizing = -(
        confidence * np.log(confidence) + (vocab_size - 1) * low_confidence * np.log(low_confidence + 1e-20)
    )
    losses = []
    for row, label in zip(logits, labels, strict=True):
        if label == -100:
            continue
        log_probabilities = row - row.max() - np.log(np.exp(row - row.max()).sum())
        soft_targets = np.full(vocab_size, low_confidence)
        soft_targets[label] = confidence
        losses.append(-(soft_targets * log_probabilities).sum() - normalizing)
    return np.mean(losses)


def random_case(rows=3, length=70, vocab_size=11, scale=4.0):
    """More tokens than one block of the loss, a fifth of them ignored."""
    logits = scale * torch.randn(rows, length, vocab_size)
    labels = torch.randint(vocab_size, (rows, length))
    return logits, labels.masked_fill(torch.rand(rows, length) < 0.2, -100)


@settings(max_examples=60)
@given(
    smoothing=st.sampled_from([0.0, 0.05, 0.1, 0.5, 0.9]),
    vocab_size=st.integers(2, 40),
    tokens=st.sampled_from([1, 2, 63, 64, 65, 128, 200]),
    scale=st.sampled_from([0.1, 4.0, 60.0]),
    seed=st.integers(0, 1000),
)
def test_both_forms_equal_their_references(smoothing, vocab_size, tokens, scale, seed):
    torch.manual_seed(seed)
    logits, labels = random_case(1, tokens, vocab_size, scale)
    labels[0, 0] = 1  # at least one counts
    t2t = label_smoothed_loss(logits, labels, smoothing, "t2t")
    assert t2t.item() == pytest.approx(tensor2tensor_loss(logits, labels, smoothing), rel=1e-5, abs=1e-5)

    logits.requires_grad_()
    uniform = label_smoothed_loss(logits, labels, smoothing, "uniform")
    (actual,) = torch.autograd.grad(uniform, logits)
    reference = cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing)
    (expected,) = torch.autograd.grad(reference, logits)
    torch.testing.assert_close(uniform, reference, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_t2t_is_torch_label_smoothing_of_another_strength_less_a_constant(smoothing):
    """eps over the V - 1 others is eps * V / (V - 1) over all V."""
    logits, labels = random_case()
    logits.requires_grad_()
    vocab_size = logits.shape[-1]
    loss = label_smoothed_loss(logits, labels, smoothing, "t2t")
    reference = cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing * vocab_size / (vocab_size - 1)
    )
    off = smoothing / (vocab_size - 1)
    constant = -(1 - smoothing) * math.log(1 - smoothing) - (smoothing * math.log(off) if off else 0.0)
    torch.testing.assert_close(loss, reference - constant)
    torch.testing.assert_close(*(torch.autograd.grad(x, logits)[0] for x in (loss, reference)))


def test_the_best_t2t_loss_is_zero():
    target = torch.full((1, 1, 9), 0.1 / 8)
    target[..., 4] = 0.9
    assert label_smoothed_loss(target.log(), torch.tensor([[4]]), 0.1, "t2t").item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("smoothing_type", ["t2t", "uniform"])
def test_gradients_in_double_precision(smoothing_type):
    logits, labels = random_case(1, 67, 5, 1.0)

    def loss(logits):
        return label_smoothed_loss(logits, labels, 0.1, smoothing_type)

    assert torch.autograd.gradcheck(loss, logits.double().requires_grad_())


def test_tokens_that_do_not_count_have_no_part():
    logits, labels = random_case()
    logits.requires_grad_()
    loss = label_smoothed_loss(logits, labels, 0.1, "t2t")
    (grad,) = torch.autograd.grad(loss, logits)
    ignored = labels == -100
    assert grad[ignored].eq(0).all() and grad[~ignored].ne(0).all()
    compact = label_smoothed_loss(logits[~ignored].unsqueeze(0), labels[~ignored].unsqueeze(0), 0.1, "t2t")
    torch.testing.assert_close(loss, compact)


@pytest.mark.parametrize("smoothing_type", ["t2t", "uniform"])
def test_a_batch_without_labels_has_loss_and_gradients_of_zero(tiny_model, make_batch, smoothing_type):
    model, batch = tiny_model(label_smoothing_type=smoothing_type), make_batch()
    for is_training in (True, False):
        model.train(is_training).zero_grad()
        for count in (None, 0, torch.tensor(0)):
            loss = model(**batch, labels=torch.full((3, 6), -100), num_items_in_batch=count).loss
            loss.backward()
            assert loss == 0
        assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("count", [500, torch.tensor(500)])
def test_the_sum_is_divided_by_num_items_in_batch(count):
    logits, labels = random_case()
    mean = label_smoothed_loss(logits, labels, 0.1, "t2t")
    loss = label_smoothed_loss(logits, labels, 0.1, "t2t", count)
    torch.testing.assert_close(loss, mean * (labels != -100).sum() / 500)


@pytest.mark.parametrize("smoothing_type", ["t2t", "uniform"])
def test_the_model_smooths_in_training_and_not_in_evaluation(tiny_model, make_batch, smoothing_type):
    model, batch = tiny_model(label_smoothing=0.2, label_smoothing_type=smoothing_type), make_batch()
    labels = torch.randint(48, (3, 6)).masked_fill(batch["decoder_attention_mask"] == 0, -100)
    for count in (None, 50):
        outputs = model.train()(**batch, labels=labels, num_items_in_batch=count)
        expected = label_smoothed_loss(outputs.logits, labels, 0.2, smoothing_type, count)
        torch.testing.assert_close(outputs.loss, expected)
        outputs = model.eval()(**batch, labels=labels, num_items_in_batch=count)
        plain = cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), reduction="sum")
        torch.testing.assert_close(outputs.loss, plain / (count or (labels != -100).sum()))
        assert abs(outputs.loss - expected) > 0.01


def test_labels_are_shifted_right_to_make_the_decoder_input(tiny_model, make_batch):
    labels = torch.tensor([[5, 6, 1, -100], [7, 8, 9, 1], [-100, -100, 5, 1]])
    expected = torch.tensor([[2, 5, 6, 1], [2, 7, 8, 9], [2, 0, 0, 5]])
    assert torch.equal(shift_right(labels, start_token_id=2, pad_token_id=0), expected)
    model, batch = tiny_model(decoder_start_token_id=2), make_batch()
    assert torch.equal(model.prepare_decoder_input_ids_from_labels(labels=labels), expected)
    source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    with torch.no_grad():
        implicit = model(**source, labels=labels)
        explicit = model(**source, decoder_input_ids=expected, labels=labels)
    torch.testing.assert_close(implicit.loss, explicit.loss, rtol=0, atol=0)


def test_half_precision_loses_nothing_but_the_logits_own_rounding():
    logits, labels = random_case(1, 130, 33)
    half = logits.bfloat16().requires_grad_()
    full = half.detach().float().requires_grad_()
    losses = [label_smoothed_loss(x, labels, 0.1, "t2t") for x in (half, full)]
    assert losses[0].dtype == torch.float32
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-6, atol=0)
    grads = [torch.autograd.grad(loss, x)[0] for loss, x in zip(losses, (half, full), strict=True)]
    assert grads[0].dtype == torch.bfloat16
    torch.testing.assert_close(grads[0], grads[1].bfloat16(), rtol=2**-7, atol=0)


class LargestTensors(TorchDispatchMode):
    """Records the elements of the largest tensor of each dtype that any operation returns."""

    def __init__(self):
        super().__init__()
        self.elements = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.elements[tensor.dtype] = max(self.elements.get(tensor.dtype, 0), tensor.numel())
        return result


def test_half_precision_logits_are_never_copied_whole_to_float32():
    tokens, vocab_size = 2048, 50
    logits = torch.randn(1, tokens, vocab_size, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.randint(vocab_size, (1, tokens))
    with LargestTensors() as largest:
        label_smoothed_loss(logits, labels, 0.1, "t2t").backward()
    assert largest.elements[torch.bfloat16] == tokens * vocab_size  # the gradient, which has to be
    assert largest.elements[torch.float32] <= tokens * vocab_size / 8


def test_float32_logits_are_kept_for_the_backward_pass_without_a_copy():
    logits, labels = torch.randn(1, 2048, 50, requires_grad=True), torch.randint(50, (1, 2048))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        label_smoothed_loss(logits, labels, 0.1, "t2t")
    large = [tensor for tensor in saved if tensor.numel() >= logits.numel()]
    assert [tensor.data_ptr() for tensor in large] == [logits.data_ptr()]
