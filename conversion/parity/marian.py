"""Compares a converted Marian model with the word log-probabilities that Marian prints.

Marian prints no logits. A `reference.json` beside the model may contain `source_pieces`, a text for each sentence, and
lists such as `greedy_nbest` and `beam4_normalize0.6_nbest` of the lines printed by `--n-best --word-scores`. If it is
missing and pymarian is installed, Marian runs on random tokens.

Marian's beam shrinks with each finished hypothesis; ours does not. Ours may therefore find a translation that Marian
ranks higher than its own result.
"""

import copy
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import GenerationConfig

from vaswani_transformer import VaswaniForConditionalGeneration

from ..files.marian import MarianVocabulary
from ..files.text import read_json_object
from ..options import ConversionError
from .scores import Parity
from .translations import ROUNDING, Verdicts, log_probs


# Marian exits on an error, so it runs in a process of its own.
TRANSLATE = """
import json, sys, _pymarian
asked = json.load(sys.stdin)
answers = {name: _pymarian.Translator(cli).translate(asked["sources"]) for name, cli in asked["searches"].items()}
json.dump(answers, open(sys.argv[1], "w"))
"""
SEARCHES = {"greedy_nbest": (1, 0), "beam4_normalize0.6_nbest": (4, 0.6)}  # beams, and the length penalty
SEARCH = re.compile(r"(greedy|beam(?P<beams>\d+))(_normalize(?P<alpha>[\d.]+))?_nbest")


def compare(
    path: Path, vocabularies: Sequence[MarianVocabulary], model: VaswaniForConditionalGeneration
) -> Parity | None:
    """Compares Marian's model at `path` with ours; returns None if there is neither a record nor pymarian.

    Raises:
        ConversionError: the record is invalid, or Marian cannot run the model.
    """
    file = path.with_name("reference.json")
    recorded = read_json_object(file) if file.is_file() else {}
    if "source_pieces" in recorded:
        ids = [{token: i for i, token in enumerate(side.tokens)} for side in vocabularies]
        searches = {name: lines for name, lines in recorded.items() if SEARCH.fullmatch(name)}
        try:
            return compare_lists(model, recorded["source_pieces"], searches, ids, str(recorded.get("tool", "Marian")))
        except (KeyError, ValueError, TypeError, AttributeError, IndexError, RuntimeError) as error:
            raise ConversionError(f"{file} is not a reference for this model: {error!r}") from None
    if find_spec("_pymarian") is None:
        return None
    sources, ids = random_sources(vocabularies)
    return compare_lists(model, sources, run(path, sources, ids), ids, "Marian (pymarian)")


def random_sources(vocabularies: Sequence[MarianVocabulary]) -> tuple[list[str], list[dict[str, int]]]:
    """Texts of random tokens, and the ids of both sides' tokens. Tokens are renamed to their numbers.

    The original pieces may contain characters that Marian treats as spaces.
    """
    ids = []
    for side in vocabularies:
        names = {side.eos: "</s>", side.unk: "<unk>"}
        ids.append({names.get(i, f"w{i}"): i for i in range(len(side.tokens))})
    ordinary = [token for token in ids[0] if token not in ("</s>", "<unk>")]
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randint(len(ordinary), (length,), generator=generator) for length in (3, 5, 8, 13)]
    return [" ".join(ordinary[i] for i in sentence) for sentence in drawn], ids


