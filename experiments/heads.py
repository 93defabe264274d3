"""Heads: which ones a model needs, how many it can lose, and what they do.

    python -m experiments heads --data DATA --jobs 2

Question: multi-head attention "allows the model to jointly attend to information from different representation
subspaces at different positions" (section 3.2.2). Does a trained model need all of its heads? Michel et al. 2019 (arXiv
1905.10650) removed many at test time, but few of cross-attention; Voita et al. 2019 (arXiv 1905.09418) described what
heads do.

Design:

- The models are earlier releases of the included checkpoints.
- Single heads: each head alone is switched off. We measure the change in loss per token of Tatoeba's test, paired by
  sentence, and in greedy sacreBLEU.
- Several heads: heads are removed one after another, each time the one of ten candidates whose removal raises the loss
  least, measured on other sentences. We count the heads removed before the loss has risen by 0.05 nats.
- Roles are measured on news, whose sentences are longer:
    - positional: the largest weight is on the same relative position for 90% of tokens (Voita's rule);
    - rare words: it is on one of the sentence's two rarest tokens more than half of the time (encoder only);
    - end of the sentence: it is on the end token more than half of the time.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from multiprocessing import get_context
from typing import Any

import numpy as np
import sacrebleu
import torch
from matplotlib.axes import Axes
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vaswani_transformer import checkpoint_path, translate_texts
from vaswani_transformer.inspection.heads import Head, head_names, shared_copy, without_heads
from vaswani_transformer.loading import load

from . import figures
from .intervals import LEVEL, sampling_variance
from .lab import Lab, read_results
from .tables import Column, bullets, markdown


TITLE = "Heads: which are needed, and what they do"
CHECKPOINTS = {
    "mini-en-de": ("en-de", 0, 1), "mini-de-en": ("en-de", 1, 0),
    "mini-en-fr": ("en-fr", 0, 1), "mini-fr-en": ("en-fr", 1, 0),
}  # fmt: skip
TESTED, SCORED, CHOSEN = (
    slice(0, 1000),
    slice(0, 300),
    slice(1850, 2000),
)  # lines of Tatoeba's test; the last choose heads to remove
CANDIDATES = 10  # heads to try before each removal: those that were needed least so far
READ = 300  # sentences of news
POSITIONAL, OFTEN = 0.9, 0.5
RISE = 0.05  # nats; a perplexity that is 5% higher
NORMAL = 1.96  # quantile for intervals over 1,000 sentences
KINDS = {("encoder", "self_attn"): "encoder", ("decoder", "self_attn"): "decoder", ("decoder", "cross_attn"): "cross"}
Pairs = Sequence[tuple[str, str]]


def run(lab: Lab) -> dict[str, Any]:
    work = []
    for name, (folder, source, target) in CHECKPOINTS.items():
        pairs = [(pair[source], pair[target]) for pair in lab.pairs(f"{folder}/tatoeba_test.tsv.xz")]
        text = [pair[source] for pair in lab.pairs(f"{folder}/newstest2013.tsv.xz")]
        work.append((name, pairs, text))
    threads = max(1, torch.get_num_threads() // lab.jobs)
    with get_context("spawn").Pool(lab.jobs, torch.set_num_threads, (threads,)) as workers:
        results = workers.starmap(examine, work, chunksize=1)
    return {"checkpoints": dict(zip(CHECKPOINTS, results, strict=True))}


def examine(name: str, pairs: Pairs, text: Sequence[str]) -> dict[str, Any]:
    """The results of a checkpoint; `text` defines the roles of heads, and which words are rare."""
    model, tokenizer = load(checkpoint_path(name), dtype="float32")  # stored in half of that
    model, heads = shared_copy(model), head_names(model)
    whole, bleu = losses(model, tokenizer, pairs[TESTED]), bleu_of(model, tokenizer, pairs[SCORED])
    roles = roles_of(model, tokenizer, text)
    single = []
    for head in heads:
        with without_heads(model, [head]):
            without, bleu_without = losses(model, tokenizer, pairs[TESTED]), bleu_of(model, tokenizer, pairs[SCORED])
        change, tokens = without[:, 0] - whole[:, 0], whole[:, 1]
        value, reach = change.sum() / tokens.sum(), NORMAL * sampling_variance(change, tokens) ** 0.5
        result = {"head": head, "loss": [round(float(x), 4) for x in (value, value - reach, value + reach)]}
        single.append({**result, "sacrebleu_greedy": round(bleu_without - bleu, 2), **roles[head]})
    return {
        "loss": round(float(whole[:, 0].sum() / whole[:, 1].sum()), 4),
        "sacrebleu_greedy": round(bleu, 2),
        "single": single,
        "removed": removal(model, tokenizer, heads, pairs),
    }


@torch.no_grad()
def losses(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Pairs, batch: int = 100) -> np.ndarray:
    """Nats and tokens of each target: [N, 2]."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    results = np.zeros((len(pairs), 2))
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        inputs = tokenizer([pairs[i][0] for i in rows], padding=True, return_tensors="pt")
        targets = tokenizer(text_target=[pairs[i][1] for i in rows], padding=True, return_tensors="pt")
        counted = targets["attention_mask"].bool()
        labels = targets["input_ids"].masked_fill(~counted, -100)
        logits = model(**inputs, decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels)).logits
        nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        results[rows] = torch.stack([nats.view(labels.shape).sum(dim=1), counted.sum(dim=1)], dim=1).numpy()
    return results


