"""How long a translation may be: input length + 50 (section 6.1), unless the caller says otherwise."""

import pytest
import torch
from generation_examples import BATCH, EOS, SOURCES, assert_well_formed, endless_model, every_mode, generated, padded
from transformers import GenerationConfig, GenerationMixin


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


@every_mode
@pytest.mark.parametrize("way", ["argument", "configuration"])
@pytest.mark.parametrize(
    ("of_checkpoint", "given", "expected"),
    [({"min_new_tokens": 9}, {"min_length": 4}, 3), ({"max_new_tokens": 5}, {"max_length": 9}, 8)],
    ids=["min", "max"],
)
def test_the_callers_length_wins_over_the_checkpoints_in_other_units(mode, way, of_checkpoint, given, expected):
    """`min_length` counts the start token and `min_new_tokens` does not; the library prefers the latter."""
    model = endless_model()
    if "min_length" in given:
        model.lm_head.bias.data[EOS] = 1e4  # ends as soon as it may
    model.generation_config.update(**of_checkpoint)
    if way == "argument":
        sequences = model.generate(BATCH, **mode, **given)
    else:
        sequences = model.generate(BATCH, generation_config=GenerationConfig(**mode, **given))
    lengths = [len(row) - ("min_length" in given) for row in generated(sequences)]  # without the end token
    assert lengths == [expected] * len(SOURCES)
    assert model.generation_config.to_diff_dict().items() >= of_checkpoint.items()


def test_given_length_may_be_longer():
    sequences = endless_model().generate(BATCH, max_new_tokens=70)
    assert [len(row) for row in generated(sequences)] == [70] * len(SOURCES)
