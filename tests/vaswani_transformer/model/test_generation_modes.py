"""Ways of generating other than beam search: sampling, given starts, constraints, streaming, assisted decoding."""

import copy
from threading import Thread

import pytest
import torch
from generation_examples import (
    BATCH,
    EOS,
    MODEL,
    MODES,
    PAD,
    PAPER,
    SOURCES,
    assert_well_formed,
    ending_model,
    generated,
    log_probability,
    padded,
    paper_search,
)
from paper_beam_search import length_penalty
from transformers import TextIteratorStreamer, TextStreamer
from waiting import TIMEOUT

from vaswani_transformer import Shortlist
from vaswani_transformer.learn_bpe import learn_tokenizer


# Sampling -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [MODES["sampling"], MODES["beam sampling"]], ids=["sampling", "beam sampling"])
def test_sampling_is_seeded(mode):
    outputs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        outputs.append(MODEL.generate(BATCH, **mode, max_new_tokens=15, num_return_sequences=3))
        assert outputs[-1].shape[0] == 3 * len(BATCH)
        assert_well_formed(outputs[-1])
    assert torch.equal(outputs[0], outputs[1])
    assert generated(outputs[0]) != generated(outputs[2])


def test_sampling_follows_the_probabilities():
    draws = 4000
    tokens = MODEL.generate(BATCH[:2], do_sample=True, top_k=0, max_new_tokens=1, num_return_sequences=draws)[:, 1]
    for source, drawn in zip(SOURCES, tokens.split(draws), strict=False):
        expected = [log_probability(MODEL, source, [token]) for token in range(30)]
        expected = torch.tensor(expected).exp()
        assert expected.sum().item() == pytest.approx(1.0)
        expected[PAD] = 0.0
        expected /= expected.sum()
        assert expected.max() < 0.95, "a model this sure shows nothing"
        observed = drawn.bincount(minlength=30) / draws
        torch.testing.assert_close(observed.double(), expected.double(), atol=0.035, rtol=0)  # 4 standard deviations


def test_sampling_among_one_is_greedy():
    assert torch.equal(MODEL.generate(BATCH, do_sample=True, top_k=1), MODEL.generate(BATCH))


