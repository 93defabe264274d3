"""Word alignment: which decoder head looks at the word that is being translated.

    pip install "vaswani-transformer[align]"; python -m experiments alignment --data DATA

Question: which head of cross-attention shows best which source word a target word translates, and how good is it
compared with a dedicated tool?

Design:

- The model reads a source and its reference translation. Each target word is linked to the source word with the largest
  weight, either at the step that predicts the word or at the next step, which reads it. Chen et al. 2020 (arXiv
  2004.14837) found the latter better.
- The head is chosen by its alignment error rate on Tatoeba's test, with the links of eflomal as the reference: links
  in both directions are sure, the others possible. eflomal is trained on 100,000 more pairs.
- Converted checkpoints have no aligned sentences. Their head is chosen by anchors: numbers, names and marks that the
  model's own translations copy from its source. "By anchors" is the head that this choice gives.
- The heads and eflomal are compared on sentences aligned by hand ([alignments/](alignments)). Lower is better; 0 is out
  of reach, since a head gives each target word exactly one link.

The best head is saved in the checkpoint's generation_config.json, as `alignment_head`.
"""

import lzma
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vaswani_transformer import checkpoint_path
from vaswani_transformer.inspection.alignment_head import choose_alignment_head
from vaswani_transformer.loading import load
from vaswani_transformer.model.alignment_vaswani import WHEN, words
from vaswani_transformer.model.forced_vaswani import word_mask
from vaswani_transformer.system.files import read_json, write_json

from . import figures
from .heads import CHECKPOINTS as TEXT_CHECKPOINTS
from .intervals import Interval, bootstrap
from .lab import FOLDER, ExperimentError, Lab
from .tables import Column, markdown


TITLE = "Alignment: the head that looks at the word it translates"
CHECKPOINTS = {**TEXT_CHECKPOINTS, "multi30k-en-de": ("en-de", 0, 1), "multi30k-en-fr": ("en-fr", 0, 1)}
TRAINED, CHOSEN_BY = 100_000, 1000  # pairs to train eflomal; pairs of Tatoeba's test that choose the head
STEPS = {"produced": "predicts", "read": "reads"}

Links = set[tuple[int, int]]  # (word of the source, word of the target)


class Aligned(NamedTuple):
    """A pair with its reference links; `possible` includes the sure ones."""

    source: str
    target: str
    sure: Links
    possible: Links


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in words(text)]


def read_alignments(path: Path) -> list[Aligned]:
    """Sentences aligned by hand. alignments/en-de.txt describes the format.

    Raises:
        ValueError: a link names a word that is not in the sentence.
    """
    paragraphs = path.read_text(encoding="utf-8").split("\n\n")
    return [parse(*paragraph.strip().splitlines()) for paragraph in paragraphs if not paragraph.startswith("#")]


def parse(source: str, target: str, links: str) -> Aligned:
    def place(word: str, sentence: str) -> int:
        name, _, number = word.partition("/")
        places = [i for i, text in enumerate(split(sentence)) if text == name]
        if len(places) < int(number or 1):
            raise ValueError(f"{word!r} is not in {sentence!r}.")
        return places[int(number or 1) - 1]

    sure, possible = set(), set()
    for link in links.split():
        mark = "~" if "~" in link else "="
        source_word, target_word = link.split(mark)
        pair = place(source_word, source), place(target_word, target)
        possible.add(pair)
        if mark == "=":
            sure.add(pair)
    return Aligned(source, target, sure, possible)


def error_rate(links: Sequence[Links], reference: Sequence[Aligned]) -> float:
    """AER (Och and Ney 2003): 1 - (|A and S| + |A and P|) / (|A| + |S|)."""
    pairs = list(zip(links, reference, strict=True))
    hits = sum(len(a & pair.sure) + len(a & pair.possible) for a, pair in pairs)
    return 1 - hits / sum(len(a) + len(pair.sure) for a, pair in pairs)


# Heads ---------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def links_of_heads(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Aligned]
) -> dict[tuple[int, int, str], list[Links]]:
    """{(layer, head, when): the links of each pair}, one link for each target word."""
    model.set_attn_implementation("eager")
    links_by_head: dict[tuple[int, int, str], list[Links]] = {}
    for pair in pairs:
        inputs = tokenizer([pair.source], return_tensors="pt", return_offsets_mapping=True)
        outputs = tokenizer(text_target=[pair.target], return_tensors="pt", return_offsets_mapping=True)
        source_words = word_mask(inputs.pop("offset_mapping")[0].tolist(), words(pair.source))  # [words, S]
        target_words = word_mask(outputs["offset_mapping"][0].tolist(), words(pair.target))  # [words, T]
        ids = torch.cat(
            [model.prepare_decoder_input_ids_from_labels(outputs["input_ids"]), outputs["input_ids"][:, -1:]], 1
        )
        weights = model(**inputs, decoder_input_ids=ids, output_attentions=True).cross_attentions
        for layer, layer_weights in enumerate(weights):
            for when, shift in WHEN.items():
                rows = layer_weights[0].float()[:, shift : shift + target_words.shape[1]]  # [H, T, S]
                largest = (target_words @ rows @ source_words.T).argmax(dim=-1)  # [H, words]
                for head, linked in enumerate(largest.tolist()):
                    links = {(i, j) for j, i in enumerate(linked)}
                    links_by_head.setdefault((layer, head, when), []).append(links)
    model.set_attn_implementation("sdpa")
    return links_by_head