def bleu_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Pairs) -> float:
    translations = translate_texts(model, tokenizer, [source for source, _ in pairs], num_beams=1)
    return sacrebleu.corpus_bleu(translations, [[target for _, target in pairs]]).score


def removal(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, heads: list[Head], pairs: Pairs
) -> list[dict[str, Any]]:
    """Heads in the order of their removal, with the remaining quality, until half of BLEU is lost."""
    removed: list[Head] = []
    steps: list[dict[str, Any]] = []
    costs = dict.fromkeys(heads, 0.0)
    while costs:
        candidates = sorted(costs, key=lambda head: costs[head])[: CANDIDATES if removed else None]
        for head in candidates:
            with without_heads(model, [*removed, head]):
                costs[head] = losses(model, tokenizer, pairs[CHOSEN])[:, 0].sum()
        removed.append(min(candidates, key=lambda head: costs[head]))
        del costs[removed[-1]]
        with without_heads(model, removed):
            nats, tokens = losses(model, tokenizer, pairs[TESTED]).sum(axis=0)
            bleu = bleu_of(model, tokenizer, pairs[SCORED])
        steps.append({"head": removed[-1], "loss": round(float(nats / tokens), 4), "sacrebleu_greedy": round(bleu, 2)})
        if bleu < max(step["sacrebleu_greedy"] for step in steps) / 2:
            break
    return steps


# Roles ---------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def roles_of(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: Sequence[str]
) -> dict[Head, dict[str, Any]]:
    """The role of each head: where its largest weights are, over all tokens of sentences and their translations."""
    counts = Counter(token for ids in tokenizer(list(text), verbose=False)["input_ids"] for token in ids)
    sources = text[:READ]
    translations = translate_texts(model, tokenizer, sources, num_beams=1)
    model.set_attn_implementation("eager")
    tallies: dict[Head, Counter] = {head: Counter() for head in head_names(model)}
    for source, translation in zip(sources, translations, strict=True):
        inputs = tokenizer([source], return_tensors="pt")
        labels = tokenizer(text_target=[translation], return_tensors="pt")["input_ids"]
        target = model.prepare_decoder_input_ids_from_labels(labels)
        output = model(**inputs, decoder_input_ids=target, output_attentions=True)
        source_ids = inputs["input_ids"][0].tolist()
        for (stack, kind), weights in zip(
            KINDS, (output.encoder_attentions, output.decoder_attentions, output.cross_attentions), strict=True
        ):
            keys = target[0].tolist() if (stack, kind) == ("decoder", "self_attn") else source_ids
            for layer, layer_weights in enumerate(weights):
                for head, largest in enumerate(layer_weights[0].argmax(dim=-1).tolist()):  # [H, T]
                    tallies[stack, kind, layer, head].update(marks(largest, keys, (stack, kind), counts))
    model.set_attn_implementation("sdpa")
    return {head: role(tally, head) for head, tally in tallies.items()}


