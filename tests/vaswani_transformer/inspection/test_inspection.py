"""Inspection: its tensors against transformers' own outputs and the paper's formulas, its trace against `generate`."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from paper_beam_search import length_penalty
from tiny_checkpoint import PAIRS, tiny_checkpoint
from torch.testing import assert_close
from waiting import TIMEOUT

import vaswani_transformer
from vaswani_transformer import inspect_translation, load, without_heads
from vaswani_transformer.inspection.heads import (
    ablate_heads,
    attentions_of,
    head_names,
    search,
    shared_copy,
)
from vaswani_transformer.inspection.inspection import record_tensors, trace_search
from vaswani_transformer.model.forced_vaswani import forced_log_probs
from vaswani_transformer.model.loss_vaswani import label_smoothed_loss


VARIANTS = {
    "paper": {},
    "pre-norm": dict(norm_position="pre"),
    "pre-norm encoder alone": dict(norm_position="pre", decoder_norm_position="post", final_norm=True),
    "learned positions": dict(position_encoding="learned", max_position_embeddings=40, position_offset=2),
    "no positions": dict(position_encoding="none"),
    "one head": dict(encoder_attention_heads=1, decoder_attention_heads=8),
    "d_k and d_v of their own": dict(d_k=3, d_v=5),
    "two vocabularies": dict(share_embeddings="target", decoder_vocab_size=40, decoder_d_ff=24),
    "biases and a space vector": dict(attention_bias=True, softmax_bias=True, source_space_embedding=True),
    "unbiased norms, another activation": dict(layer_norm_deviation="unbiased", activation_function="gelu"),
    "plain embeddings": dict(scale_embedding=False, zero_pad_embedding=False),
}
every_variant = pytest.mark.parametrize("fields", VARIANTS.values(), ids=VARIANTS.keys())
SENTENCE = "A woman reads a long book in the old park."


def ids(length: int, first: tuple[int, ...] = ()) -> torch.Tensor:
    return torch.cat((torch.tensor([first], dtype=torch.long), torch.randint(3, 40, (1, length))), dim=1)


@pytest.fixture(scope="module")
def tiny():
    return load(tiny_checkpoint(), dtype="float32")


# Tensors -------------------------------------------------------------------------------------------------------------


@every_variant
def test_tensors_are_those_that_transformers_gives_out(tiny_model, fields):
    model = tiny_model(**fields)
    source, target = ids(7), ids(5, first=(0,))
    tensors, logits = record_tensors(shared_copy(model), source, target)

    model.set_attn_implementation("eager")
    wanted = model(input_ids=source, decoder_input_ids=target, output_attentions=True, output_hidden_states=True)
    assert_close(logits, wanted.logits[0])
    for name, weights in (
        ("encoder.layers.{}.self_attn.weights", wanted.encoder_attentions),
        ("decoder.layers.{}.self_attn.weights", wanted.decoder_attentions),
        ("decoder.layers.{}.cross_attn.weights", wanted.cross_attentions),
    ):
        for layer, expected in enumerate(weights):
            assert_close(tensors[name.format(layer)], expected[0])
    for stack, states in (("encoder", wanted.encoder_hidden_states), ("decoder", wanted.decoder_hidden_states)):
        ours = [tensors[f"{stack}.input"]]
        ours += [tensors[f"{stack}.layers.{layer}.feed_forward.result"] for layer in range(len(states) - 1)]
        for tensor, expected in zip(ours[:-1], states[:-1], strict=True):
            assert_close(tensor, expected[0])
    assert_close(tensors["encoder.output"], wanted.encoder_last_hidden_state[0])
    assert_close(tensors["decoder.output"], wanted.decoder_hidden_states[-1][0])


@every_variant
def test_tensors_follow_the_papers_formulas(tiny_model, fields):
    model = tiny_model(**fields)
    source, target = ids(7), ids(5, first=(0,))
    tensors, _ = record_tensors(shared_copy(model), source, target)
    for stack in ("encoder", "decoder"):
        assert_close(tensors[f"{stack}.input"], tensors[f"{stack}.embedding"] + tensors[f"{stack}.positions"])
        stream = tensors[f"{stack}.input"]
        for index, layer in enumerate(getattr(model.model, stack).layers):
            for kind in ("self_attn", "cross_attn", "feed_forward"):
                if hasattr(layer, kind):
                    part = {
                        n.rpartition(".")[2]: x for n, x in tensors.items() if f"{stack}.layers.{index}.{kind}." in n
                    }
                    assert_close(part["input"], stream)
                    check_sublayer(layer, kind, part, is_masked=stack == "decoder" and kind == "self_attn")
                    stream = part["result"]
        assert_close(tensors[f"{stack}.output"], getattr(model.model, stack).norm(stream))


def check_sublayer(layer, kind: str, part: dict[str, torch.Tensor], is_masked: bool):
    """Equations 1 and 2 and "Add & Norm", written out."""
    module, norm = getattr(layer, kind), getattr(layer, f"{kind}_norm")
    if kind == "feed_forward":
        x = norm(part["input"]) if layer.pre_norm else part["input"]
        assert_close(part["hidden"], module.activation(module.fc1(x)))
        assert_close(part["output"], module.fc2(part["hidden"]))
    else:
        scores = torch.einsum("htk,hsk->hts", part["query"], part["key"]) / module.d_k**0.5
        assert_close(part["scores"], scores)
        if is_masked:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf"))
        weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
        assert_close(part["weights"], weights)
        assert_close(part["heads"], weights @ part["value"])
        assert part["value"].shape == (module.num_heads, scores.shape[-1], module.d_v)
        assert_close(part["output"], module.out_proj(torch.cat(part["heads"].unbind(), dim=-1)))
    total = part["input"] + part["output"]
    assert_close(part["sum"], total)
    if layer.pre_norm:
        assert_close(part["result"], total)
    else:
        centred = total - total.mean(dim=-1, keepdim=True)
        deviation = (total.var(dim=-1, correction=0, keepdim=True) + norm.eps).sqrt()
        if norm.unbiased:
            deviation = total.std(dim=-1, keepdim=True) + norm.eps
        assert_close(part["result"], centred / deviation * norm.weight + norm.bias, atol=1e-4, rtol=1e-4)


def test_names_are_in_the_order_of_figure_1(tiny_model):
    tensors, _ = record_tensors(shared_copy(tiny_model()), ids(4), ids(3, first=(0,)))
    names = list(tensors)
    assert names[:4] == ["encoder.embedding", "encoder.positions", "encoder.input", "encoder.layers.0.self_attn.input"]
    assert names[-1] == "decoder.output"
    assert [n for n in names if n.startswith("decoder.layers.2.feed_forward")][-1].endswith("result")
    assert names.index("encoder.output") < names.index("decoder.embedding")
    assert all(x.dtype == torch.float32 for x in tensors.values())


def test_without_the_mask_a_position_sees_what_it_should_predict(tiny):
    inspection = inspect_translation(*tiny, SENTENCE)
    leaky = inspect_translation(*tiny, SENTENCE, causal=False)
    assert leaky.translation == inspection.translation
    name = "decoder.layers.0.self_attn.weights"
    assert inspection.tensors[name].triu(1).abs().max() == 0
    assert leaky.tensors[name][:, 0, 1:].min() > 0
    name = "decoder.layers.0.self_attn.scores"
    assert_close(leaky.tensors[name], inspection.tensors[name])


def test_in_bfloat16_the_tensors_are_float32(tiny_model):
    tensors, _ = record_tensors(shared_copy(tiny_model().bfloat16()), ids(4), ids(3, first=(0,)))
    assert all(x.dtype == torch.float32 for x in tensors.values())


# The model stays as it is --------------------------------------------------------------------------------------------


def state_of(model) -> tuple:
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    return hooks, model.config.to_dict(), model.config._attn_implementation, model.training, sorted(vars(model))


def test_the_model_is_left_as_it_was_even_after_an_error(tiny, monkeypatch):
    model, tokenizer = tiny
    before = state_of(model)
    inspect_translation(model, tokenizer, SENTENCE, off=[("encoder", "self_attn", 0, 1)])
    assert state_of(model) == before

    def fail(*arguments, **keywords):
        raise RuntimeError("on the way")

    monkeypatch.setattr("vaswani_transformer.inspection.inspection.record_tensors", fail)
    with pytest.raises(RuntimeError, match="on the way"):
        inspect_translation(model, tokenizer, SENTENCE)
    assert state_of(model) == before
    with pytest.raises(RuntimeError, match="on the way"), without_heads(model, [("encoder", "self_attn", 0, 1)]):
        fail()
    assert state_of(model) == before


def test_a_shared_copy_shares_the_weights_and_nothing_else(tiny):
    model, _ = tiny
    copied = shared_copy(model)
    weights = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in copied.parameters()} == weights
    assert not {id(module) for module in copied.modules()} & {id(module) for module in model.modules()}
    assert copied.config is not model.config
    assert copied.lm_head.weight is copied.model.shared.weight


def test_threads_do_not_see_each_others_heads_and_masks(tiny):
    model, tokenizer = tiny
    settings = [{}, dict(off=[("encoder", "self_attn", 0, 0)]), dict(causal=False), dict(num_beams=1)]
    alone = [inspect_translation(model, tokenizer, SENTENCE, **options) for options in settings]
    start = threading.Barrier(4)

    def run(i: int):
        start.wait(TIMEOUT)
        return [inspect_translation(model, tokenizer, SENTENCE, **settings[i]) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        for inspection, repeated in zip(alone, pool.map(run, range(4)), strict=True):
            for other in repeated:
                assert other.translation == inspection.translation
                for name, x in inspection.tensors.items():
                    assert_close(other.tensors[name], x)


# The whole of a translation ------------------------------------------------------------------------------------------


def test_an_inspection_tells_the_translation_token_by_token(tiny):
    model, tokenizer = tiny
    inspection = inspect_translation(model, tokenizer, SENTENCE)
    assert inspection.translation == PAIRS[SENTENCE]
    assert "".join(token.text for token in inspection.source[:-1]).strip() == SENTENCE
    assert "".join(token.text for token in inspection.outputs[:-1]).strip() == PAIRS[SENTENCE]
    assert [token.kind for token in inspection.source].count("special") == 1
    assert inspection.outputs[-1].text == "</s>"
    assert inspection.target[0].text == "<start>"
    assert inspection.target[1:] == inspection.outputs[:-1]
    assert all(token.text.startswith(" ") == (token.kind == "word") for token in inspection.outputs[:-1])
    assert {x.shape[-2] for n, x in inspection.tensors.items() if n.startswith("encoder")} == {len(inspection.source)}
    assert inspection.tensors["decoder.output"].shape[0] == len(inspection.target) == len(inspection.log_probs)

    logits = model(input_ids=inspection.source_ids, decoder_input_ids=inspection.target_ids[:, :-1]).logits[0]
    assert_close(inspection.log_probs, logits.log_softmax(-1).gather(-1, inspection.target_ids[0, 1:, None])[:, 0])
    for position, alternatives in enumerate(inspection.alternatives):
        values, best = logits[position].log_softmax(-1).topk(10)
        assert [a.token.id for a in alternatives] == best.tolist()
        assert_close(torch.tensor([a.log_prob for a in alternatives]), values)


@pytest.mark.parametrize("smoothing_type", ["t2t", "uniform"])
def test_the_smoothed_loss_follows_from_two_log_probabilities(tiny, smoothing_type):
    model, tokenizer = tiny
    inspection = inspect_translation(model, tokenizer, SENTENCE)
    target = inspection.target_ids
    logits = model(input_ids=inspection.source_ids, decoder_input_ids=target[:, :-1]).logits
    right, mean, size, epsilon = inspection.log_probs, inspection.mean_log_probs, logits.shape[-1], 0.1
    if smoothing_type == "t2t":
        on, off = 1 - epsilon, epsilon / (size - 1)
        least = -on * math.log(on) - epsilon * math.log(off)
    else:
        off, least = epsilon / size, 0
        on = 1 - epsilon + off
    loss = -on * right - off * (size * mean - right) - least
    assert_close(loss.mean(), label_smoothed_loss(logits, target[:, 1:], epsilon, smoothing_type))


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_text_is_refused(tiny, text):
    with pytest.raises(ValueError, match="The text is empty"):
        inspect_translation(*tiny, text)


def test_a_lone_surrogate_is_refused(tiny):
    with pytest.raises(ValueError, match=r"Invalid Unicode \(a lone surrogate\) at position 1"):
        inspect_translation(*tiny, "a\ud800")


def test_a_search_that_takes_too_long_is_an_error(tiny):
    with pytest.raises(TimeoutError, match="longer than 1e-06 seconds"):
        inspect_translation(*tiny, SENTENCE, max_time=1e-6)


@pytest.mark.parametrize("text", ["🙂", "你好", "a\x00b", "Ünïcödé…", "word " * 60])
def test_odd_text_is_inspected_like_any_other(tiny, text):
    inspection = inspect_translation(*tiny, text)
    assert len(inspection.source) == inspection.tensors["encoder.output"].shape[0]


def test_public_names_are_the_packages():
    for name in ("Inspection", "inspect_translation", "without_heads", "attention_figure"):
        assert name in vaswani_transformer.__all__ and getattr(vaswani_transformer, name)


# The search ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beams", [1, 2, 4, 7])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.4])
@pytest.mark.parametrize("name", ["paper", "two vocabularies", "learned positions"])
def test_the_recorded_search_is_the_one_of_generate(tiny_model, beams, alpha, name):
    model, source = tiny_model(**VARIANTS[name], softmax_bias=True), ids(4)
    with torch.no_grad():
        model.lm_head.bias[1] += 4.0  # so that hypotheses end at various lengths
    model.generation_config.max_new_tokens = 12
    model.generation_config.early_stopping = "never" if beams > 1 else False
    wanted = model.generate(source, return_dict_in_generate=True, num_beams=beams, length_penalty=alpha)
    target_ids, trace = trace_search(shared_copy(model), source, beams, alpha)
    assert torch.equal(target_ids, wanted.sequences)
    best = trace.finished[0]
    assert best.tokens == target_ids[0, 1:].tolist()
    if beams > 1:
        assert best.score == pytest.approx(wanted.sequences_scores[0].item(), abs=1e-5)
    check_trace(trace, model, source)


def check_trace(trace, model, source):
    """Totals are sums along the tree, fates agree with what follows, and scores with the paper's length penalty."""
    by_key = {c.key: c for step in trace.steps for c in step}
    for step, candidates in enumerate(trace.steps):
        totals = [c.total for c in candidates]
        assert totals == sorted(totals, reverse=True)
        assert sum(c.fate == "kept" for c in candidates) <= trace.beams
        for candidate in candidates:
            before = by_key[candidate.parent] if candidate.parent else None
            assert (before is None) == (step == 0)
            assert before is None or (before.fate == "kept" and before in trace.steps[step - 1])
            total = candidate.log_prob + (before.total if before else 0.0)
            assert candidate.total == pytest.approx(total, abs=1e-4)
            assert candidate.score == pytest.approx(candidate.total / length_penalty(step + 1, trace.alpha), abs=1e-4)
    for hypothesis in trace.finished:
        assert by_key[hypothesis.key].fate == "finished"
        assert hypothesis.tokens == path_of(by_key, hypothesis.key)
        target = torch.tensor([[0, *hypothesis.tokens]])
        log_prob = forced_log_probs(model, {"input_ids": source}, target).sum().item()
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-3)
    scores = [hypothesis.score for hypothesis in trace.finished]
    assert scores == sorted(scores, reverse=True)


