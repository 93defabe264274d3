"""Beam search for translations that must contain words: they are the best ones, and all contain their words."""

from itertools import product

import pytest
import torch
from generation_examples import BATCH, EOS, PAD, ending_model
from hypothesis import given, settings
from hypothesis import strategies as st

from vaswani_transformer import Shortlist
from vaswani_transformer.model.constraints_vaswani import RequiredWords, State


MODEL = ending_model(4)
SENTENCES = len(BATCH)
WORD = st.lists(st.integers(2, MODEL.config.vocab_size - 1), min_size=1, max_size=3)


def translations(sequences: torch.Tensor) -> list[list[int]]:
    """Without the start, the end and padding."""
    rows = [row[1:] for row in sequences.tolist()]
    return [row[: row.index(EOS)] if EOS in row else [i for i in row if i != PAD] for row in rows]


def holds(tokens: list[int], form: list[int]) -> bool:
    return any(tokens[i : i + len(form)] == form for i in range(len(tokens)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("words", [[[[3]]], [[[2, 3]], [[4]]], [[[3, 2], [4, 4]]], [[[3]], [[3]]]], ids=str)
def test_with_beams_enough_it_finds_the_best_of_all_translations_that_hold_the_words(seed, words):
    """All sequences of five tokens and fewer are scored by the model at once, with no search."""
    model = ending_model(seed, vocab_size=5)
    source = torch.tensor([[2, 4, 3, EOS]])
    every = [list(tokens) for length in range(6) for tokens in product(range(2, 5), repeat=length)]
    padded = torch.tensor([([PAD, *tokens, EOS] + [PAD] * 5)[:6] for tokens in every])  # five need no end
    with torch.no_grad():
        logits = model(source.expand(len(padded), -1), decoder_input_ids=padded[:, :-1]).logits
    log_probs = logits.log_softmax(-1).gather(-1, padded[:, 1:, None]).squeeze(-1)
    scores = log_probs.masked_fill(padded[:, 1:] == PAD, 0.0).sum(-1).tolist()

    def count(tokens: list[int], forms: list[list[int]]) -> int:
        return sum(tokens[i : i + len(form)] == form for form in forms for i in range(len(tokens)))

    wanted = [
        (score, tokens)
        for score, tokens in zip(scores, every, strict=True)
        if all(count(tokens, forms) >= words.count(forms) for forms in words)
    ]
    output = model.generate(
        source, required_words=[words], num_beams=100, num_return_sequences=3, length_penalty=0.0, max_new_tokens=5,
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    assert translations(output.sequences) == [tokens for _, tokens in sorted(wanted, reverse=True)[:3]]
    torch.testing.assert_close(output.sequences_scores, torch.tensor([s for s, _ in sorted(wanted, reverse=True)[:3]]))


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.lists(WORD, min_size=1, max_size=2), max_size=3), min_size=SENTENCES, max_size=SENTENCES),
    st.integers(2, 6),
)
def test_each_translation_holds_its_words(required, beams):
    sequences = MODEL.generate(
        BATCH, required_words=required, num_beams=beams, num_return_sequences=2, max_new_tokens=60
    )
    for i, tokens in enumerate(translations(sequences)[::2]):
        for forms in required[i]:
            assert any(holds(tokens, form) for form in forms)


def test_a_sentence_does_not_depend_on_its_batch():
    required = [[[[3 + i, 7]], [[5], [9, 9]]] for i in range(SENTENCES)]
    together = MODEL.generate(BATCH, required_words=required, num_beams=4)
    for i in range(SENTENCES):
        alone = MODEL.generate(BATCH[i : i + 1], required_words=required[i : i + 1], num_beams=4)
        assert translations(alone) == translations(together[i : i + 1])


def test_a_word_that_continues_does_not_count():
    words = RequiredWords([[[7, 8]]], joining={9})
    states = [State()]
    for token in (7, 7, 8, 9, 7, 8, 5):
        states.append(words.next_state(states[-1], token))
    assert [state.done for state in states] == [0, 0, 0, 1, 0, 0, 1, 1]
    assert (
        words.continuations(states[2]) == [8]
        and words.continuations(states[4]) == [7]
        and words.continuations(states[-1]) == []
    )
    joining = set(range(2, 15))
    sequences = MODEL.generate(
        BATCH, required_words=[[[[20]]]] * SENTENCES, joining_tokens=joining, num_beams=4, max_new_tokens=40
    )
    for tokens in translations(sequences):
        after = [*tokens, EOS]
        assert any(token == 20 and after[i + 1] not in joining for i, token in enumerate(tokens))


def test_a_word_is_found_in_a_failed_beginning_of_itself():
    words = RequiredWords([[[1, 1, 2]]])
    state = State()
    for token in (1, 1, 1, 2):
        state = words.next_state(state, token)
    assert state.done == 1


def test_a_length_without_room_gives_what_has_most():
    required = [[[[3]], [[4]], [[5]]]] * SENTENCES
    rows = translations(MODEL.generate(BATCH, required_words=required, num_beams=8, max_new_tokens=2))
    assert all(len({3, 4, 5} & set(tokens)) == 2 for tokens in rows)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(required_words=[[[[3]]]], num_beams=4), "given for 1 of"),
        (dict(required_words=[[[[3]]]] * SENTENCES), "need beam search"),
        (dict(required_words=[[[[]]]] * SENTENCES, num_beams=4), "an empty form"),
        (dict(required_words=[[[]]] * SENTENCES, num_beams=4), "no forms"),
        (dict(required_words=[[[[99]]]] * SENTENCES, num_beams=4), "not below 30"),
        (dict(required_words=[[[[3]]]] * SENTENCES, num_beams=4, do_sample=True), "combined with sampling"),
        (dict(required_words=[[[[3]]]] * SENTENCES, num_beams=4,
              shortlist=Shortlist(torch.full((30, 1), EOS), torch.arange(1, 9))), "or with a shortlist"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_searched_for_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MODEL.generate(BATCH, **arguments)
