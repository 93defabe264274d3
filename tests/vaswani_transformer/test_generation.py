"""Generation: the search against the paper's, our loop against the library's, and every mode of `generate`."""

import copy
import random
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_beam_search import beam_search, length_penalty
from transformers import (
    CompileConfig,
    DynamicCache,
    EncoderDecoderCache,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    MarianConfig,
    MarianMTModel,
    StoppingCriteriaList,
    TextIteratorStreamer,
    TextStreamer,
)

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.attention_vaswani import BeamCache
from vaswani_transformer.beam_search_vaswani import best_tokens
from vaswani_transformer.generation_vaswani import NeverPad, paper_generation_config
from vaswani_transformer.tokenization import learn_tokenizer


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


# The search, against the paper's --------------------------------------------------------------------------------------


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


BLOCKS, MODELS = 8, 12  # about 240 sentences


@pytest.mark.parametrize("block", range(BLOCKS))
def test_agrees_with_the_paper(block):
    """Token for token on random models, and the scores; where rounding decides, either answer would do."""
    compared = too_close = 0
    lengths_of_ended = set()
    for seed in range(block * MODELS, (block + 1) * MODELS):
        rng = random.Random(seed)
        vocab_size = rng.randint(7, 50)
        share = rng.choice(["all", "target", "none"])
        target_vocab_size = vocab_size if share == "all" else rng.randint(7, 50)
        model = ending_model(
            seed,
            vocab_size=vocab_size,
            decoder_vocab_size=target_vocab_size,
            share_embeddings=share,
            norm_position=rng.choice(["post", "pre"]),
        )
        sources = [[rng.randrange(1, vocab_size) for _ in range(rng.randint(1, 8))] for _ in range(rng.randint(1, 4))]
        prefix_length = rng.choice([0, 0, 0, 1, 3])
        prefixes = [[rng.randrange(2, target_vocab_size) for _ in range(prefix_length)] for _ in sources]
        beams, alpha = rng.randint(1, 5), rng.choice([0.0, 0.6, 1.0, rng.uniform(0.0, 2.0)])
        n_best, limit = rng.randint(1, beams), rng.choice([None, *[rng.randint(1, 30)] * 4])
        with_scores = rng.random() < 0.4
        offset = rng.choice([None, None, 0, 1, 10])

        options = dict(num_beams=beams, num_return_sequences=n_best, max_new_tokens=limit)
        if beams > 1:
            options |= dict(length_penalty=alpha, early_stopping="never")
            model.generation_config.length_penalty_offset = offset
        if prefix_length:
            options["decoder_input_ids"] = torch.tensor(prefixes)
        if with_scores:
            options |= dict(return_dict_in_generate=True, output_scores=True)
        output = model.generate(padded(sources, rng.choice(["left", "right"])), **options)
        sequences = output.sequences if with_scores else output
        if not with_scores:
            assert_well_formed(sequences)

        for i, (source, prefix) in enumerate(zip(sources, prefixes, strict=True)):
            room = len(source) + 50 - prefix_length if limit is None else limit
            found = paper_search(
                model, source, beams, alpha, room, n_best, prefix, offset=5 if offset is None else offset
            )
            if found.margin < 1e-5:
                too_close += 1
                continue
            compared += 1
            rows = range(i * n_best, (i + 1) * n_best)
            for row, hypothesis in zip(rows, found.hypotheses, strict=True):
                ours, theirs = sequences[row].tolist()[1:], prefix + hypothesis.tokens
                assert ours[: len(theirs)] == theirs, f"model {seed}, sentence {i}"
                assert set(ours[len(theirs) :]) <= {PAD, EOS}
                if with_scores and beams > 1:
                    assert output.sequences_scores[row].item() == pytest.approx(hypothesis.score, abs=1e-4)
                if hypothesis.tokens[-1] == EOS:
                    lengths_of_ended.add(len(hypothesis.tokens))
    assert compared >= 20 and too_close <= 2
    assert len(lengths_of_ended) >= 5 and max(lengths_of_ended) > 8


