"""Word alignment: which head of the decoder looks at the word that it translates.

    pip install "vaswani-transformer[align]"; python -m experiments alignment --data DATA

Question: which head of cross-attention tells best which source word a target word translates, and how good is that
beside a tool made for it?

Design: source and reference go through the model. For each target word we take the source word with the largest weight,
either at the step that predicts the word or at the next, which reads it (Chen et al. 2020, arXiv 2004.14837, found the
latter better). The head is chosen by its alignment error rate on Tatoeba's test, where eflomal, trained on 100,000
pairs more, says what is right: links that it finds in both directions are sure, in one only possible. It is judged on
sentences aligned by hand (alignments/), as eflomal is. Lower is better; a head gives one link a word, so that 0 is out
of reach. The winner is kept in the checkpoint's generation_config.json, as `alignment_head`.
"""

import json
import lzma
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vaswani_transformer import checkpoint_path
from vaswani_transformer.loading import load
from vaswani_transformer.model.alignment_vaswani import WHEN, by_word, words

from . import figures
from .heads import CHECKPOINTS as OF_TEXT
from .intervals import Interval, bootstrap
from .lab import ROOM, ExperimentError, Lab
from .tables import Column, markdown


TITLE = "Alignment: the head that looks at the word it translates"
CHECKPOINTS = {**OF_TEXT, "multi30k-en-de": ("en-de", 0, 1), "multi30k-en-fr": ("en-fr", 0, 1)}
TRAINED, CHOSEN_BY = 100_000, 1000  # pairs for eflomal; of Tatoeba's test, to choose a head by

Links = set[tuple[int, int]]  # (word of the source, word of the target)


class Aligned(NamedTuple):
    """A pair with the links that count as right: `possible` holds the sure ones, too."""

    source: str
    target: str
    sure: Links
    possible: Links


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in words(text)]


def read_alignments(path: Path) -> list[Aligned]:
    """Sentences aligned by hand: see alignments/en-de.txt for how they are written.

    Raises:
        ValueError: a link is of a word that the sentence does not have.
    """
    paragraphs = path.read_text(encoding="utf-8").split("\n\n")
    return [parse(*paragraph.strip().splitlines()) for paragraph in paragraphs if not paragraph.startswith("#")]


def parse(source: str, target: str, links: str) -> Aligned:
    def place(word: str, sentence: str) -> int:
        text, _, number = word.partition("/")
        places = [i for i, one in enumerate(split(sentence)) if one == text]
        if len(places) < int(number or 1):
            raise ValueError(f"There is no {word!r} in {sentence!r}.")
        return places[int(number or 1) - 1]

    sure, possible = set(), set()
    for link in links.split():
        mark = "~" if "~" in link else "="
        one, other = link.split(mark)
        pair = place(one, source), place(other, target)
        possible.add(pair)
        if mark == "=":
            sure.add(pair)
    return Aligned(source, target, sure, possible)


def error_rate(found: Sequence[Links], right: Sequence[Aligned]) -> float:
    """AER (Och and Ney 2003): 1 - (|A and S| + |A and P|) / (|A| + |S|)."""
    hits = sum(len(a & one.sure) + len(a & one.possible) for a, one in zip(found, right, strict=True))
    return 1 - hits / sum(len(a) + len(one.sure) for a, one in zip(found, right, strict=True))