def marks(largest: list[int], keys: list[int], place: tuple[str, str], counts: Counter) -> Counter:
    """Counts what the largest weights of a sentence's queries are on."""
    rare = set(sorted(range(len(keys) - 1), key=lambda i: counts[keys[i]])[:2])
    tally = Counter(queries=len(largest))
    for query, key in enumerate(largest):
        if place[0] == "encoder":
            tally["rare"] += key in rare
        if place != ("decoder", "self_attn"):
            tally["end"] += key == len(keys) - 1
        if place[1] == "self_attn":
            tally[key - query] += 1
    return tally


def role(tally: Counter, head: Head) -> dict[str, Any]:
    places = {place: count for place, count in tally.items() if isinstance(place, int)}
    place = max(places, key=lambda position: places[position], default=None)
    shares = {name: round(tally[name] / tally["queries"], 3) for name in ("rare", "end")}
    if place is not None:
        shares |= {"place": place, "at_place": round(tally[place] / tally["queries"], 3)}
    if shares.get("at_place", 0) >= POSITIONAL:
        name = f"position {place:+d}" if place else "itself"
    elif shares["end"] > OFTEN:
        name = "end of the sentence"
    elif shares["rare"] > OFTEN:
        name = "rare words"
    else:
        name = ""
    return {**shares, "role": name}


# The report ----------------------------------------------------------------------------------------------------------


def short(head: Sequence) -> str:
    stack, kind, layer, number = head
    return f"{KINDS[stack, kind]} {layer + 1}.{number + 1}"


def finding(results: dict[str, Any]) -> str:
    checkpoints = results["checkpoints"]
    counts = [removable(model) for model in checkpoints.values()]
    heads = [len(model["single"]) for model in checkpoints.values()]
    worst = {name: most_needed(model)["head"] for name, model in checkpoints.items()}
    [(kind, count)] = Counter(KINDS[tuple(head[:2])] for head in worst.values()).most_common(1)
    sentences = [
        f"At least {min(counts)} of {min(heads)} heads can be removed together before the loss has risen by {RISE:g} "
        "nats.",
        f"The head that a checkpoint needs most is a {kind}-attention head in {count} of {len(worst)} checkpoints.",
    ]
    if aligning := aligning_too(worst):
        sentences.append(f"In {sum(aligning)} of them it is also the head that aligns best.")
    return " ".join(sentences)


def aligning_too(worst: dict[str, list]) -> list[bool]:
    """Whether the most needed head is also the one that aligns best, for each checkpoint of which both are known."""
    best = {
        name: model["best"] for name, model in (read_results("alignment") or {"checkpoints": {}})["checkpoints"].items()
    }
    return [
        head[1:] == ["cross_attn", best[name]["layer"], best[name]["head"]]
        for name, head in worst.items()
        if name in best
    ]


def most_needed(model: dict[str, Any]) -> dict[str, Any]:
    return max(model["single"], key=lambda result: result["loss"][0])


def removable(model: dict[str, Any]) -> int:
    """The number of heads that can be removed, in their order, before the loss has risen by `RISE`."""
    limit = model["loss"] + RISE
    return len(list(takewhile(lambda step: step["loss"] <= limit, model["removed"])))


def facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the rows of the explorer's table: what was measured, and the result."""
    checkpoints = results["checkpoints"]
    fewest, of_all = min((removable(model), len(model["single"])) for model in checkpoints.values())
    kinds = Counter(KINDS[tuple(most_needed(model)["head"][:2])] for model in checkpoints.values())
    [(kind, count)] = kinds.most_common(1)
    rows = [
        (
            f"Heads that can be removed together before the loss has risen by {RISE:g} nats",
            f"at least {fewest} of {of_all}",
        ),
        (f"The most needed head is a {kind}-attention head", f"in {count} of {len(checkpoints)} checkpoints"),
    ]
    if aligning := aligning_too({name: most_needed(model)["head"] for name, model in checkpoints.items()}):
        rows.append(("It is also the head that aligns best", f"in {sum(aligning)} of {len(aligning)} checkpoints"))
    return rows


