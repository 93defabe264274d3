"""Holds a converted Marian model against what Marian's search prints: the log-probability of each word.

That is all it tells; it prints no logits. A `reference.json` beside the model may hold `source_pieces`, a text for each
sentence, and lists such as `greedy_nbest` and `beam4_normalize0.6_nbest`, of the lines that `--n-best --word-scores`
gives for them. Without it, and where pymarian is installed, Marian is run on random tokens.

Marian's beam gets narrower with each hypothesis that ends, ours does not. So ours may find a translation that Marian
ranks higher than the one it found.
"""

import copy
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import torch

from vaswani_transformer import VaswaniForConditionalGeneration

from .core import ConversionError
from .verify import Parity


# Marian ends the process where something is wrong, so it gets one of its own.
TRANSLATE = """
import json, sys, _pymarian
asked = json.load(sys.stdin)
answers = {name: _pymarian.Translator(cli).translate(asked["sources"]) for name, cli in asked["searches"].items()}
json.dump(answers, open(sys.argv[1], "w"))
"""
SEARCHES = {"greedy_nbest": (1, 0), "beam4_normalize0.6_nbest": (4, 0.6)}  # beams, and the length penalty
SEARCH = re.compile(r"(greedy|beam(?P<beams>\d+))(_normalize(?P<alpha>[\d.]+))?_nbest")


def compare(path: Path, words: Sequence, model: VaswaniForConditionalGeneration) -> Parity | None:
    """The model of `path`, with the vocabularies `words` of source and target, and ours.

    Raises:
        ConversionError: the reference cannot be read, or Marian does not run the model.
    """
    record = path.with_name("reference.json")
    try:
        said = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    except ValueError as error:
        raise ConversionError(f"{record} cannot be read as a reference: {error}") from error
    if "source_pieces" in said:
        ids = [{token: i for i, token in enumerate(side.tokens)} for side in words]
        searches = {name: lines for name, lines in said.items() if SEARCH.fullmatch(name)}
        return compare_lists(model, said["source_pieces"], searches, ids, said.get("tool", "Marian"))
    if find_spec("_pymarian") is None:
        return None
    # Tokens go by their ids: pieces may hold what Marian takes for a space.
    ids = [{f"w{i}": i for i in range(len(side.tokens))} for side in words]
    ordinary = [token for token, i in ids[0].items() if i not in (words[0].eos, words[0].unk)]
    generator = torch.Generator().manual_seed(0)
    drawn = [torch.randint(len(ordinary), (length,), generator=generator) for length in (3, 5, 8, 13)]
    sources = [" ".join(ordinary[i] for i in sentence) for sentence in drawn]
    special = [{f"w{side.eos}": "</s>", f"w{side.unk}": "<unk>"} for side in words]
    named = [{names.get(word, word): i for word, i in side.items()} for names, side in zip(special, ids, strict=True)]
    return compare_lists(model, sources, run(path, sources, named), named, "Marian (pymarian)")


def run(path: Path, sources: Sequence[str], ids: Sequence[Mapping[str, int]]) -> dict[str, list[str]]:
    """Marian's n-best lists for `sources`, under the names of SEARCHES."""
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
            raise ConversionError(f"Marian itself does not run this model: {done.stderr[-500:]}")
        lists = json.loads(answers.read_text(encoding="utf-8"))
    return {name: [line for text in texts for line in text.splitlines()] for name, texts in lists.items()}


@torch.no_grad()
def compare_lists(
    model: VaswaniForConditionalGeneration, sources: Sequence[str], searches: Mapping[str, Sequence[str]],
    ids: Sequence[Mapping[str, int]], against: str,
) -> Parity:  # fmt: skip
    """Every word of n-best lists of `sources`, and whether our search finds the best of each list.

    `ids` are those of source and target tokens.
    """
    eos = model.config.eos_token_id
    largest, positions, best_tokens_agree, translations, agree, better = 0.0, 0, True, 0, 0, 0
    for name, lines in searches.items():
        settings = SEARCH.fullmatch(name)
        beams, alpha = int(settings["beams"] or 1), float(settings["alpha"] or 0)
        seen = set()
        for line in lines:
            number, *tokens, printed, _, _ = line.split(" ||| ")
            number = int(number)
            source = torch.tensor([[*(ids[0][token] for token in sources[number].split()), eos]])
            target = [ids[1][token] for token in " ||| ".join(tokens).split()]
            printed = torch.tensor([float(score) for score in printed.removeprefix("WordScores= ").split()])
            has_ended = len(printed) > len(target)
            target += [eos] * has_ended
            scores, best = word_scores(model, source, target)
            largest = max(largest, float((scores - printed).abs().max()))
            positions += len(target)
            best_tokens_agree &= beams > 1 or best == target
            if number in seen or not has_ended:  # Marian gives up at a length of its own
                continue
            seen.add(number)
            found = search(model, source, beams, alpha, len(target) + 20)
            rank = word_scores(model, source, found)[0].sum() / len(found) ** alpha
            agree += found == target
            better += found != target and beams > 1 and bool(rank >= scores.sum() / len(target) ** alpha)
            translations += 1
    return Parity(against, len(sources), positions, largest, best_tokens_agree, translations, agree, better)


def word_scores(
    model: VaswaniForConditionalGeneration, source: torch.Tensor, target: list[int]
) -> tuple[torch.Tensor, list[int]]:
    """Log-probability of each token of `target`, [T], and the likeliest that may be written in the place of each."""
    start = model.config.decoder_start_token_id
    logits = model(input_ids=source, decoder_input_ids=torch.tensor([[start, *target[:-1]]])).logits[0]
    log_probs = logits.float().log_softmax(dim=-1)
    scores = log_probs.gather(1, torch.tensor(target)[:, None])[:, 0]
    log_probs[:, model.generation_config.suppress_tokens or []] = float("-inf")
    return scores, log_probs.argmax(dim=-1).tolist()


def search(
    model: VaswaniForConditionalGeneration, source: torch.Tensor, beams: int, alpha: float, limit: int
) -> list[int]:
    config = copy.deepcopy(model.generation_config)
    config.num_beams, config.max_new_tokens = beams, limit
    if beams > 1:
        config.length_penalty = alpha
    else:  # greedy search knows neither
        config.length_penalty, config.early_stopping = 1.0, False
    found = model.generate(source, generation_config=config)[0, 1:].tolist()
    eos = model.config.eos_token_id
    return found[: found.index(eos) + 1] if eos in found else found