# Heads ---------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def links_of_heads(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Aligned]
) -> dict[tuple[int, int, str], list[Links]]:
    """Of each layer, head, and time of looking: a link for each target word of each pair."""
    model.set_attn_implementation("eager")
    found: dict[tuple[int, int, str], list[Links]] = {}
    for pair in pairs:
        inputs = tokenizer([pair.source], return_tensors="pt", return_offsets_mapping=True)
        outputs = tokenizer(text_target=[pair.target], return_tensors="pt", return_offsets_mapping=True)
        of_source = by_word(inputs.pop("offset_mapping")[0].tolist(), words(pair.source))  # [words, S]
        of_target = by_word(outputs["offset_mapping"][0].tolist(), words(pair.target))  # [words, T]
        ids = torch.cat(
            [model.prepare_decoder_input_ids_from_labels(outputs["input_ids"]), outputs["input_ids"][:, -1:]], 1
        )
        weights = model(**inputs, decoder_input_ids=ids, output_attentions=True).cross_attentions
        for layer, of_layer in enumerate(weights):
            for when, shift in WHEN.items():
                rows = of_layer[0].float()[:, shift : shift + of_target.shape[1]]  # [H, T, S]
                largest = (of_target @ rows @ of_source.T).argmax(dim=-1)  # [H, words]
                for head, chosen in enumerate(largest.tolist()):
                    links = {(i, j) for j, i in enumerate(chosen)}
                    found.setdefault((layer, head, when), []).append(links)
    model.set_attn_implementation("sdpa")
    return found


# eflomal -------------------------------------------------------------------------------------------------------------


def eflomal_links(pairs: Sequence[tuple[str, str]]) -> list[tuple[Links, Links]]:
    """The links of each pair in one direction and in the other.

    Raises:
        ExperimentError: eflomal is not installed.
    """
    try:
        from eflomal import Aligner
    except ImportError as error:
        raise ExperimentError('Alignment needs eflomal: pip install "vaswani-transformer[align]"') from error
    sources, targets = ([" ".join(split(text.lower())) + "\n" for text in side] for side in zip(*pairs, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "forward"), Path(folder, "reverse")
        Aligner().align(sources, targets, *map(str, files))
        return [
            tuple({tuple(map(int, link.split("-"))) for link in line.split()} for line in lines)
            for lines in zip(*(file.read_text().splitlines() for file in files), strict=True)
        ]


def training_pairs(lab: Lab, folder: str) -> list[tuple[str, str]]:
    """The first everyday sentences of the training data."""
    with lzma.open(lab.path(f"{folder}/train.tsv.xz"), "rt", encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file)
        return [(row[0], row[1]) for row in islice((row for row in rows if row[2] == "tatoeba"), TRAINED)]


# The experiment ------------------------------------------------------------------------------------------------------


def run(lab: Lab) -> dict[str, Any]:
    found = {}
    right = {folder: judge(lab, folder) for folder in dict.fromkeys(folder for folder, *_ in CHECKPOINTS.values())}
    for name, (folder, source, _) in CHECKPOINTS.items():
        chosen_by, by_hand, of_eflomal = right[folder]
        if source:
            chosen_by, by_hand = ([turned(pair) for pair in pairs] for pairs in (chosen_by, by_hand))
        model, tokenizer = load(checkpoint_path(name))
        rates = {
            key: error_rate(links, chosen_by) for key, links in links_of_heads(model, tokenizer, chosen_by).items()
        }
        best = min(rates, key=lambda key: rates[key])
        links = links_of_heads(model, tokenizer, by_hand)
        heads = [
            {"layer": layer, "head": head, "when": when, "by_eflomal": round(rate, 4)}
            | {"by_hand": round(error_rate(links[layer, head, when], by_hand), 4)}
            for (layer, head, when), rate in rates.items()
        ]
        found[name] = {"best": {"layer": best[0], "head": best[1], "when": best[2]}, "heads": heads}
        found[name] |= {"sentences": len(by_hand), "by_hand": interval(links[best], by_hand).rounded()}
        keep(checkpoint_path(name), found[name]["best"])
        found[name]["eflomal"] = {
            key: interval(of_all, right[folder][1]).rounded() for key, of_all in of_eflomal.items()
        }
    return {"checkpoints": found}


def keep(checkpoint: str, best: dict[str, Any]):
    """Writes the head into the checkpoint's record."""
    path = Path(checkpoint, "generation_config.json")
    kept = json.loads(path.read_text(encoding="utf-8")) | {"alignment_head": best}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)


