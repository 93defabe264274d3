"""Models with several target languages, and checkpoints chosen by their languages."""

from pathlib import Path

import pytest
import torch
from hub_server import Hub
from stand_ins import ENGLISH, ask, opus_mt, put
from transformers import MarianMTModel, MarianTokenizer

from vaswani_transformer import TranslationPipeline, catalogue, load
from vaswani_transformer.languages import match_code, opus_names, short_code
from vaswani_transformer.locating import locate, locate_by_languages


CODES = (">>fra<<", ">>es<<", ">>pt_BR<<", ">>zho_Hans<<")
NAME = "Helsinki-NLP/opus-mt-en-ROMANCE"


@pytest.fixture(scope="module")
def romance(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "opus-mt-en-ROMANCE"
    return opus_mt(folder, CODES, pickled=False, languages=("en", "roa"))


@pytest.fixture
def hub(monkeypatch, tmp_path):
    monkeypatch.setenv("VASWANI_CACHE", str(tmp_path / "cache"))
    with Hub() as server:
        ask(monkeypatch, server.url, tmp_path / "home")
        yield server
        server.shutdown()


def test_codes():
    codes = "cmn_Hans cmn_Hant zho fr pt_BR por srp_Cyrl srp_Latn".split()
    expected = {"zh": "zho", "zh-Hant": "cmn_Hant", "cmn": "cmn_Hans", "fra": "fr", "FR": "fr", "pt": "por"}
    expected |= {"pt-BR": "pt_BR", "sr": "srp_Cyrl", "sr_Latn": "srp_Latn", "de": None, "fr_CA": None}
    assert {code: match_code(code, codes) for code in expected} == expected
    with pytest.raises(LookupError, match="pt_BR"):
        match_code("pt", ["pt_BR", "pt_PT"])
    assert [short_code(code) for code in ("deu", "DE", "de-AT", "zho_Hans", "ast")] == ["de", "de", "de", "zh", "ast"]
    assert opus_names("deu", "es")[0] == "Helsinki-NLP/opus-mt-de-es"


@pytest.mark.parametrize("target", ["fr", "fra", "pt-BR", "zh"])
def test_each_source_begins_with_the_token_and_targets_do_not(hub, romance, target):
    model, tokenizer = load(locate(str(romance), target))
    original, reference = MarianTokenizer.from_pretrained(romance), MarianMTModel.from_pretrained(romance)
    code = match_code(target, [code.strip("<>") for code in CODES])
    texts = [f">>{code}<< {text}" for text in ENGLISH]
    assert tokenizer(ENGLISH).input_ids == original(texts).input_ids
    assert tokenizer(text_target=ENGLISH).input_ids == original(text_target=ENGLISH).input_ids
    inputs = original(texts, padding=True, return_tensors="pt")
    start = torch.full((len(texts), 1), reference.config.decoder_start_token_id)
    with torch.no_grad():
        logits = [m.eval()(**inputs, decoder_input_ids=start).logits for m in (model, reference)]
    assert torch.allclose(*logits, atol=1e-4)


def test_long_texts_and_languages_of_the_pipeline(hub, romance):
    model, tokenizer = load(f"en-fr={romance}")
    pipeline = TranslationPipeline(model=model, tokenizer=tokenizer)
    assert (pipeline.training_texts.source_language, pipeline.training_texts.target_language) == ("en", "fr")
    seen = []
    encode = type(tokenizer)._encode_plus

    class Recording(type(tokenizer)):
        def _encode_plus(self, text, *arguments, **settings):
            encoded = encode(self, text, *arguments, **settings)
            if not self._in_target_mode:
                rows = torch.as_tensor(encoded["input_ids"]) if settings.get("return_tensors") else encoded["input_ids"]
                rows = rows.tolist() if isinstance(rows, torch.Tensor) else rows
                seen.extend(rows if isinstance(rows[0], list) else [rows])
            return encoded

    tokenizer.__class__ = Recording
    [record] = pipeline(" ".join(ENGLISH), max_new_tokens=5)
    first = tokenizer.convert_tokens_to_ids(">>fra<<")
    assert len(seen) >= len(ENGLISH) and all(row[0] == first and first not in row[1:] for row in seen)
    assert ">>" not in record["translation_text"]


def test_without_a_target_the_languages_are_listed(hub, romance):
    with pytest.raises(ValueError, match=r"several languages: fr, es, pt_BR, zho_Hans. Choose one: --to fr"):
        locate(str(romance))
    with pytest.raises(ValueError, match=r"does not translate into 'de'. It has fr, es, pt_BR, zho_Hans."):
        locate(str(romance), "de")
    assert Path(locate(str(romance), needs_target=False)).is_dir()


def test_a_checkpoint_for_one_language_shares_its_weights(hub, romance):
    base, french = Path(locate(str(romance), needs_target=False)), Path(locate(str(romance), "fr"))
    assert (french / "model.safetensors").samefile(base / "model.safetensors")
    about = catalogue.read_about(french)
    assert (about.name, about.languages) == ("opus-mt-en-ROMANCE-fra", "en → fr")
    assert locate(str(french)) == str(french), "it has its language"


def test_by_languages(hub, romance, tmp_path, capsys):
    assert locate_by_languages("en", "de") == catalogue.for_languages("en", "de")
    with pytest.raises(ValueError, match="OPUS-MT may have one: add --download, or use .*Helsinki-NLP/opus-mt-de-es"):
        locate_by_languages("de", "es")
    with pytest.raises(ValueError, match="The Hub does not have OPUS-MT's model from 'de' into 'es'"):
        locate_by_languages("de", "es", download=True)
    put(hub, "Helsinki-NLP/opus-mt-de-es", opus_mt(tmp_path / "de-es", languages=("deu", "spa")))
    folder = locate_by_languages("de", "es", download=True)
    assert locate_by_languages("deu", "spa") == folder
    assert "Using Helsinki-NLP/opus-mt-de-es from the cache." in capsys.readouterr().err
    put(hub, NAME, romance)
    portuguese = locate_by_languages("en", "pt", download=True)
    assert catalogue.read_about(Path(portuguese)).languages == "en → pt"
    assert catalogue.read_about(Path(locate_by_languages("en", "es"))).languages == "en → es", "of the same model"


def test_two_languages_of_a_model_can_be_explored_together(hub, romance):
    from vaswani_transformer.explorer.checkpoints import CheckpointCache

    cache = CheckpointCache(f"en-fr={romance}", f"en-es={romance}")
    assert list(cache.chosen) == ["opus-mt-en-ROMANCE-fra", "opus-mt-en-ROMANCE-es"]
    assert [cache.open(name).languages for name in cache.chosen] == [("en", "fr"), ("en", "es")]
