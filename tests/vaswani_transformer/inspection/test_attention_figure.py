"""Figures of attention: well-formed SVG whose lines are the weights."""

from xml.etree import ElementTree

import pytest
from tiny_checkpoint import tiny_checkpoint

from vaswani_transformer import attention_figure, inspect_translation, load
from vaswani_transformer.inspection.attention_figure import BLANK, MIN_WEIGHT


SVG = "{http://www.w3.org/2000/svg}"
SENTENCE = "A woman reads a long book in the old park."


@pytest.fixture(scope="module")
def inspection():
    return inspect_translation(*load(tiny_checkpoint(), dtype="float32"), SENTENCE)


def parts(figure: str) -> tuple[list[dict], list[str]]:
    root = ElementTree.fromstring(figure)
    return [line.attrib for line in root.iter(f"{SVG}line")], [text.text for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    "stack, kind, left, right",
    [("encoder", "self_attn", "source", "source"), ("decoder", "self_attn", "target", "target"),
     ("decoder", "cross_attn", "target", "source")],
)  # fmt: skip
def test_the_words_are_the_tokens_and_the_lines_the_weights(inspection, stack, kind, left, right):
    lines, words = parts(attention_figure(inspection, stack, kind, layer=0, heads=[1]))
    tokens = [*getattr(inspection, left), *getattr(inspection, right)]
    wanted = [token.text.strip() or BLANK for token in tokens]
    assert words == wanted
    weights = inspection.tensors[f"{stack}.layers.0.{kind}.weights"][1]
    drawn = [float(line["stroke-opacity"]) for line in lines]
    assert drawn == pytest.approx([w for w in weights.flatten().tolist() if w >= MIN_WEIGHT], abs=6e-4)


def test_all_heads_have_a_colour_and_a_place_in_the_legend(inspection):
    lines, words = parts(attention_figure(inspection))
    assert words[:2] == ["head 0", "head 1"]
    assert len({line["stroke"] for line in lines}) == 2
    last = inspection.tensors["encoder.layers.0.self_attn.weights"]
    assert len(lines) == int((last >= MIN_WEIGHT).sum())


def test_only_the_lines_of_a_word_that_is_asked_for(inspection):
    lines, _ = parts(attention_figure(inspection, heads=[0], words=["park"]))
    assert [token.text for token in inspection.source][-5:-2] == [" ", "p", "ark"]
    assert len({line["y1"] for line in lines}) == 3
    assert len(lines) < len(parts(attention_figure(inspection, heads=[0]))[0])


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(layer=1), "Layer 1 does not exist: the encoder has 1"),
        (dict(heads=[2]), "Head 2 does not exist: the layer has 2"),
        (dict(kind="cross_attn"), "The encoder has no cross_attn"),
        (dict(words=["absent"]), "Not among the words of the sentence: absent.*: A woman reads"),
    ],
)
def test_what_is_not_there_is_named(inspection, settings, words):
    with pytest.raises(ValueError, match=words):
        attention_figure(inspection, **settings)


@pytest.mark.parametrize("text", ["<b>&\"'</b>", "a\x00\x07b", "🙂 你好", "\u202eabc \ud7ff"])
def test_any_text_gives_well_formed_svg(text):
    figure = attention_figure(inspect_translation(*load(tiny_checkpoint(), dtype="float32"), text))
    assert ElementTree.fromstring(figure.encode()).tag == f"{SVG}svg"
