"""The card of a conversion says what was converted, how it was checked and what is not known."""

import json
import shutil

import pytest
from hub_examples import converted_folder
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

from conversion.hub.card import conversion_card
from conversion.options import ConversionError


def test_card_of_a_checked_conversion_shows_the_figures(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    data = ModelCard(text).data.to_dict()
    assert (data["library_name"], data["pipeline_tag"]) == ("transformers", "translation")
    assert "converted-from-fairseq" in data["tags"]
    assert "| fairseq 0.12.2 | 8 | 1,152 | 2.4e-06 (allowed: 1e-04) | the same | 24 of 24 the same |" in text
    assert "Not checked" not in text
    for said in (
        "ab" * 32, "transformer_tiny", "a \\| b", "1 encoder (post-norm), 2 decoder", "| 300 tokens |",
        "one matrix for source, target and softmax", "| beam 4, ranked by log P / ((5 + length) / 6)^0.6 |",
    ):  # fmt: skip
        assert said in text
    sections = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert sections == [
        "Model Details", "Uses", "Bias, Risks, and Limitations", "How to Get Started", "Training Details",
        "Evaluation", "Environmental Impact", "Technical Specifications", "Citation",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"num_beams": 1, "length_penalty": 1.0}, "| greedy |"),
        ({"num_beams": 6, "length_penalty": 1.0, "length_penalty_offset": 0}, "| beam 6, ranked by log P / length^1 |"),
    ],
)
def test_card_says_how_it_searches(copy, settings, words):
    (copy / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert words in conversion_card(copy, "tiny")


def test_card_is_not_made_of_settings_that_are_no_numbers(copy):
    (copy / "generation_config.json").write_text('{"num_beams": 4, "length_penalty": "x"}', encoding="utf-8")
    with pytest.raises(ConversionError, match="not numbers: length_penalty"):
        conversion_card(copy, "tiny")


def test_card_of_two_vocabularies_and_moses(copy):
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config |= {"share_embeddings": "none", "tie_word_embeddings": False, "decoder_vocab_size": 90, "decoder_d_ff": 65}
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (copy / "tokenizer_config.json").write_text(json.dumps({"moses_source": "en"}), encoding="utf-8")
    text = conversion_card(copy, "tiny")
    for said in ("300 (encoder), 90 (decoder) tokens", "64 (encoder), 65 (decoder)", "three matrices"):
        assert said in text
    assert "pip install vaswani-transformer sacremoses\n" in text


def test_card_of_an_unchecked_conversion_says_so(tmp_path):
    text = (converted_folder(tmp_path / "out", checks=(), tokenizer=False) / "README.md").read_text(encoding="utf-8")
    assert "**Not checked.**" in text
    assert "The converted model was not compared with the original." in text
    assert "the same" not in text
    assert "vaswani translate" not in text, "without a tokenizer it cannot translate"


def test_card_shows_scores_and_languages_that_are_recorded(copy):
    record = json.loads((copy / "conversion.json").read_text(encoding="utf-8"))
    record["facts"] |= {"source_language": "en", "target_language": "de", "licence": "cc-by-4.0"}
    record["facts"]["tokenizer_differences"] = ["Case is lost.", "[sic]"]
    (copy / "conversion.json").write_text(json.dumps(record), encoding="utf-8")
    score = {"value": 27.31, "signature": "nrefs:1|tok:13a"}
    results = [{"dataset": "newstest2014", "sentences": 3003, "sacreBLEU": score, "samples": []}]
    (copy / "scores.json").write_text(json.dumps({"results": results}), encoding="utf-8")
    text = conversion_card(copy, "tiny")
    data = ModelCard(text).data.to_dict()
    assert (data["language"], data["license"]) == (["en", "de"], "cc-by-4.0")
    assert "| licence | cc-by-4.0 (the licence of the original" in text
    assert "| tokenizer | the original's, with these differences: Case is lost. \\[sic\\] |" in text
    assert data["model-index"][0]["results"][0]["metrics"][0]["value"] == 27.31
    page = MarkdownIt().enable("table").render(text)
    cells = ("newstest2014", "sacreBLEU", "27.31", "<code>nrefs:1|tok:13a</code>")
    assert "\n".join(f"<td>{cell}</td>" for cell in cells) in page


@pytest.mark.parametrize("record", ["[]", "{}"])
def test_a_record_of_no_conversion_makes_no_card(folder, tmp_path, record):
    shutil.copytree(folder, tmp_path / "tiny")
    (tmp_path / "tiny" / "conversion.json").write_text(record)
    with pytest.raises(ConversionError, match="conversion.json"):
        conversion_card(tmp_path / "tiny", "tiny")