# eflomal -------------------------------------------------------------------------------------------------------------


def eflomal_links(pairs: Sequence[tuple[str, str]]) -> list[tuple[Links, Links]]:
    """The links of each pair, forward and reverse.

    Raises:
        ExperimentError: eflomal is not installed.
    """
    try:
        from eflomal import Aligner
    except ImportError as error:
        raise ExperimentError(
            'eflomal is not installed. Install it with: pip install "vaswani-transformer[align]"'
        ) from error
    sources, targets = ([" ".join(split(text.lower())) + "\n" for text in side] for side in zip(*pairs, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "forward"), Path(folder, "reverse")
        Aligner().align(sources, targets, *map(str, files))
        return [
            tuple({tuple(map(int, link.split("-"))) for link in line.split()} for line in lines)
            for lines in zip(*(file.read_text().splitlines() for file in files), strict=True)
        ]


def training_pairs(lab: Lab, folder: str) -> list[tuple[str, str]]:
    """The first pairs of everyday sentences in the training data."""
    with lzma.open(lab.path(f"{folder}/train.tsv.xz"), "rt", encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file)
        return [(row[0], row[1]) for row in islice((row for row in rows if row[2] == "tatoeba"), TRAINED)]


# The experiment ------------------------------------------------------------------------------------------------------


def run(lab: Lab) -> dict[str, Any]:
    results = {}
    folders = dict.fromkeys(folder for folder, *_ in CHECKPOINTS.values())
    references = {folder: judge(lab, folder) for folder in folders}
    for name, (folder, source, _) in CHECKPOINTS.items():
        chosen_by, by_hand, eflomal = references[folder]
        eflomal_rates = {key: interval(links, by_hand).rounded() for key, links in eflomal.items()}
        if source:
            chosen_by, by_hand = ([turned(pair) for pair in pairs] for pairs in (chosen_by, by_hand))
        model, tokenizer = load(checkpoint_path(name))
        rates = {
            key: error_rate(links, chosen_by) for key, links in links_of_heads(model, tokenizer, chosen_by).items()
        }
        layer, head, when = best = min(rates, key=lambda key: rates[key])
        links = links_of_heads(model, tokenizer, by_hand)
        heads = [
            {"layer": layer, "head": head, "when": when, "by_eflomal": round(rate, 4)}
            | {"by_hand": round(error_rate(links[layer, head, when], by_hand), 4)}
            for (layer, head, when), rate in rates.items()
        ]
        results[name] = {"best": {"layer": layer, "head": head, "when": when}, "heads": heads}
        results[name] |= {"sentences": len(by_hand), "by_hand": interval(links[best], by_hand).rounded()}
        results[name]["eflomal"] = eflomal_rates
        results[name]["by_anchors"] = by_anchors(model, tokenizer, folder.split("-")[source])
        save_head(checkpoint_path(name), results[name]["best"])
    return {"checkpoints": results}


def by_anchors(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, source_language: str) -> dict[str, Any]:
    """The head that is chosen without aligned sentences, and the share of anchors that it finds."""
    choice = choose_alignment_head(model, tokenizer, source_language)
    return choice.head._asdict() | {"found": round(choice.score.share, 3), "anchors": choice.score.anchors}


def save_head(checkpoint: str, best: dict[str, Any]):
    """Writes the head into the checkpoint's generation_config.json."""
    path = Path(checkpoint, "generation_config.json")
    settings = read_json(path) | {"alignment_head": best}
    write_json(path, settings, sort_keys=True)


def judge(lab: Lab, folder: str) -> tuple[list[Aligned], list[Aligned], dict[str, list[Links]]]:
    """Test pairs as eflomal aligns them, pairs aligned by hand, and eflomal's links of the latter."""
    by_hand = read_alignments(FOLDER / "alignments" / f"{folder}.txt")
    judged = {pair.source for pair in by_hand}
    tests = [pair for pair in lab.pairs(f"{folder}/tatoeba_test.tsv.xz")[:CHOSEN_BY] if pair[0] not in judged]
    pairs = [*training_pairs(lab, folder), *tests, *((pair.source, pair.target) for pair in by_hand)]
    links = eflomal_links(pairs)[-len(tests) - len(by_hand) :]
    chosen_by = [
        Aligned(source, target, forward & reverse, forward | reverse)
        for (source, target), (forward, reverse) in zip(tests, links[: len(tests)], strict=True)
    ]
    eflomal = {
        "both directions": [forward & reverse for forward, reverse in links[len(tests) :]],
        "either direction": [forward | reverse for forward, reverse in links[len(tests) :]],
    }
    return chosen_by, by_hand, eflomal


def turned(pair: Aligned) -> Aligned:
    """The pair for the other direction of translation."""
    sure, possible = ({(j, i) for i, j in links} for links in (pair.sure, pair.possible))
    return Aligned(pair.target, pair.source, sure, possible)


def interval(links: Sequence[Links], reference: Sequence[Aligned]) -> Interval:
    """The interval of the error rate over samples of sentences."""

    def resampled(indices: np.ndarray) -> float:
        return error_rate([links[i] for i in indices], [reference[i] for i in indices])

    return bootstrap(resampled, len(reference))


# The report ----------------------------------------------------------------------------------------------------------


def finding(results: dict[str, Any]) -> str:
    checkpoints = results["checkpoints"]
    [(head, count)] = Counter(name_of(model["best"]) for model in checkpoints.values()).most_common(1)
    better, overlapping = better_than_eflomal(checkpoints)
    losses = [rate_by_anchors(model) - lowest_rate(model) for model in checkpoints.values()]
    number = len(checkpoints)
    return (
        f"The head that aligns best is {head}, in {count} of {number} checkpoints. The head chosen by anchors has the "
        f"lowest error rate of all heads in {losses.count(0)} of {number} checkpoints (largest difference: "
        f"{100 * max(losses):.1f} points). On sentences aligned by hand, the best head has a lower error rate than "
        f"eflomal in {better} of {number} checkpoints; the intervals overlap in {overlapping} of these."
    )


def better_than_eflomal(checkpoints: dict[str, Any]) -> tuple[int, int]:
    """The number of checkpoints whose best head is better than eflomal, and of those with overlapping intervals."""
    eflomal = {name: min(model["eflomal"].values()) for name, model in checkpoints.items()}
    better = [name for name, model in checkpoints.items() if model["by_hand"][0] < eflomal[name][0]]
    return len(better), sum(checkpoints[name]["by_hand"][2] >= eflomal[name][1] for name in better)


def rate_by_anchors(model: dict[str, Any]) -> float:
    """The error rate of the head chosen by anchors, on sentences aligned by hand."""
    key = ("layer", "head", "when")
    return next(
        head["by_hand"] for head in model["heads"] if all(head[name] == model["by_anchors"][name] for name in key)
    )


def lowest_rate(model: dict[str, Any]) -> float:
    """The lowest error rate of all heads, on sentences aligned by hand."""
    return min(head["by_hand"] for head in model["heads"])


def name_of(best: dict[str, Any]) -> str:
    return f"layer {best['layer'] + 1}, head {best['head'] + 1}, at the step that {STEPS[best['when']]} the word"


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the rows of the explorer's table: what was measured, and the result."""
    checkpoints = results["checkpoints"]
    [(head, count)] = Counter(name_of(model["best"]) for model in checkpoints.values()).most_common(1)
    better, overlapping = better_than_eflomal(checkpoints)
    return [
        ("The head that aligns best", f"{head}, in {count} of {len(checkpoints)} checkpoints"),
        (
            "It has a lower error rate than eflomal, a statistical aligner",
            f"in {better} of {len(checkpoints)} checkpoints; in {overlapping} of these the intervals overlap",
        ),
    ]


def report(results: dict[str, Any]) -> str:
    lines = [
        {
            "checkpoint": f"`{name}`",
            "best head": name_of(model["best"]),
            "error rate": rate(model["by_hand"]),
            "by anchors": f"{rate_by_anchors(model):.1%}",
            **{f"eflomal, {key}": rate(value) for key, value in model["eflomal"].items()},
            "sentences": model["sentences"],
        }
        for name, model in results["checkpoints"].items()
    ]
    columns = [Column(name, right=name not in ("checkpoint", "best head")) for name in lines[0]]
    return "\n\n".join([draw(results["checkpoints"]), markdown(columns, lines)])


def rate(values: Sequence[float]) -> str:
    value, low, high = values
    return f"{value:.1%} ({low:.1%} to {high:.1%})"


def draw(checkpoints: dict[str, Any]) -> str:
    figure = figures.figure(9, 5)
    panels = figure.subplots(2, 3).ravel()
    for axes in panels[len(checkpoints) :]:
        axes.set_axis_off()
    for axes, (name, model) in zip(panels, checkpoints.items(), strict=False):
        for when, colour in zip(WHEN, figures.COLOURS, strict=False):
            heads = [head for head in model["heads"] if head["when"] == when]
            places, rates = np.arange(len(heads)), [head["by_hand"] for head in heads]
            axes.plot(places, rates, "o", color=colour, markersize=4, label=f"the step that {STEPS[when]} the word")
        axes.set_xticks(places, [f"{head['layer'] + 1}.{head['head'] + 1}" for head in heads], fontsize=7)
        eflomal = min(values[0] for values in model["eflomal"].values())
        axes.axhline(eflomal, color="#999999", linewidth=0.8, label="eflomal")
        axes.set(title=name, xlabel="layer and head", ylabel="error rate", ylim=(0, 1))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figures.save(figure, "alignment", "Alignment error rate of each cross-attention head")