def path_of(by_key: dict, key: str | None) -> list[int]:
    tokens = []
    while key:
        tokens.append(by_key[key].token)
        key = by_key[key].parent
    return tokens[::-1]


# Heads switched off --------------------------------------------------------------------------------------------------


@every_variant
def test_a_head_that_is_off_is_a_head_whose_part_of_w_o_is_zero(tiny_model, fields):
    model = tiny_model(**fields)
    source, target = ids(7), ids(5, first=(0,))
    heads = head_names(model)
    assert len(heads) == sum(attention.num_heads for attention in attentions_of(model).values())
    for head in heads[:: max(1, len(heads) // 6)]:
        with without_heads(model, [head]):
            ours = model(input_ids=source, decoder_input_ids=target).logits
        changed = without_columns(tiny_copy(model), head)
        assert_close(ours, changed(input_ids=source, decoder_input_ids=target).logits)
        assert (ours - model(input_ids=source, decoder_input_ids=target).logits).abs().max() > 1e-5


def tiny_copy(model):
    copied = type(model)(model.config).eval()
    copied.load_state_dict(model.state_dict())
    return copied


@torch.no_grad()
def without_columns(model, head):
    attention = attentions_of(model)[head[:3]]
    attention.out_proj.weight[:, head[3] * attention.d_v : (head[3] + 1) * attention.d_v] = 0
    return model


@pytest.mark.parametrize("beams", [1, 4])
def test_heads_are_off_in_generate_and_its_caches(tiny_model, beams):
    model, source = tiny_model(), ids(6)
    heads = [("encoder", "self_attn", 1, 0), ("decoder", "self_attn", 2, 3), ("decoder", "cross_attn", 0, 1)]
    with without_heads(model, heads):
        ours = model.generate(source, num_beams=beams, max_new_tokens=10)
    changed = tiny_copy(model)
    for head in heads:
        without_columns(changed, head)
    assert torch.equal(ours, changed.generate(source, num_beams=beams, max_new_tokens=10))


@pytest.mark.parametrize(
    "head", [("encoder", "self_attn", 0, 9), ("encoder", "cross_attn", 0, 0), ("middle", "self_attn", 0, 0),
             ("decoder", "self_attn", 3, 0), ("decoder", "self_attn", -1, 0), ("decoder", "self_attn", 0, -1)],
)  # fmt: skip
def test_a_head_that_does_not_exist_is_an_error_that_says_which_do(tiny_model, head):
    with (
        pytest.raises(ValueError, match="the encoder has 2 layers of 2 heads, the decoder 3 of 4"),
        without_heads(tiny_model(), [head]),
    ):
        pass


@pytest.mark.parametrize("beams", [1, 3])
def test_every_head_by_itself_in_one_batch_is_what_each_gives_alone(tiny_model, beams):
    model, source = tiny_model(), ids(6)
    model.generation_config.max_new_tokens = 8
    target = model.generate(source, num_beams=beams)
    whole, *ablations = ablate_heads(model, source, target, num_beams=beams, batch_size=7)
    assert whole.head is None and torch.equal(whole.target_ids, target[0])
    unchanged = forced_log_probs(model, {"input_ids": source}, target).sum().item()
    assert whole.log_prob_of_original == pytest.approx(unchanged, abs=1e-4)
    assert [ablation.head for ablation in ablations] == head_names(model)
    for ablation in ablations[::5]:
        with without_heads(model, [ablation.head]):
            log_prob = forced_log_probs(model, {"input_ids": source}, target).sum().item()
            alone = search(shared_copy(model), source, beams)
        assert ablation.log_prob_of_original == pytest.approx(log_prob, abs=1e-4)
        assert torch.equal(ablation.target_ids, alone.sequences[0])
        assert ablation.score == pytest.approx(alone.sequences_scores[0].item(), abs=1e-4)