def run(path: Path, sources: Sequence[str], ids: Sequence[Mapping[str, int]]) -> dict[str, list[str]]:
    """Runs Marian; returns its n-best lists for `sources` by the names of SEARCHES.

    Raises:
        ConversionError: Marian cannot run the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        model, *vocabularies = (Path(folder) / name for name in ("model.npz", "source.yml", "target.yml"))
        model.symlink_to(path.resolve())
        for file, side in zip(vocabularies, ids, strict=True):
            file.write_text(json.dumps(side), encoding="utf-8")
        fixed = f"-m {model} -v {vocabularies[0]} {vocabularies[1]} --n-best --word-scores --cpu-threads 1 --quiet"
        searches = {name: f"{fixed} --beam-size {n} --normalize {alpha}" for name, (n, alpha) in SEARCHES.items()}
        asked = json.dumps({"sources": sources, "searches": searches})
        answers = Path(folder) / "answers.json"
        command = [sys.executable, "-c", TRANSLATE, answers]
        done = subprocess.run(command, input=asked, capture_output=True, text=True)
        if done.returncode:
            raise ConversionError(f"Marian cannot run this model: {done.stderr[-500:]}")
        lists = json.loads(answers.read_text(encoding="utf-8"))
    return {name: [line for text in texts for line in text.splitlines()] for name, texts in lists.items()}


@dataclass
class Hypothesis:
    """A line of an n-best list: the sentence's number, its ids (with `</s>` if it ended), the score of each id."""

    sentence: int
    ids: list[int]
    scores: torch.Tensor
    ended: bool

    @classmethod
    def parse(cls, line: str, ids: Mapping[str, int], eos: int) -> "Hypothesis":
        number, *tokens, printed, _, _ = line.split(" ||| ")
        scores = torch.tensor([float(score) for score in printed.removeprefix("WordScores= ").split()])
        target = [ids[token] for token in " ||| ".join(tokens).split()]  # a token may equal the separator
        ended = len(scores) > len(target)
        return cls(int(number), target + [eos] * ended, scores, ended)


@torch.no_grad()
def compare_lists(
    model: VaswaniForConditionalGeneration,
    sources: Sequence[str],
    searches: Mapping[str, Sequence[str]],
    ids: Sequence[Mapping[str, int]],
    against: str,
) -> Parity:
    """Compares the score of every word in n-best lists, and the best of each list with our translation.

    `ids` map source and target tokens to ids.
    """
    eos = model.config.eos_token_id
    largest, positions, best_tokens_agree, verdicts = 0.0, 0, True, Verdicts()
    for name, lines in searches.items():
        settings, seen = SEARCH.fullmatch(name), set()
        config = marian_search(model, int(settings["beams"] or 1), float(settings["alpha"] or 0))
        for line in lines:
            hypothesis = Hypothesis.parse(line, ids[1], eos)
            words = sources[hypothesis.sentence].split()
            source = {"input_ids": torch.tensor([[*(ids[0][token] for token in words), eos]])}
            scores = log_probs(model, source, hypothesis.ids)
            token_scores = scores.gather(1, torch.tensor(hypothesis.ids)[:, None])[:, 0]
            largest = max(largest, float((token_scores - hypothesis.scores).abs().max()))
            positions += len(hypothesis.ids)
            if config.num_beams == 1:
                # At its length limit Marian writes </s>, whatever scores best.
                free = len(token_scores) - hypothesis.ended
                best_tokens_agree &= are_best(model, scores[:free], token_scores[:free])
            if (
                hypothesis.sentence in seen or not hypothesis.ended
            ):  # only the best hypothesis, and only if it ended before a limit
                continue
            seen.add(hypothesis.sentence)
            config.max_new_tokens = len(hypothesis.ids) + 20
            ours = model.generate(**source, generation_config=config)[0, 1:].tolist()
            verdicts.add(model, source, ours, hypothesis.ids, config)
    return Parity(against, len(sources), positions, largest, best_tokens_agree).with_translations(verdicts)


def are_best(model: VaswaniForConditionalGeneration, scores: torch.Tensor, token_scores: torch.Tensor) -> bool:
    """Whether `token_scores` [T] are the highest of `scores` [T, V] among the tokens that may be generated."""
    allowed = scores.clone()
    allowed[:, model.generation_config.suppress_tokens or []] = float("-inf")
    return bool((allowed.max(dim=-1).values - token_scores <= ROUNDING).all())


def marian_search(model: VaswaniForConditionalGeneration, beams: int, alpha: float) -> GenerationConfig:
    config = copy.deepcopy(model.generation_config)
    config.num_beams = beams
    if beams > 1:
        config.length_penalty = alpha
    else:  # greedy search uses neither
        config.length_penalty, config.early_stopping = 1.0, False
    return config