def test_alpha_prefers_longer():
    """The best of all that were found changes with alpha, as the paper's penalty would have it."""
    lengths = {}
    for alpha in (0.0, 2.0):
        for seed in range(8):
            output = ending_model(seed).generate(BATCH, **{**PAPER, "length_penalty": alpha}, max_new_tokens=20)
            lengths[alpha] = lengths.get(alpha, 0) + sum(map(len, generated(output)))
    assert lengths[2.0] > lengths[0.0]


def test_transition_scores_add_up_to_the_score():
    """`compute_transition_scores` and the paper's penalty give back `sequences_scores`."""
    model = ending_model(3)
    output = model.generate(
        BATCH, **PAPER, num_return_sequences=3, max_new_tokens=12, return_dict_in_generate=True, output_scores=True
    )
    steps = model.compute_transition_scores(output.sequences, output.scores, output.beam_indices)
    lengths = (output.beam_indices >= 0).sum(dim=-1)
    penalties = torch.tensor([length_penalty(length, 0.6) for length in lengths.tolist()])
    torch.testing.assert_close(steps.sum(dim=-1) / penalties, output.sequences_scores)


def test_scores_are_the_models_log_probabilities():
    """Padding is impossible, but the others are not scaled up for it unless the caller asks."""
    model = ending_model(5)
    model.lm_head.bias.data[PAD] += 2.0  # padding takes a large share
    options = dict(**PAPER, num_return_sequences=4, max_new_tokens=12, return_dict_in_generate=True)
    output = model.generate(BATCH, **options)
    normalised = model.generate(BATCH, **options, renormalize_logits=True)
    assert (normalised.sequences_scores - output.sequences_scores).min() > 0.01
    lengths = (output.beam_indices >= 0).sum(dim=-1)
    for i, length in enumerate(lengths.tolist()):
        tokens = output.sequences[i, 1 : 1 + length].tolist()
        exact = log_probability(model, SOURCES[i // 4], tokens)
        assert output.sequences_scores[i].item() == pytest.approx(exact / length_penalty(length, 0.6), abs=1e-4)
        assert output.token_log_probs[i].sum().item() == pytest.approx(exact, abs=1e-4)
        last = exact - (log_probability(model, SOURCES[i // 4], tokens[:-1]) if length > 1 else 0)
        assert output.token_log_probs[i, length - 1].item() == pytest.approx(last, abs=1e-4)
        assert not output.token_log_probs[i, length:].any()


# Our loop, against the library's --------------------------------------------------------------------------------------


def favour_7(input_ids, scores):
    scores = scores.clone()
    scores[:, 7] += 1.5
    return scores


def stop_after_two_8s(input_ids, scores, **kwargs):
    return (input_ids == 8).sum(dim=-1) >= 2


EXTRAS = [
    {},
    dict(repetition_penalty=1.7),
    dict(no_repeat_ngram_size=2),
    dict(min_new_tokens=5),
    dict(min_length=4),
    dict(bad_words_ids=[[3], [4, 5]]),
    dict(suppress_tokens=[2, 5]),
    dict(begin_suppress_tokens=[1, 6]),
    dict(forced_eos_token_id=1),
    dict(exponential_decay_length_penalty=(3, 1.3)),
    dict(sequence_bias=[[[6], -4.0]]),
    dict(eos_token_id=[1, 4, 9]),
    dict(renormalize_logits=True, repetition_penalty=0.7),
    dict(logits_processor=LogitsProcessorList([favour_7])),
    dict(stopping_criteria=StoppingCriteriaList([stop_after_two_8s])),
    dict(cache_implementation="static"),
    dict(use_cache=False),
    dict(max_new_tokens=None),
]


class LibrarySearch(VaswaniForConditionalGeneration):
    """With the library's own loop, which ranks by log P / length^alpha: ours does with an offset of 0."""

    _beam_search = GenerationMixin._beam_search

    def _get_logits_processor(self, *args, **kwargs):
        return LogitsProcessorList([NeverPad(PAD), *super()._get_logits_processor(*args, **kwargs)])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("extra", EXTRAS, ids=["+".join(extra) or "nothing" for extra in EXTRAS])
def test_our_loop_equals_the_librarys(attention, extra):
    """Over penalties, ends and prefixes: sequences and all that can be asked for with them."""
    seed = 2 * EXTRAS.index(extra) + (attention == "eager")
    rng = random.Random(seed)
    model = ending_model(seed, attn_implementation=attention)
    model.generation_config.length_penalty_offset = 0
    library = copy.deepcopy(model)
    library.__class__ = LibrarySearch
    for early_stopping in (False, True, "never"):
        beams = rng.randint(2, 5)
        options = dict(
            num_beams=beams,
            num_return_sequences=rng.randint(1, beams),
            early_stopping=early_stopping,
            length_penalty=rng.choice([-0.5, 0.0, 0.6, 1.0, 1.7]),
            max_new_tokens=rng.randint(6, 14),
        )
        prefix_length = rng.choice([0, 0, 2])
        if prefix_length:
            options["decoder_input_ids"] = torch.randint(2, 30, (len(SOURCES), prefix_length))
        options = {**options, **extra, "output_scores": True, "output_logits": True, "output_hidden_states": True}
        ours = model.generate(BATCH, **options, return_dict_in_generate=True)
        theirs = library.generate(BATCH, **options, return_dict_in_generate=True)
        assert ours.sequences.shape == theirs.sequences.shape
        lengths = 1 + prefix_length + (theirs.beam_indices >= 0).sum(dim=-1)
        for row, expected, length in zip(
            ours.sequences.tolist(), theirs.sequences.tolist(), lengths.tolist(), strict=True
        ):
            assert row[:length] == expected[:length]
            assert set(row[length:]) <= {PAD}  # the library fills with `</s>` where padding is 0
        assert torch.equal(ours.beam_indices, theirs.beam_indices.long())
        torch.testing.assert_close(ours.sequences_scores, theirs.sequences_scores, rtol=1e-4, atol=1e-5)
        for name in ("scores", "logits", "decoder_hidden_states", "encoder_hidden_states"):
            assert shapes(getattr(ours, name)) == shapes(getattr(theirs, name))
        assert torch.equal(model.generate(BATCH, **options), ours.sequences)


def shapes(nested) -> list | tuple:
    return [shapes(x) for x in nested] if isinstance(nested, tuple) else tuple(nested.shape)


# Length limit ---------------------------------------------------------------------------------------------------------


@every_mode
@pytest.mark.parametrize("side", ["left", "right"])
def test_length_limit_of_each_sentence(mode, side):
    """Input length + 50 (section 6.1), whatever the batch mates."""
    sequences = endless_model().generate(padded(SOURCES, side), **mode)
    assert [len(row) for row in generated(sequences)] == [len(source) + 50 for source in SOURCES]
    assert_well_formed(sequences)


@pytest.mark.parametrize("beams", [1, 3])
def test_length_limit_counts_a_prefix(beams):
    prefix = torch.tensor([[3, 4, 5]] * len(SOURCES))
    sequences = endless_model().generate(BATCH, decoder_input_ids=prefix, num_beams=beams)
    assert [len(row) for row in generated(sequences)] == [len(source) + 50 for source in SOURCES]


@pytest.mark.parametrize("beams", [1, 3])
def test_length_limit_without_a_mask(beams):
    """The source may come as embeddings or encoded; its whole width counts then."""
    model = endless_model()
    with torch.no_grad():
        embedded = model.get_input_embeddings()(BATCH)
        encoded = model.get_encoder()(BATCH)
    for source in (dict(inputs_embeds=embedded), dict(encoder_outputs=encoded)):
        sequences = model.generate(**source, num_beams=beams)
        assert [len(row) for row in generated(sequences)] == [BATCH.shape[1] + 50] * len(SOURCES)


@pytest.mark.parametrize("beams", [1, 3])
def test_length_limit_of_learned_positions(beams):
    """Where the table of positions ends before input length + 50, so does the translation."""
    model = endless_model(position_encoding="learned", max_position_embeddings=40, position_offset=2)
    sequences = model.generate(BATCH, num_beams=beams)
    assert [len(row) for row in generated(sequences)] == [38] * len(SOURCES)


GIVEN = {"max_new_tokens": 6, "max_length": 7}


@every_mode
@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("way", ["argument", "configuration", "model", "model beside a configuration"])
def test_given_length_wins(mode, name, way):
    model, given = endless_model(), {name: GIVEN[name]}
    if way == "argument":
        sequences = model.generate(BATCH, **mode, **given)
    elif way == "configuration":
        sequences = model.generate(BATCH, generation_config=GenerationConfig(**mode, **given))
    else:
        model.generation_config.update(**given)
        beside = way == "model beside a configuration"
        sequences = model.generate(BATCH, **dict(generation_config=GenerationConfig(**mode)) if beside else mode)
    assert [len(row) for row in generated(sequences)] == [6] * len(SOURCES)


@pytest.mark.parametrize("beams", [1, 3])
def test_length_limit_leaves_a_configuration_alone(monkeypatch, beams):
    """The caller's object does not change; nor do arguments join it, which the library warns about."""
    arguments = {}
    original = GenerationMixin.generate

    def watched(self, *args, **kwargs):
        arguments.update(kwargs)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(GenerationMixin, "generate", watched)
    config = GenerationConfig(num_beams=beams)
    sequences = endless_model().generate(BATCH, generation_config=config)
    assert [len(row) for row in generated(sequences)] == [len(source) + 50 for source in SOURCES]
    assert config.to_dict() == GenerationConfig(num_beams=beams).to_dict()
    assert not arguments.keys() & config.to_dict().keys()


def test_given_length_may_be_longer():
    sequences = endless_model().generate(BATCH, max_new_tokens=70)
    assert [len(row) for row in generated(sequences)] == [70] * len(SOURCES)


# Padding --------------------------------------------------------------------------------------------------------------


@every_mode
def test_padding_is_never_produced(mode):
    model = ending_model(5)
    model.lm_head.bias.data[PAD] = 1e3
    for seed in range(3):
        torch.manual_seed(seed)
        sequences = model.generate(BATCH, **mode)
        assert_well_formed(sequences)
        assert sequences[:, 1].ne(PAD).all()


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("side", ["left", "right"])
def test_mask_is_inferred_from_padding(beams, side):
    model, source = ending_model(1), padded(SOURCES, side)
    inferred = model.generate(source, num_beams=beams)
    assert torch.equal(inferred, model.generate(source, attention_mask=source.ne(PAD).long(), num_beams=beams))
    assert torch.equal(inferred, model.generate(input_ids=source, attention_mask=None, num_beams=beams))
    limit = inferred.shape[1]
    blind = model.generate(source, attention_mask=torch.ones_like(source), num_beams=beams, max_length=limit)
    assert generated(inferred) != generated(blind)


MODEL = ending_model(4)


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 29), min_size=1, max_size=9), min_size=2, max_size=5),
    st.sampled_from(["left", "right"]),
    st.sampled_from([PAPER, {}]),
)
def test_batch_mates_do_not_matter(sentences, side, mode):
    together = generated(MODEL.generate(padded(sentences, side), **mode))
    for sentence, ours in zip(sentences, together, strict=True):
        if ours != generated(MODEL.generate(torch.tensor([sentence]), **mode))[0]:
            found = paper_search(MODEL, sentence, mode.get("num_beams", 1), 0.6, len(sentence) + 50)
            assert found.margin < 1e-4  # a tie, but for rounding


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
    """`decoder_input_ids` with or without the start token; a greedy start goes on to the rest of it."""
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
    """Padded on the left and masked: each sentence goes on as it would alone."""
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
            found = paper_search(MODEL, source, beams, 0.6, 8, beams, allowed=allowed[i])
            assert found.margin > 1e-5
            assert rows[i * beams : (i + 1) * beams] == [hypothesis.tokens for hypothesis in found.hypotheses]
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
    streamer = TextIteratorStreamer(tokenizer, skip_special_tokens=True, timeout=300)
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
    with pytest.raises(ValueError, match="[Ss]tatic"):
        MODEL.generate(BATCH[:1], **options, cache_implementation="static")
    with pytest.raises(ValueError, match="different tokenizers"):
        MODEL.generate(BATCH[:1], assistant_model=ending_model(8, vocab_size=20))


# Caches, precision, compilation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("prompt, step", [(1, 1), (3, 1), (2, 2)])
@torch.no_grad()
def test_beam_cache_equals_no_cache(tiny_model, attention, prompt, step):
    """Beams that are chosen at random, dropped and doubled have the logits of their own histories."""
    model, n = tiny_model(attn_implementation=attention), 3
    mask = BATCH.ne(PAD).long()
    encoded = model.get_encoder()(BATCH, attention_mask=mask).last_hidden_state
    beams = BeamCache(n, capacity=4)  # so small that it has to grow
    cache = EncoderDecoderCache(beams, DynamicCache(config=model.config))
    assert cache.get_seq_length() == 0
    new = history = torch.randint(2, 48, (len(BATCH) * n, prompt))
    for _ in range(5):
        cached = model(
            encoder_outputs=(encoded,), attention_mask=mask, decoder_input_ids=new, past_key_values=cache,
            decoder_attention_mask=beams.attention_mask(
                *new.shape, new.device, additive=model.dtype if attention == "eager" else None
            ),
        ).logits  # fmt: skip
        whole = model(
            encoder_outputs=(encoded.repeat_interleave(n, dim=0),),
            attention_mask=mask.repeat_interleave(n, dim=0),
            decoder_input_ids=history,
            use_cache=False,
        ).logits
        torch.testing.assert_close(cached, whole[:, -new.shape[1] :], atol=1e-5, rtol=1e-4)
        assert cache.get_seq_length() == history.shape[1]
        chosen = (torch.randint(n, (len(BATCH), n)) + n * torch.arange(len(BATCH)).unsqueeze(1)).flatten()
        beams.reorder_cache(chosen)
        new = torch.randint(2, 48, (len(BATCH) * n, step))
        history = torch.cat((history[chosen], new), dim=1)


CACHES = [dict(use_cache=False), dict(cache_implementation="static"), dict(cache_implementation="dynamic")]


@pytest.mark.parametrize("other", CACHES, ids=lambda option: str(next(iter(option.values()))))
@every_mode
def test_caches_agree(mode, other):
    outputs = []
    for options in ({}, other):
        torch.manual_seed(0)
        outputs.append(MODEL.generate(BATCH, **mode, **options, num_return_sequences=3 if mode else 1))
    assert torch.equal(*outputs)


def test_quantized_cache_is_refused():
    """The library offers encoder-decoders none."""
    with pytest.raises(ValueError, match="does not support the quantized cache"):
        MODEL.generate(BATCH, cache_implementation="quantized")


def test_goes_on_from_a_returned_cache():
    model = endless_model()
    first = model.generate(BATCH, max_new_tokens=4, return_dict_in_generate=True)
    assert first.past_key_values.get_seq_length() == 4
    rest = model.generate(
        BATCH,
        decoder_input_ids=first.sequences,
        decoder_attention_mask=torch.ones_like(first.sequences),
        past_key_values=first.past_key_values,
        max_new_tokens=5,
    )
    assert torch.equal(rest, model.generate(BATCH, max_new_tokens=9))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    half = copy.deepcopy(MODEL).to(dtype)
    for mode in MODES.values():
        assert_well_formed(half.generate(BATCH, **mode))
    output = half.generate(BATCH, **PAPER, return_dict_in_generate=True, output_scores=True)
    lengths = (output.beam_indices >= 0).sum(dim=-1).tolist()
    for source, row, length, score in zip(
        SOURCES, output.sequences.tolist(), lengths, output.sequences_scores.tolist(), strict=True
    ):
        exact = log_probability(MODEL, source, row[1 : 1 + length]) / length_penalty(length, 0.6)
        assert score == pytest.approx(exact, rel=0.05, abs=0.05)


def test_compiled():
    """The decoding step compiles into one graph, with the library's own way to do so."""
    compile_config = CompileConfig(backend="eager", mode=None, fullgraph=True)
    compile_config._compile_all_devices = True
    compiled = MODEL.generate(BATCH, cache_implementation="static", compile_config=compile_config, max_new_tokens=8)
    assert torch.equal(compiled, MODEL.generate(BATCH, max_new_tokens=8))


def test_processes_that_share_a_model_search_alike(tmp_path):
    """As FSDP and ZeRO-3 ask for it: all run until the last is done. Here there is one."""
    expected = MODEL.generate(BATCH, **PAPER)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        assert torch.equal(MODEL.generate(BATCH, **PAPER, synced_gpus=True), expected)
    finally:
        torch.distributed.destroy_process_group()


def test_a_beam_cache_becomes_an_ordinary_one(tiny_model):
    """What `generate` returns as `past_key_values` holds each beam's own history, as the library's loop leaves it."""
    model = tiny_model()
    library = copy.deepcopy(model)
    library.__class__ = LibrarySearch
    caches = []
    for searching in (model, library):
        searching.generation_config.length_penalty_offset = 0
        output = searching.generate(
            BATCH, num_beams=3, max_new_tokens=5, min_new_tokens=5, return_dict_in_generate=True, output_scores=True
        )
        caches.append(output.past_key_values.self_attention_cache)
    for ours, theirs in zip(caches[0].layers, caches[1].layers, strict=True):
        torch.testing.assert_close(ours.keys, theirs.keys)
        torch.testing.assert_close(ours.values, theirs.values)


# Inputs and outputs ---------------------------------------------------------------------------------------------------


@every_mode
def test_encoder_outputs(mode):
    mask = BATCH.ne(PAD).long()
    encoded = MODEL.get_encoder()(BATCH, attention_mask=mask)
    outputs = []
    for source in (dict(input_ids=BATCH), dict(encoder_outputs=encoded)):
        torch.manual_seed(0)
        outputs.append(MODEL.generate(**source, attention_mask=mask, **mode))
    assert torch.equal(*outputs)


@pytest.mark.parametrize("beams", [1, 3])
def test_inputs_embeds(beams):
    model = ending_model(2, zero_pad_embedding=False)
    mask = BATCH.ne(PAD).long()
    embedded = model.get_input_embeddings()(BATCH)
    expected = model.generate(BATCH, attention_mask=mask, num_beams=beams)
    assert torch.equal(expected, model.generate(inputs_embeds=embedded, attention_mask=mask, num_beams=beams))


def test_shapes_are_those_of_the_librarys_own_models():
    """Everything that `generate` can return, beside MarianMTModel: the encoder's has a row a sentence, not a beam."""
    sizes = dict(
        vocab_size=30, d_model=16, encoder_layers=2, decoder_layers=3, encoder_attention_heads=2,
        decoder_attention_heads=4, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD,
    )  # fmt: skip
    marian = MarianConfig(**sizes, encoder_ffn_dim=24, decoder_ffn_dim=24, forced_eos_token_id=None)
    models = MarianMTModel(marian).eval(), VaswaniForConditionalGeneration(VaswaniConfig(**sizes, d_ff=24)).eval()
    wanted = ("scores", "logits", "attentions", "hidden_states")
    for mode in MODES.values():
        found = []
        for model in models:
            model.set_attn_implementation("eager")
            torch.manual_seed(0)
            output = model.generate(
                BATCH, attention_mask=BATCH.ne(PAD).long(), **mode, num_return_sequences=2 if mode else 1,
                min_new_tokens=5, max_new_tokens=5, suppress_tokens=[PAD], return_dict_in_generate=True,
                **{f"output_{name}": True for name in wanted},
            )  # fmt: skip
            parts = {name: x for name, x in output.items() if name not in ("token_log_probs", "past_key_values")}
            cached = [tuple(layer.keys.shape) for layer in output.past_key_values.self_attention_cache.layers]
            found.append({name: shapes(x) for name, x in parts.items()} | {"cached": cached})
        assert found[0] == found[1]


def test_attentions_and_hidden_states_of_beams():
    """The documented shapes, with one row a beam; and the weights are those of the returned sentence's own history."""
    model = ending_model(7, attn_implementation="eager", encoder_layers=2)
    config, n, batch, width = model.config, 3, len(BATCH), BATCH.shape[1]
    output = model.generate(
        BATCH, num_beams=n, max_new_tokens=6, min_new_tokens=6,
        return_dict_in_generate=True, output_attentions=True, output_hidden_states=True, output_scores=True,
    )  # fmt: skip
    steps, heads, d = 6, 4, config.d_model
    assert [tuple(x.shape) for x in output.encoder_attentions] == [(batch, 2, width, width)] * 2
    assert [tuple(x.shape) for x in output.encoder_hidden_states] == [(batch, width, d)] * 3
    assert len(output.scores) == steps and output.scores[0].shape == (batch * n, 30)
    for name, entries, shape in (
        ("decoder_attentions", config.decoder_layers, lambda t: (batch * n, heads, 1, t + 1)),
        ("cross_attentions", config.decoder_layers, lambda t: (batch * n, heads, 1, width)),
        ("decoder_hidden_states", config.decoder_layers + 1, lambda t: (batch * n, 1, d)),
    ):
        assert [[tuple(x.shape) for x in step] for step in getattr(output, name)] == [
            [shape(t)] * entries for t in range(steps)
        ]

    whole = model(BATCH, decoder_input_ids=output.sequences[:, :-1], output_attentions=True, output_hidden_states=True)
    for t in range(steps):
        rows = output.beam_indices[:, t].long()
        for layer in range(config.decoder_layers):
            for name in ("decoder_attentions", "cross_attentions"):
                ours = getattr(output, name)[t][layer][rows, :, 0]
                expected = getattr(whole, name)[layer][:, :, t, : ours.shape[-1]]
                torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(
            output.decoder_hidden_states[t][-1][rows, 0], whole.decoder_hidden_states[-1][:, t], atol=1e-5, rtol=1e-4
        )


# The settings ---------------------------------------------------------------------------------------------------------


def test_the_papers_settings(tmp_path):
    """Beam 4 and alpha 0.6 (section 6.1) are what `generation_config.json` says, and what then runs."""
    model = ending_model(9)
    ids = dict(pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD)
    model.generation_config = paper_generation_config(**ids)
    model.save_pretrained(tmp_path)
    assert (tmp_path / "generation_config.json").exists()
    loaded = VaswaniForConditionalGeneration.from_pretrained(tmp_path)
    saved = loaded.generation_config
    assert (saved.num_beams, saved.length_penalty, saved.early_stopping) == (4, 0.6, "never")
    assert (saved.max_length, saved.max_new_tokens) == (None, None)  # the limit is the source's
    for i, source in enumerate(SOURCES):
        found = paper_search(model, source, 4, 0.6, len(source) + 50)
        assert found.margin > 1e-5
        assert generated(loaded.generate(BATCH))[i] == found.hypotheses[0].tokens


BAD_SETTINGS = {
    "no beams": (dict(num_beams=0), "num_beams is 0"),
    "beams in letters": (dict(num_beams="four"), "num_beams is 'four'"),
    "half a beam": (dict(num_beams=2.5), "num_beams is 2.5"),
    "too many beams": (dict(num_beams=2000), "num_beams is 2000"),
    "a length for ever": (dict(max_length=10**9), "max_length is 1000000000"),
    "new tokens for ever": (dict(max_new_tokens=10**9), "max_new_tokens is 1000000000"),
    "a least length for ever": (dict(min_new_tokens=10**9), "min_new_tokens is 1000000000"),
    "an offset that divides by zero": (dict(length_penalty_offset=-1), "length_penalty_offset is -1"),
    "a penalty that is no number": (dict(length_penalty=float("nan")), "length_penalty is nan"),
    "an end outside": (dict(eos_token_id=30), "eos_token_id has 30"),
    "an end below": (dict(eos_token_id=[1, -2]), "eos_token_id has -2"),
    "suppressed outside": (dict(suppress_tokens=[3, 99]), "suppress_tokens has 99"),
    "a start outside": (dict(decoder_start_token_id=31), "decoder_start_token_id has 31"),
    "padding ends": (dict(eos_token_id=PAD), "pad_token_id and eos_token_id are both 0"),
}


@pytest.mark.parametrize("way", ["argument", "model"])
@pytest.mark.parametrize(("bad", "words"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings_are_refused_in_one_line(bad, words, way):
    model = ending_model()
    for name, value in bad.items() if way == "model" else ():
        setattr(model.generation_config, name, value)
    with pytest.raises(ValueError, match=words) as error:
        model.generate(BATCH, **bad if way == "argument" else {})
    assert "\n" not in str(error.value) and "generation_config.json" in str(error.value)


def test_all_bad_settings_are_named_at_once():
    with pytest.raises(ValueError, match="num_beams is 0.*num_return_sequences is -1.*suppress_tokens has 30"):
        ending_model().generate(BATCH, num_beams=0, num_return_sequences=-1, suppress_tokens=[30])


def test_a_model_whose_padding_is_its_end_runs_and_learns_but_does_not_generate(tiny_model, make_batch):
    model, batch = tiny_model(pad_token_id=1, eos_token_id=1), make_batch()
    assert model(**batch, labels=batch["decoder_input_ids"]).loss.isfinite()
    with pytest.raises(ValueError, match="pad_token_id and eos_token_id are both 1"):
        model.generate(batch["input_ids"])


def test_threads_may_differ_in_their_settings():
    """Each call ranks by its own settings, whatever others do on the same model meanwhile."""
    model, jobs = ending_model(3), [dict(length_penalty=alpha, offset=k) for alpha in (0.3, 2.0) for k in (0, 1, 5, 50)]

    def translate(job):
        config = GenerationConfig(num_beams=4, length_penalty=job["length_penalty"], early_stopping="never")
        config.length_penalty_offset = job["offset"]
        output = model.generate(BATCH, generation_config=config, max_new_tokens=15, return_dict_in_generate=True)
        return output.sequences_scores.tolist()

    alone = [translate(job) for job in jobs]
    assert len({tuple(scores) for scores in alone}) == len(jobs)
    with ThreadPoolExecutor(4) as pool:
        for together in (list(pool.map(translate, jobs)) for _ in range(3)):
            assert together == alone


def test_settings_may_be_overridden():
    config = paper_generation_config(num_beams=2, max_new_tokens=5)
    assert (config.num_beams, config.length_penalty, config.max_new_tokens) == (2, 0.6, 5)


def test_a_model_without_settings_can_be_saved(tmp_path):
    ending_model().save_pretrained(tmp_path)
    assert VaswaniForConditionalGeneration.from_pretrained(tmp_path).generation_config.num_beams in (None, 1)


@pytest.mark.parametrize("vocab_size", [50, 2048, 2049, 5000])
def test_best_tokens_are_those_of_topk(vocab_size):
    scores = torch.randn(6, vocab_size)
    scores[1, 5:] = float("-inf")
    best, tokens = best_tokens(scores, 8)
    expected = scores.topk(8, dim=-1)
    assert torch.equal(best, expected.values)
    finite = best.isfinite()
    assert torch.equal(tokens[finite], expected.indices[finite])
