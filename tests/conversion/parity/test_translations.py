"""The scores of tokens decide whether models are the same; translations that differ are reported with the reason."""

import copy
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conversion.parity import marian as marian_parity
from conversion.parity.recorded import compare_recorded
from conversion.parity.translations import judge
from conversion.toolkits import fairseq, marian


FIXTURES = Path(__file__).parents[2] / "fixtures"
LIMIT = 6


@pytest.fixture(scope="module")
def converted():
    return fairseq.convert(FIXTURES / "fairseq" / "base")


@pytest.fixture
def recorded(tmp_path):
    """A copy of the recorded reference, with other translations."""

    def make(searches: dict) -> Path:
        shutil.copy(FIXTURES / "fairseq" / "base" / "reference.npz", tmp_path)
        record = {"peer": "fairseq", "generate": searches}
        (tmp_path / "reference.json").write_text(json.dumps(record))
        return tmp_path / "reference.npz"

    return make


def as_by_fairseq(model, path: Path, beams: int) -> list[list[dict]]:
    """What a search finds that ends every hypothesis at its limit, whether `</s>` is likely there or not."""
    from conversion.parity.recorded import read_reference

    inputs, _, _ = read_reference(path)
    config = copy.deepcopy(model.generation_config)
    config.num_beams, config.max_new_tokens, config.forced_eos_token_id = beams, LIMIT, model.config.eos_token_id
    config.length_penalty = 0.6 if beams > 1 else 1.0
    rows = model.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"], generation_config=config)
    end = model.config.eos_token_id
    return [[{"ids": row[: row.index(end) + 1] if end in row else row}] for row in rows[:, 1:].tolist()]


@pytest.mark.parametrize("beams", [1, 4])
def test_an_end_that_a_limit_forced_is_reported(converted, recorded, beams):
    model = converted.model()
    name = "greedy" if beams == 1 else f"beam{beams}_lenpen0.6"
    sentences = as_by_fairseq(model, FIXTURES / "fairseq" / "base" / "reference.npz", beams)
    parity = compare_recorded(model, recorded({name: sentences}))
    assert parity.holds and parity.translations_at_limit + parity.translations_better > 0
    assert "length limit" in str(parity) or "better" in str(parity)


def test_another_translation_is_reported_with_both_scores(converted, recorded):
    model = converted.model()
    sentences = as_by_fairseq(model, FIXTURES / "fairseq" / "base" / "reference.npz", 1)
    sentences[0][0]["ids"][0] = 7 if sentences[0][0]["ids"][0] != 7 else 8
    parity = compare_recorded(model, recorded({"greedy": sentences}))
    assert parity.holds and len(parity.translations_different) == 1
    assert re.search(r"1 different with equal scores of tokens \(-\d+\.\d{4} here, -\d+\.\d{4} there\)", str(parity))
    assert not replace(parity, max_difference=0.1).holds


def test_rounding_may_decide_between_two_tokens(converted):
    """Two tokens with the same row in the softmax score the same."""
    model = converted.model()
    source = {"input_ids": torch.tensor([[10, 11, 12, 2]]), "attention_mask": torch.ones(1, 4, dtype=torch.long)}
    config = copy.deepcopy(model.generation_config)
    config.num_beams, config.max_new_tokens = 1, 5
    ours = model.generate(**source, generation_config=config)[0, 1:].tolist()
    twin = next(i for i in range(ours[0] + 1, 112) if i not in ours)  # of equal scores, argmax takes the first
    original = [twin if i == ours[0] else i for i in ours]
    assert judge(model, source, ours, original, config) == "different"
    with torch.no_grad():
        model.lm_head.weight[twin] = model.lm_head.weight[ours[0]]
    assert judge(model, source, ours, original, config) == "rounding"


def test_marians_limit_is_reported():
    converted = marian.convert(FIXTURES / "marian" / "opus")
    model, words = converted.model(), converted.vocabularies
    record = json.loads((FIXTURES / "marian" / "opus" / "reference.json").read_text(encoding="utf-8"))
    ids = [{token: i for i, token in enumerate(side.tokens)} for side in words]
    number, *tokens, scores, total, mean = record["greedy_nbest"][0].split(" ||| ")
    short = tokens[0].split()[:3]
    source = {"input_ids": torch.tensor([[*(ids[0][t] for t in record["source_pieces"][int(number)].split()), 0]])}
    target = [ids[1][token] for token in short] + [words[1].eos]
    printed = marian_parity.log_probs(model, source, target).gather(1, torch.tensor(target)[:, None])[:, 0].tolist()
    line = " ||| ".join([number, " ".join(short), "WordScores= " + " ".join(map(str, printed)), total, mean])
    parity = marian_parity.compare_lists(model, record["source_pieces"], {"greedy_nbest": [line]}, ids, "Marian")
    assert parity.holds and (parity.translations_at_limit, parity.translations) == (1, 1)
