"""Heads: which a model needs, how many can go, and what they do.

    python -m experiments heads --data DATA --jobs 2

Question: multi-head attention "allows the model to jointly attend to information from different representation
subspaces at different positions" (section 3.2.2). Does a trained model need all of its heads? Michel et al. 2019 (arXiv
1905.10650) removed many of them at test time, cross-attention's least of all; Voita et al. 2019 (arXiv 1905.09418)
named what they do.

Design: the checkpoints that ship with the package. Each head by itself is switched off: the change of the loss of a
token of Tatoeba's test, paired by sentence, and of greedy sacreBLEU. Then heads go one after the other, each time the
one of ten without which the loss of other sentences rises the least; counted are those that go before the loss has
risen by 0.05 nats. What a head does is measured on news, whose sentences are longer: it is called positional where its
largest weight is on the same relative position for 90% of the tokens (Voita's rule); one of rare words where it is on
one of the two rarest tokens of the sentence more than half of the time (encoder), and one of the end where that is so
for the end of the sentence.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from multiprocessing import get_context
from typing import Any

import numpy as np
import sacrebleu
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from vaswani_transformer import checkpoint_path, translate_texts
from vaswani_transformer.inspection.heads import Head, head_names, twin_of, without_heads
from vaswani_transformer.loading import load

from . import figures
from .intervals import LEVEL, of_pairs
from .lab import Lab, recorded
from .tables import Column, markdown


TITLE = "Heads: which are needed, and what they do"
CHECKPOINTS = {
    "mini-en-de": ("en-de", 0, 1), "mini-de-en": ("en-de", 1, 0),
    "mini-en-fr": ("en-fr", 0, 1), "mini-fr-en": ("en-fr", 1, 0),
}  # fmt: skip
TESTED, SCORED, CHOSEN = slice(0, 1000), slice(0, 300), slice(1850, 2000)  # of Tatoeba's test; the last to choose by
TRIED = 10  # heads before each removal: those without which the loss rose least before
READ = 300  # sentences of news
POSITIONAL, OFTEN = 0.9, 0.5
RISE = 0.05  # nats; a perplexity that is 5% higher
NORMAL = 1.96  # of intervals over 1,000 sentences
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
        found = workers.starmap(examine, work, chunksize=1)
    return {"checkpoints": dict(zip(CHECKPOINTS, found, strict=True))}


def examine(name: str, pairs: Pairs, text: Sequence[str]) -> dict[str, Any]:
    """All that is recorded of a checkpoint; roles are those in `text`, and it says which words are rare."""
    model, tokenizer = load(checkpoint_path(name), dtype="float32")  # weights are kept in half of that
    model, heads = twin_of(model), head_names(model)
    whole, bleu = losses(model, tokenizer, pairs[TESTED]), bleu_of(model, tokenizer, pairs[SCORED])
    roles = roles_of(model, tokenizer, text)
    single = []
    for head in heads:
        with without_heads(model, [head]):
            without, its_bleu = losses(model, tokenizer, pairs[TESTED]), bleu_of(model, tokenizer, pairs[SCORED])
        change, tokens = without[:, 0] - whole[:, 0], whole[:, 1]
        value, reach = change.sum() / tokens.sum(), NORMAL * of_pairs(change, tokens) ** 0.5
        own = {"head": head, "loss": [round(float(x), 4) for x in (value, value - reach, value + reach)]}
        single.append({**own, "sacrebleu_greedy": round(its_bleu - bleu, 2), **roles[head]})
    return {
        "loss": round(float(whole[:, 0].sum() / whole[:, 1].sum()), 4),
        "sacrebleu_greedy": round(bleu, 2),
        "single": single,
        "removed": removal(model, tokenizer, heads, pairs),
    }


@torch.no_grad()
def losses(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Pairs, batch: int = 100) -> np.ndarray:
    """Of each pair: nats, and tokens of the target: [N, 2]."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]) + len(pairs[i][1]))
    found = np.zeros((len(pairs), 2))
    for start in range(0, len(order), batch):
        some = order[start : start + batch]
        inputs = tokenizer([pairs[i][0] for i in some], padding=True, return_tensors="pt")
        targets = tokenizer(text_target=[pairs[i][1] for i in some], padding=True, return_tensors="pt")
        counted = targets["attention_mask"].bool()
        labels = targets["input_ids"].masked_fill(~counted, -100)
        logits = model(**inputs, decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels)).logits
        nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        found[some] = torch.stack([nats.view(labels.shape).sum(dim=1), counted.sum(dim=1)], dim=1).numpy()
    return found