def judge(lab: Lab, folder: str) -> tuple[list[Aligned], list[Aligned], dict[str, list[Links]]]:
    """Test pairs as eflomal aligns them, pairs aligned by hand, and what eflomal makes of these."""
    by_hand = read_alignments(ROOM / "alignments" / f"{folder}.txt")
    judged = {pair.source for pair in by_hand}
    tests = [pair for pair in lab.pairs(f"{folder}/tatoeba_test.tsv.xz")[:CHOSEN_BY] if pair[0] not in judged]
    given = [*training_pairs(lab, folder), *tests, *((pair.source, pair.target) for pair in by_hand)]
    links = eflomal_links(given)[-len(tests) - len(by_hand) :]
    chosen_by = [
        Aligned(source, target, one & other, one | other)
        for (source, target), (one, other) in zip(tests, links[: len(tests)], strict=True)
    ]
    of_hand = links[len(tests) :]
    return chosen_by, by_hand, {
        "both directions": [one & other for one, other in of_hand],
        "either direction": [one | other for one, other in of_hand],
    }  # fmt: skip


def turned(pair: Aligned) -> Aligned:
    """The same for the other direction of translation."""
    sure, possible = ({(j, i) for i, j in links} for links in (pair.sure, pair.possible))
    return Aligned(pair.target, pair.source, sure, possible)


def interval(links: Sequence[Links], right: Sequence[Aligned]) -> Interval:
    """Of the error rate, over the choice of sentences."""
    return bootstrap(lambda indices: error_rate([links[i] for i in indices], [right[i] for i in indices]), len(right))


def finding(found: dict[str, Any]) -> str:
    parts = []
    for name, of_model in found["checkpoints"].items():
        best = of_model["best"]
        parts.append(
            f"{name}: head {best['head'] + 1} of layer {best['layer'] + 1}, where the word is {best['when']}, "
            f"{rate(of_model['by_hand'])}; eflomal {rate(min(of_model['eflomal'].values()))}"
        )
    return f"The head that aligns best, with its error rate on sentences aligned by hand: {' | '.join(parts)}."


def report(found: dict[str, Any]) -> str:
    lines = []
    for name, of_model in found["checkpoints"].items():
        best = of_model["best"]
        lines.append(
            {
                "checkpoint": f"`{name}`",
                "head": f"layer {best['layer'] + 1}, head {best['head'] + 1}, where the word is {best['when']}",
                "error by hand": rate(of_model["by_hand"]),
                **{f"eflomal, {key}": rate(value) for key, value in of_model["eflomal"].items()},
                "sentences": of_model["sentences"],
            }
        )
    columns = [Column(name, right=name not in ("checkpoint", "head")) for name in lines[0]]
    return "\n\n".join([draw(found["checkpoints"]), markdown(columns, lines)])


def rate(values: Sequence[float]) -> str:
    value, low, high = values
    return f"{value:.1%} ({low:.1%} to {high:.1%})"


def draw(checkpoints: dict[str, Any]) -> str:
    drawn = figures.figure(9, 5)
    every = drawn.subplots(2, 3).ravel()
    for axes in every[len(checkpoints) :]:
        axes.set_axis_off()
    for axes, (name, of_model) in zip(every, checkpoints.items(), strict=False):
        for when, colour in zip(WHEN, figures.COLOURS, strict=False):
            heads = [one for one in of_model["heads"] if one["when"] == when]
            places = np.arange(len(heads))
            axes.plot(places, [one["by_hand"] for one in heads], "o", color=colour, markersize=4, label=f"word {when}")
        axes.set_xticks(places, [f"{one['layer'] + 1}.{one['head'] + 1}" for one in heads], fontsize=7)
        axes.axhline(
            min(values[0] for values in of_model["eflomal"].values()), color="#999999", linewidth=0.8, label="eflomal"
        )
        axes.set(title=name, xlabel="layer and head", ylabel="error rate, by hand", ylim=(0, 1))
    drawn.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figures.save(drawn, "alignment", "Alignment error rate of each cross-attention head")
