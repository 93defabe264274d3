"""The checkpoints that ship: what is said of them, and that they translate."""

import json
import re
from pathlib import Path

import pytest
import sacrebleu
import torch
from safetensors import safe_open
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from vaswani_transformer import TranslationPipeline, catalogue, checkpoint_path, load


ROOT = Path(__file__).parents[2]
NAMES = [about.name for about in catalogue.included()]

# Written for this test, in the words of everyday life.
ENGLISH_GERMAN = [
    ("I don't know.", "Ich weiß es nicht."),
    ("Where is the station?", "Wo ist der Bahnhof?"),
    ("She is reading a book.", "Sie liest ein Buch."),
    ("We have to go home.", "Wir müssen nach Hause gehen."),
    ("Two dogs are running on the beach.", "Zwei Hunde laufen am Strand."),
    ("A man is playing the guitar.", "Ein Mann spielt Gitarre."),
    ("A woman in a red dress is dancing.", "Eine Frau in einem roten Kleid tanzt."),
    ("The children are playing in the garden.", "Die Kinder spielen im Garten."),
    ("He came home late last night.", "Er kam gestern Abend spät nach Hause."),
    ("Can you help me?", "Können Sie mir helfen?"),
]


def test_there_is_one():
    assert "mini-en-de" in NAMES


@pytest.fixture(scope="module", params=NAMES)
def about(request):
    return next(about for about in catalogue.included() if about.name == request.param)


def test_files_are_small_and_half_precision(about):
    assert sum(file.stat().st_size for file in about.path.iterdir()) < 40e6
    with safe_open(about.path / "model.safetensors", framework="pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}


def test_no_code_in_it(about):
    """It is added where a repository is staged for the Hub; here the package has it."""
    assert list(about.path.glob("*.py")) == []
    for name in ("config.json", "tokenizer_config.json"):
        settings = json.loads((about.path / name).read_text(encoding="utf-8"))
        assert not settings.keys() & {"auto_map", "custom_pipelines"}


def test_loads_by_the_strict_way(about):
    load(about.path)


@pytest.mark.parametrize("name", NAMES)
def test_no_sentence_translates_to_nothing(name):
    """Without the rule in generation_config.json, beam search prefers silence to a long, doubtful translation."""
    translate = pipeline("translation", model=checkpoint_path(name), pipeline_class=TranslationPipeline)
    assert translate.model.generation_config.min_new_tokens == 1
    # Silence is what this finds without the rule, in the checkpoint from German.
    source = (
        "Ich habe gehört, dass eine Art, gesund zu bleiben, darin besteht, von Nahrungsmitteln mit unaussprechlichen "
        "Inhaltsstoffen die Finger zu lassen."
    )
    assert len(translate(source)[0]["translation_text"]) > 20


def test_card_and_listing_repeat_the_recorded_scores(about):
    recorded = json.loads((ROOT / "model_cards" / about.name / "scores.json").read_text(encoding="utf-8"))
    card = (about.path / "README.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for result in recorded["results"]:
        value = result["sacreBLEU"]["value"]
        assert {"dataset": result["dataset"], "metric": "sacreBLEU", **result["sacreBLEU"]} in about.scores
        assert re.search(rf"\| {re.escape(result['dataset'])} \| [\d,]+ \| {value:.2f}(?: ± [\d.]+)? \|", card)
        assert f"{value:.1f}" in next(line for line in readme.splitlines() if line.startswith(f"| `{about.name}`"))


def test_translates_with_what_the_library_loads_by_itself():
    path = checkpoint_path("mini-en-de")
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
    assert model.dtype == torch.float32
    inputs = tokenizer([source for source, _ in ENGLISH_GERMAN], padding=True, return_tensors="pt")
    translations = tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)
    references = [target for _, target in ENGLISH_GERMAN]
    assert sacrebleu.corpus_chrf(translations, [references]).score > 60, translations
    assert sum(t == r for t, r in zip(translations, references, strict=True)) >= 3, translations


def test_translation_pipelines_agree():
    path = checkpoint_path("mini-en-de")
    text = "A man is riding a bicycle through the park."
    [by_name] = pipeline("translation", model=path)(text)
    assert [by_name] == pipeline("translation", model=path, pipeline_class=TranslationPipeline)(text)
    assert "Park" in by_name["translation_text"]