def bleu_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Pairs) -> float:
    translations = translate_texts(model, tokenizer, [source for source, _ in pairs], num_beams=1)
    return sacrebleu.corpus_bleu(translations, [[target for _, target in pairs]]).score


def removal(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, heads: list[Head], pairs: Pairs
) -> list[dict[str, Any]]:
    """Heads in the order in which they go, with what is left of the quality, until half of BLEU is gone."""
    gone: list[Head] = []
    steps: list[dict[str, Any]] = []
    costs = dict.fromkeys(heads, 0.0)
    while costs:
        tried = sorted(costs, key=lambda head: costs[head])[: TRIED if gone else None]
        for head in tried:
            with without_heads(model, [*gone, head]):
                costs[head] = losses(model, tokenizer, pairs[CHOSEN])[:, 0].sum()
        gone.append(min(tried, key=lambda head: costs[head]))
        del costs[gone[-1]]
        with without_heads(model, gone):
            nats, tokens = losses(model, tokenizer, pairs[TESTED]).sum(axis=0)
            bleu = bleu_of(model, tokenizer, pairs[SCORED])
        steps.append({"head": gone[-1], "loss": round(float(nats / tokens), 4), "sacrebleu_greedy": round(bleu, 2)})
        if bleu < max(step["sacrebleu_greedy"] for step in steps) / 2:
            break
    return steps


# Roles ---------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def roles_of(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: Sequence[str]
) -> dict[Head, dict[str, Any]]:
    """Of each head: how often its largest weight is where, over all tokens of sentences and their translations."""
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
        of_source = inputs["input_ids"][0].tolist()
        for (stack, kind), weights in zip(
            KINDS, (output.encoder_attentions, output.decoder_attentions, output.cross_attentions), strict=True
        ):
            keys = target[0].tolist() if (stack, kind) == ("decoder", "self_attn") else of_source
            for layer, of_layer in enumerate(weights):
                for head, largest in enumerate(of_layer[0].argmax(dim=-1).tolist()):  # [H, T]
                    tallies[stack, kind, layer, head].update(marks(largest, keys, (stack, kind), counts))
    model.set_attn_implementation("sdpa")
    return {head: role(tally, head) for head, tally in tallies.items()}


def marks(largest: list[int], keys: list[int], place: tuple[str, str], counts: Counter) -> Counter:
    """What the largest weights of the queries of one sentence are on."""
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
    place = max(places, key=lambda one: places[one], default=None)
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


def finding(found: dict[str, Any]) -> str:
    parts = []
    for name, of_model in found["checkpoints"].items():
        single = of_model["single"]
        harmless = sum(one["loss"][1] <= 0 for one in single)
        parts.append(f"{name}: {harmless} of {len(single)} by themselves, {spared(of_model)} together")
    worst = [max(of_model["single"], key=lambda one: one["loss"][0]) for of_model in found["checkpoints"].values()]
    kinds = Counter(KINDS[tuple(one["head"][:2])] for one in worst)
    [(kind, count)] = kinds.most_common(1)
    aligning = (recorded("alignment") or {"checkpoints": {}})["checkpoints"]
    aligns = sum(
        one["head"][1:] == ["cross_attn", aligning[name]["best"]["layer"], aligning[name]["best"]["head"]]
        for name, one in zip(found["checkpoints"], worst, strict=True)
        if name in aligning
    )
    same = f"; in {aligns} it is the one that aligns best, see there" if aligning else ""
    return (
        "Heads without which the loss does not surely rise, and heads that can go together before it has risen by "
        f"{RISE:g} nats: {'; '.join(parts)}. The head that is missed most is one of {kind} attention in {count} of "
        f"{len(worst)} checkpoints{same}."
    )