def report(results: dict[str, Any]) -> str:
    lines = []
    for name, model in results["checkpoints"].items():
        single, worst = model["single"], most_needed(model)
        positional = max((result for result in single if "place" in result), key=lambda result: result["at_place"])
        roles = Counter(result["role"] for result in single if result["role"]).most_common()
        lines.append(
            {
                "checkpoint": f"`{name}`",
                "heads": len(single),
                "not needed alone": sum(result["loss"][1] <= 0 for result in single),
                "removable together": removable(model),
                "most needed": f"{short(worst['head'])} ({worst['loss'][0]:+.2f} nats)",
                "BLEU": f"{model['sacrebleu_greedy']:.1f}",
                "most positional": f"{short(positional['head'])}, {positional['place']:+d} for "
                f"{positional['at_place']:.0%}",
                "roles": ", ".join(f"{count} {role}" for role, count in roles),
            }
        )
    numbers = ("heads", "BLEU", "not needed alone", "removable together")
    columns = [Column(name, right=name in numbers) for name in lines[0]]
    key = [
        f"not needed alone: heads for which the interval ({LEVEL:.0%}) of the change in loss includes 0 or less.",
        f"removable together: heads that can be removed before the loss has risen by {RISE:g} nats.",
        "most positional: the head that looks most often at one relative position; -1 is the token before its own.",
        "roles: how many heads have each role of the list above.",
        "Heads are named by attention, layer and number, counted from 1: encoder 4.2 is head 2 of layer 4.",
    ]
    return "\n\n".join([draw(results["checkpoints"]), markdown(columns, lines), bullets(key)])


def draw(checkpoints: dict[str, Any]) -> str:
    figure = figures.figure(9.5, 2.9 * len(checkpoints))
    rows = figure.subplots(len(checkpoints), 2, width_ratios=[1.3, 1], squeeze=False)
    colours = dict(zip(KINDS.values(), figures.COLOURS, strict=False))
    for (name, model), (bars, line) in zip(checkpoints.items(), rows, strict=True):
        draw_single(bars, name, model["single"], colours)
        bleu = [model["sacrebleu_greedy"], *(step["sacrebleu_greedy"] for step in model["removed"])]
        line.plot(range(len(bleu)), bleu, color="#999999", zorder=1)
        for kind, colour in colours.items():
            steps = [i for i, step in enumerate(model["removed"], 1) if KINDS[tuple(step["head"][:2])] == kind]
            line.plot(steps, [bleu[i] for i in steps], "o", color=colour, markersize=4, label=kind)
        xlabel = f"removed heads, of {len(model['single'])}"
        line.set(title="Heads removed one after another", xlabel=xlabel, ylabel="BLEU", ylim=(0, None))
    return figures.save(figure, "heads", "Change in loss without each head, and BLEU as heads are removed")


def draw_single(axes: Axes, name: str, single: list[dict[str, Any]], colours: dict[str, str]):
    """Bars of the change in loss without each head, with intervals."""
    for kind, colour in colours.items():
        places = [i for i, result in enumerate(single) if KINDS[tuple(result["head"][:2])] == kind]
        values = np.array([single[i]["loss"] for i in places])
        axes.bar(places, values[:, 0], color=colour, label=kind)
        axes.vlines(places, values[:, 1], values[:, 2], color="#333333", linewidth=0.8)
    ticks = {i: short(result["head"]) for i, result in enumerate(single) if result["head"][3] == 0}
    axes.set(title=f"{name}: change in loss without a head", ylabel="nats per token")
    axes.set_xticks(list(ticks), list(ticks.values()), rotation=45)
    axes.legend()