def test_beam_sampling_scores_as_beam_search_does():
    output = MODEL.generate(
        BATCH, **{**PAPER, "do_sample": True, "top_k": 0}, num_return_sequences=4, max_new_tokens=12,
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    lengths = (output.beam_indices >= 0).sum(dim=-1).tolist()
    for i, (row, length) in enumerate(zip(output.sequences.tolist(), lengths, strict=True)):
        tokens = row[1 : 1 + length]
        score = log_probability(MODEL, SOURCES[i // 4], tokens) / length_penalty(length, 0.6)
        assert output.sequences_scores[i].item() == pytest.approx(score, abs=1e-4)


# Prefixes and constraints ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [{}, PAPER], ids=["greedy", "beam"])
def test_prefix(mode):
    """`decoder_input_ids` with or without the start token; greedy search continues a greedy prefix with the rest."""
    whole = MODEL.generate(BATCH, max_new_tokens=8)
    prefix = whole[:, 1:4].clone()
    prefix[prefix <= EOS] = 2
    with_start = torch.cat((torch.zeros(len(prefix), 1, dtype=torch.long), prefix), dim=1)
    bare = MODEL.generate(BATCH, decoder_input_ids=prefix, max_new_tokens=8, **mode)
    assert torch.equal(bare[:, :4], with_start)
    assert torch.equal(bare, MODEL.generate(BATCH, decoder_input_ids=with_start, max_new_tokens=8, **mode))
    if not mode:
        kept = (whole[:, 1:4] > EOS).all(dim=1)
        assert kept.any()
        for part, full in zip(generated(bare[kept]), generated(whole[kept]), strict=True):
            assert part[: len(full)] == full


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("mode", [{}, PAPER], ids=["greedy", "beam"])
def test_prefixes_of_different_lengths(mode, use_cache):
    """Padded on the left and masked: each sentence continues as it does alone."""
    prefixes = [[PAD, 3, 4, 5], [PAD, 6], [PAD, 7, 8]]  # from the start token on
    together = MODEL.generate(
        BATCH,
        decoder_input_ids=padded(prefixes, "left"),
        decoder_attention_mask=padded([[1] * len(prefix) for prefix in prefixes], "left"),
        max_new_tokens=6,
        use_cache=use_cache,
        **mode,
    )
    for source, prefix, row in zip(SOURCES, prefixes, together, strict=True):
        source, prefix_ids = torch.tensor([source]), torch.tensor([prefix])
        alone = MODEL.generate(source, decoder_input_ids=prefix_ids, max_new_tokens=6, **mode)
        assert generated(row[4 - len(prefix) :].unsqueeze(0)) == generated(alone)


def test_allowed_tokens():
    """Each sentence has its own allowed tokens, in beam search too."""
    allowed = [[EOS, 4, 5, 6, 7, 8], [EOS, 14, 15, 16, 17, 18], [EOS, *range(20, 30)]]
    seen = set()

    def allow(sentence, prefix):
        seen.add(sentence)
        return allowed[sentence]

    for beams in (1, 3):
        output = MODEL.generate(
            BATCH, prefix_allowed_tokens_fn=allow, num_beams=beams, num_return_sequences=beams, max_new_tokens=8,
            **dict(length_penalty=0.6, early_stopping="never") if beams > 1 else {},
        )  # fmt: skip
        assert_well_formed(output)
        rows = generated(output)
        for i, source in enumerate(SOURCES):
            reference = paper_search(MODEL, source, beams, 0.6, 8, beams, allowed=allowed[i])
            assert reference.margin > 1e-5
            assert rows[i * beams : (i + 1) * beams] == [hypothesis.tokens for hypothesis in reference.hypotheses]
    assert seen == {0, 1, 2}


# Streaming ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def speaking():
    """A model and a tokenizer of bytes that can only say letters and spaces, and the text they give for a source."""
    tokenizer = learn_tokenizer(["abc"], 258)
    model = ending_model(6, vocab_size=258)
    letters = [EOS, *tokenizer.convert_tokens_to_ids(["Ġ", *"abcdefghijkl"])]
    source = tokenizer("a few words", return_tensors="pt")
    options = dict(**source, prefix_allowed_tokens_fn=lambda *_: letters, max_new_tokens=30, min_new_tokens=10)
    text = tokenizer.decode(model.generate(**options)[0], skip_special_tokens=True)
    assert len(text) >= 9
    return model, tokenizer, options, text


def test_text_streamer(speaking, capsys):
    model, tokenizer, options, text = speaking
    model.generate(**options, streamer=TextStreamer(tokenizer, skip_special_tokens=True))
    assert capsys.readouterr().out == text + "\n"


def test_text_iterator_streamer(speaking):
    model, tokenizer, options, text = speaking
    streamer = TextIteratorStreamer(tokenizer, skip_special_tokens=True, timeout=TIMEOUT)
    thread = Thread(target=model.generate, kwargs=dict(**options, streamer=streamer))
    thread.start()
    pieces = list(streamer)
    thread.join()
    assert "".join(pieces) == text


def test_what_cannot_stream_is_refused(speaking):
    """The library streams one sentence, and no beam search, whose best hypothesis is known only at the end."""
    model, tokenizer, options, _ = speaking
    streamer = TextStreamer(tokenizer)
    with pytest.raises(ValueError, match="beam search"):
        model.generate(**options, streamer=streamer, num_beams=2)
    with pytest.raises(ValueError, match="batch size 1"):
        model.generate(torch.tensor([[5, 1], [6, 1]]), streamer=streamer, max_new_tokens=3)


@pytest.mark.parametrize("beams", [1, 3])
def test_our_arguments_go_with_the_librarys_own(speaking, capsys, beams):
    """`stop_strings` needs `tokenizer` and streaming `streamer`: both must reach the search beside `return_cache`."""
    model, tokenizer, options, text = speaking
    everything = Shortlist(torch.zeros(258, 1), torch.arange(258))
    options = dict(**options, num_beams=beams, return_cache=False, return_dict_in_generate=True, shortlist=everything)
    whole = model.generate(**options)
    assert whole.past_key_values is None
    stop = tokenizer.decode(whole.sequences[0, 12:14])
    stopped = model.generate(**options, stop_strings=[stop], tokenizer=tokenizer)
    assert stopped.past_key_values is None and 1 < stopped.sequences.shape[1] < whole.sequences.shape[1]
    assert stop in tokenizer.decode(stopped.sequences[0])
    if beams == 1:
        capsys.readouterr()
        model.generate(**options, streamer=TextStreamer(tokenizer, skip_special_tokens=True))
        assert capsys.readouterr().out == text + "\n"


# Assisted decoding ----------------------------------------------------------------------------------------------------


ASSISTED = {
    "assistant": dict(assistant_model=ending_model(8)),
    "prompt lookup": dict(prompt_lookup_num_tokens=3),
    "early exit": dict(assistant_early_exit=1),
}


@pytest.mark.parametrize("options", ASSISTED.values(), ids=ASSISTED.keys())
@pytest.mark.parametrize("seed", [2, 4])
def test_assisted_equals_greedy(seed, options):
    model = ending_model(seed)
    for source in SOURCES:
        source = torch.tensor([source])
        assert generated(model.generate(source, **options)) == generated(model.generate(source))


@pytest.mark.parametrize("options", [ASSISTED["assistant"], ASSISTED["prompt lookup"]], ids=["assistant", "lookup"])
def test_assisted_sampling(options):
    """The drafts change what is drawn, not how likely: padding stays impossible, `</s>` stays the end."""
    for seed in range(4):
        torch.manual_seed(seed)
        sequences = MODEL.generate(BATCH[:1], **options, do_sample=True, max_new_tokens=12)
        assert_well_formed(sequences)
        assert 1 <= len(generated(sequences)[0]) <= 12


def test_assistance_the_library_refuses():
    options = ASSISTED["assistant"]
    with pytest.raises(ValueError, match="batch_size = 1"):
        MODEL.generate(BATCH, **options)
    with pytest.raises((TypeError, ValueError), match="[Ss]tatic"):
        MODEL.generate(BATCH[:1], **options, cache_implementation="static")
    with pytest.raises(ValueError, match="different tokenizers"):
        MODEL.generate(BATCH[:1], assistant_model=ending_model(8, vocab_size=20))


# What may not be passed by --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [{}, PAPER], ids=["greedy", "beam"])
def test_who_watches_or_replaces_the_decoder_is_heard(mode):
    """Generation goes through the model's own forward where a subclass, a hook or a patch has something to say."""
    source, calls = BATCH[:1], []

    class Counting(type(MODEL)):
        def forward(self, *args, **kwargs):
            calls.append("subclass")
            return super().forward(*args, **kwargs)

    def patched(model):
        forward = model.model.decoder.forward
        model.model.decoder.forward = lambda *args, **kwargs: calls.append("patch") or forward(*args, **kwargs)

    def hooked(model):
        norm = model.model.decoder.layers[0].self_attn_norm
        norm.register_forward_hook(lambda *_: calls.append("hook"))

    def watched(model):
        projection = model.model.decoder.layers[0].self_attn.out_proj
        projection.register_forward_hook(lambda *_: calls.append("linear"))

    expected = MODEL.generate(source, **mode)
    for name, change in (("patch", patched), ("hook", hooked), ("linear", watched)):
        model = copy.deepcopy(MODEL)
        change(model)
        assert torch.equal(model.generate(source, **mode), expected) and set(calls) == {name}
        calls.clear()
    model = copy.deepcopy(MODEL)
    model.__class__ = Counting
    assert torch.equal(model.generate(source, **mode), expected) and set(calls) == {"subclass"}