def spared(of_model: dict[str, Any]) -> int:
    """How many heads can go, in their order, before the loss has risen by `RISE`."""
    most = of_model["loss"] + RISE
    return len(list(takewhile(lambda step: step["loss"] <= most, of_model["removed"])))


def report(found: dict[str, Any]) -> str:
    parts = [draw(found["checkpoints"])]
    lines = []
    for name, of_model in found["checkpoints"].items():
        single = of_model["single"]
        harmless = [one for one in single if one["loss"][1] <= 0]
        worst = max(single, key=lambda one: one["loss"][0])
        full = of_model["sacrebleu_greedy"]
        placed = max((one for one in single if "place" in one), key=lambda one: one["at_place"])
        lines.append(
            {
                "checkpoint": f"`{name}`",
                "heads": len(single),
                "no loss without": len(harmless),
                "most missed": f"{short(worst['head'])} ({worst['loss'][0]:+.2f} nats)",
                f"can go together for {RISE:g} nats": spared(of_model),
                "BLEU": f"{full:.1f}",
                "most positional": f"{short(placed['head'])}, {placed['place']:+d} for {placed['at_place']:.0%}",
                "roles": ", ".join(f"{count} {role}" for role, count in Counter(
                    one["role"] for one in single if one["role"]).most_common()),
            }
        )  # fmt: skip
    columns = [Column(name, right=name in ("heads", "BLEU", "no loss without")) for name in lines[0]]
    parts.append(markdown(columns, lines))
    parts.append(
        f'"No loss without": the interval of {LEVEL:.0%} of the change of the loss reaches 0 or below. Heads are named '
        "by attention, layer and number, counted from 1."
    )
    return "\n\n".join(parts)


def draw(checkpoints: dict[str, Any]) -> str:
    drawn = figures.figure(9.5, 2.9 * len(checkpoints))
    rows = drawn.subplots(len(checkpoints), 2, width_ratios=[1.3, 1], squeeze=False)
    for (name, of_model), (bars, line) in zip(checkpoints.items(), rows, strict=True):
        single = of_model["single"]
        colours = {kind: figures.COLOURS[i] for i, kind in enumerate(KINDS.values())}
        for kind, colour in colours.items():
            places = [i for i, one in enumerate(single) if KINDS[tuple(one["head"][:2])] == kind]
            values = np.array([single[i]["loss"] for i in places])
            bars.bar(places, values[:, 0], color=colour, label=kind)
            bars.vlines(places, values[:, 1], values[:, 2], color="#333333", linewidth=0.8)
        bars.set(title=f"{name}: loss without a head, beyond the whole model's", ylabel="nats a token")
        bars.set_xticks([i for i, one in enumerate(single) if one["head"][3] == 0],
                        [short(one["head"]) for one in single if one["head"][3] == 0], rotation=45)  # fmt: skip
        bars.legend()
        bleu = [of_model["sacrebleu_greedy"], *(step["sacrebleu_greedy"] for step in of_model["removed"])]
        line.plot(range(len(bleu)), bleu, color="#999999", zorder=1)
        for kind, colour in colours.items():
            steps = [i for i, s in enumerate(of_model["removed"], 1) if KINDS[tuple(s["head"][:2])] == kind]
            line.plot(steps, [bleu[i] for i in steps], "o", color=colour, markersize=4, label=kind)
        line.set(title="Heads removed one after the other", xlabel=f"of {len(single)}", ylabel="BLEU", ylim=(0, None))
    return figures.save(drawn, "heads", "Loss without each head, and BLEU as heads are removed")
