"""The settings of the search: the paper's as saved, the caller's, and invalid ones."""

import pytest
from generation_examples import BATCH, EOS, PAD, SOURCES, ending_model, generated, paper_search

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.model.generation_vaswani import paper_generation_config


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
        reference = paper_search(model, source, 4, 0.6, len(source) + 50)
        assert reference.margin > 1e-5
        assert generated(loaded.generate(BATCH))[i] == reference.hypotheses[0].tokens


def test_settings_may_be_overridden():
    config = paper_generation_config(num_beams=2, max_new_tokens=5)
    assert (config.num_beams, config.length_penalty, config.max_new_tokens) == (2, 0.6, 5)


def test_a_model_without_settings_can_be_saved(tmp_path):
    ending_model().save_pretrained(tmp_path)
    assert VaswaniForConditionalGeneration.from_pretrained(tmp_path).generation_config.num_beams in (None, 1)


BAD_SETTINGS = {
    "no beams": (dict(num_beams=0), "num_beams is 0"),
    "beams in letters": (dict(num_beams="four"), "num_beams is 'four'"),
    "half a beam": (dict(num_beams=2.5), "num_beams is 2.5"),
    "too many beams": (dict(num_beams=2000), "num_beams is 2000"),
    "a length for ever": (dict(max_length=10**9), "max_length is 1000000000"),
    "new tokens for ever": (dict(max_new_tokens=10**9), "max_new_tokens is 1000000000"),
    "a least length for ever": (dict(min_new_tokens=10**9), "min_new_tokens is 1000000000"),
    "an offset that divides by zero": (dict(length_penalty_offset=-1), "length_penalty_offset is -1"),
    "a penalty that is not a number": (dict(length_penalty=float("nan")), "length_penalty is nan"),
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
    assert "\n" not in str(error.value) and "Pass others to `generate`" in str(error.value)


def test_all_bad_settings_are_named_at_once():
    with pytest.raises(ValueError, match="num_beams is 0.*num_return_sequences is -1.*suppress_tokens has 30"):
        ending_model().generate(BATCH, num_beams=0, num_return_sequences=-1, suppress_tokens=[30])


def test_a_model_whose_padding_is_its_end_runs_and_learns_but_does_not_generate(tiny_model, make_batch):
    model, batch = tiny_model(pad_token_id=1, eos_token_id=1), make_batch()
    assert model(**batch, labels=batch["decoder_input_ids"]).loss.isfinite()
    with pytest.raises(ValueError, match="pad_token_id and eos_token_id are both 1"):
        model.generate(batch["input_ids"])
