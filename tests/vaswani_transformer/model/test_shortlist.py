"""A lexical shortlist: what a search finds with it, where it is kept, and which sources and models it is for."""

import pytest
import torch
from generation_examples import BATCH, EOS, MODES, PAD, SOURCES, ending_model, every_mode, generated, padded
from safetensors.torch import save_file
from transformers import pipeline

from vaswani_transformer import Shortlist, checkpoint_path, load, quantize
from vaswani_transformer.model.shortlist_vaswani import FILE


MODEL = ending_model(4)
VOCAB_SIZE = MODEL.config.vocab_size


def random_shortlist(seed: int = 0, vocab_size: int = VOCAB_SIZE, per_token: int = 3) -> Shortlist:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(2, vocab_size, (vocab_size, per_token), generator=generator)
    tokens[[PAD, EOS]] = EOS
    return Shortlist(tokens, torch.tensor([EOS, 2]))


def only(shortlist: Shortlist, sources: list[list[int]]) -> dict:
    """The same limits in the library's own terms."""

    def allowed(sentence: int, _) -> list[int]:
        listed = {token for i in sources[sentence] for token in shortlist.tokens[i].tolist()}
        return sorted(listed | set(shortlist.always.tolist()))

    return dict(prefix_allowed_tokens_fn=allowed, renormalize_logits=True)


# Results -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("asked", [{}, {"output_scores": True}, {"output_attentions": True}], ids=str)
def test_finds_what_the_library_finds_among_these_tokens(seed, beams, asked):
    model, shortlist = ending_model(seed), random_shortlist(seed)
    settings = dict(num_beams=beams, return_dict_in_generate=True)
    result = model.generate(BATCH, shortlist=shortlist, **settings, **asked)
    expected = model.generate(BATCH, **settings, **only(shortlist, SOURCES))
    assert generated(result.sequences) == generated(expected.sequences)
    if beams > 1:
        torch.testing.assert_close(result.sequences_scores, expected.sequences_scores)


@every_mode
def test_only_listed_tokens_are_produced(mode):
    shortlist = random_shortlist()
    allowed = shortlist.allowed_tokens(BATCH, VOCAB_SIZE)
    sequences = MODEL.generate(BATCH, shortlist=shortlist, **mode)
    for row, ids in enumerate(generated(sequences)):
        assert allowed[row, ids].all()


@pytest.mark.parametrize("mode", [MODES["greedy"], MODES["beam"]], ids=["greedy", "beam"])
def test_a_translation_does_not_depend_on_its_batch(mode):
    shortlist = random_shortlist()
    together = generated(MODEL.generate(padded([*SOURCES, [4, 1]] * 2), shortlist=shortlist, **mode))
    alone = [generated(MODEL.generate(torch.tensor([s]), shortlist=shortlist, **mode))[0] for s in (*SOURCES, [4, 1])]
    assert together == alone * 2


@pytest.mark.parametrize("mode", [MODES["greedy"], MODES["beam"]], ids=["greedy", "beam"])
@pytest.mark.parametrize(
    "limit", [dict(suppress_tokens=[5, 9]), dict(min_length=6), dict(bad_words_ids=[[7]])], ids=str
)
def test_works_with_other_settings(mode, limit):
    shortlist = random_shortlist()
    result = generated(MODEL.generate(BATCH, shortlist=shortlist, **mode, **limit))
    expected = generated(MODEL.generate(BATCH, **only(shortlist, SOURCES), **mode, **limit))
    assert result == expected


def test_all_tokens_change_nothing():
    everything = Shortlist(torch.zeros(VOCAB_SIZE, 1), torch.arange(VOCAB_SIZE))
    result = MODEL.generate(BATCH, shortlist=everything, num_beams=4)
    assert torch.equal(result, MODEL.generate(BATCH, num_beams=4, bad_words_ids=[[PAD]], renormalize_logits=True))


def test_in_int8():
    model, shortlist = quantize(ending_model(4)), random_shortlist()
    result = model.generate(BATCH, shortlist=shortlist, num_beams=4)
    assert generated(result) == generated(model.generate(BATCH, num_beams=4, **only(shortlist, SOURCES)))


# Its file ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [30, 70_000])
def test_is_saved_and_loaded(tmp_path, vocab_size):
    shortlist = random_shortlist(vocab_size=vocab_size)
    shortlist.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    loaded = Shortlist.from_pretrained(tmp_path)
    assert torch.equal(loaded.tokens, shortlist.tokens) and torch.equal(loaded.always, shortlist.always)


def test_a_file_that_cannot_be_used_is_named(tmp_path):
    with pytest.raises(ValueError, match=f"has no {FILE}. The training guide describes how to make one"):
        Shortlist.from_pretrained(tmp_path)
    save_file({"tokens": torch.zeros(3, 1, dtype=torch.int32)}, tmp_path / FILE)
    with pytest.raises(ValueError, match="is damaged"):
        Shortlist.from_pretrained(tmp_path)
    (tmp_path / FILE).write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is damaged"):
        Shortlist.from_pretrained(tmp_path)


def test_the_shortlist_of_another_model_is_refused():
    with pytest.raises(ValueError, match="with 40 source tokens and at least 40 target tokens"):
        MODEL.generate(BATCH, shortlist=Shortlist(torch.full((40, 1), 39), torch.tensor([EOS])))


def test_a_source_without_tokens_is_refused():
    with pytest.raises(ValueError, match="pass them as `input_ids`"):
        MODEL.generate(inputs_embeds=MODEL.get_encoder().embed_tokens(BATCH), shortlist=random_shortlist())


# Where users ask for it ----------------------------------------------------------------------------------------------


def test_the_pipeline_and_the_command_take_it(tmp_path):
    from typer.testing import CliRunner

    from vaswani_transformer import commands

    model, tokenizer = load(checkpoint_path("mini-en-de"))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    text = "A man is riding a bicycle."
    translate = pipeline("translation", model=str(tmp_path), device="cpu")
    [usual] = translate(text)
    with pytest.raises(ValueError, match=f"has no {FILE}"):
        translate(text, shortlist=True)

    words = tokenizer(text_target=usual["translation_text"])["input_ids"]
    tokens = torch.full((len(tokenizer), 1), tokenizer.eos_token_id)
    Shortlist(tokens, torch.tensor([*words, tokenizer.eos_token_id])).save_pretrained(tmp_path)
    assert translate(text, shortlist=True) == [usual]
    Shortlist(tokens, torch.tensor([*words[:2], tokenizer.eos_token_id])).save_pretrained(tmp_path)
    again = pipeline("translation", model=str(tmp_path), device="cpu", shortlist=True)
    [short] = again(text)
    allowed = {tokenizer.decode([i]).strip() for i in words[:2]}
    assert set(short["translation_text"].split()) <= allowed and again(text, shortlist=False) == [usual]
    result = CliRunner().invoke(commands.app, ["translate", "--checkpoint", str(tmp_path), "--shortlist", text])
    assert result.stdout == short["translation_text"] + "\n"
