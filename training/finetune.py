"""Fine-tunes a checkpoint on one's own translations, and says what that gained on a part that was held out.

vaswani finetune memory.tmx --output mine
vaswani translate --checkpoint mine "A sentence of the same kind."

The translations are a memory (.tmx, .xliff, .po), or a file of columns separated by tabs (.tsv; .xz and .gz, too).
"""

from __future__ import annotations

import math
import random
import re
import tempfile
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from vaswani_transformer import catalogue
from vaswani_transformer.documents.memories import Memory, is_memory, read_memory
from vaswani_transformer.system.command_line import ManyValues, count, count_or_zero, make_app, option_groups, run_app
from vaswani_transformer.system.console import errors_as_messages
from vaswani_transformer.system.files import check_writable, write_json

from .evaluate import evaluate_pairs
from .files import atomic_folder
from .parallel_text import Pair, read_pairs
from .recipe import Source
from .scores import CHRF, SACREBLEU, likely_by_chance


if TYPE_CHECKING:  # torch and transformers take seconds to import: they wait until the command line is read
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


LEARNING_RATE, LORA_LEARNING_RATE = 5e-4, 3e-3
PROJECTIONS = ["qkv_proj", "q_proj", "kv_proj", "out_proj", "fc1", "fc2"]  # that a LoRA adapter changes
LEAST_STEPS, MOST_EPOCHS = 200, 20  # of a small memory
MOST_HELD_OUT = 500
EXAMPLES = 3


COLUMNS, TRAINING = "Columns of a file (counted from 0)", "Training"


@dataclass(kw_only=True)
class Options:
    """The options of `vaswani finetune`."""

    memory: Annotated[
        Path,
        typer.Argument(metavar="MEMORY", help="Your translations: .tmx, .xliff, .xlf, .po, or tab-separated columns."),
    ]
    output: Annotated[Path, typer.Option("--output", metavar="FOLDER", help="A new folder.")]
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="MODEL",
            help="Name of an included checkpoint, a folder or a Hub id. "
            "[dim]\\[default: the included one for the memory's languages][/]",
        ),
    ] = None
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="LANGUAGE", help="Source language, such as en, if the memory has several."),
    ] = None
    target: Annotated[
        str | None,
        typer.Option("--to", metavar="LANGUAGE", help="Target language, such as de, if the memory has several."),
    ] = None
    other: Annotated[
        Path | None, typer.Option("--other", metavar="FILE", help="A second test set, to measure forgetting.")
    ] = None

    source_column: Annotated[
        int, typer.Option("--source-column", parser=count_or_zero, metavar="N", rich_help_panel=COLUMNS)
    ] = 0
    target_column: Annotated[
        int, typer.Option("--target-column", parser=count_or_zero, metavar="N", rich_help_panel=COLUMNS)
    ] = 1
    tag_column: Annotated[
        int | None,
        typer.Option(
            "--tag-column",
            parser=count_or_zero,
            metavar="N",
            rich_help_panel=COLUMNS,
            help="With --tag: use only lines that have one of the tags in this column.",
        ),
    ] = None
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG...", rich_help_panel=COLUMNS, help="With --tag-column: one or more tags."),
    ] = None

    lora: Annotated[
        bool,
        typer.Option("--lora", rich_help_panel=TRAINING, help="Train a LoRA adapter and merge it into the weights."),
    ] = False
    adapter: Annotated[
        bool,
        typer.Option("--adapter", rich_help_panel=TRAINING, help="Train a LoRA adapter and save only it, for peft."),
    ] = False
    rank: Annotated[
        int, typer.Option("--rank", parser=count, metavar="N", rich_help_panel=TRAINING, help="Rank of the adapter.")
    ] = 16
    held_out: Annotated[
        int | None,
        typer.Option(
            "--held-out",
            parser=count,
            metavar="N",
            rich_help_panel=TRAINING,
            help="Pairs to score before and after, and not to train on. "
            f"[dim]\\[default: a tenth, at most {MOST_HELD_OUT}][/]",
        ),
    ] = None
    max_length: Annotated[
        int,
        typer.Option(
            "--max-length",
            parser=count,
            metavar="N",
            rich_help_panel=TRAINING,
            help="Maximum tokens on either side; longer pairs are left out.",
        ),
    ] = 100
    epochs: Annotated[
        float | None,
        typer.Option(
            "--epochs",
            metavar="N",
            rich_help_panel=TRAINING,
            help="Passes over the pairs. [dim]\\[default: 3; more for a small memory, to reach "
            f"{LEAST_STEPS} steps, but at most {MOST_EPOCHS}][/]",
        ),
    ] = None
    max_steps: Annotated[
        int,
        typer.Option(
            "--max-steps", metavar="N", rich_help_panel=TRAINING, show_default=False, help="Steps, instead of --epochs."
        ),
    ] = -1
    batch_size: Annotated[
        int,
        typer.Option("--batch-size", parser=count, metavar="N", rich_help_panel=TRAINING, help="Pairs in a batch."),
    ] = 128
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--learning-rate",
            metavar="RATE",
            rich_help_panel=TRAINING,
            help=f"Peak learning rate. [dim]\\[default: {LEARNING_RATE}, or {LORA_LEARNING_RATE} with an adapter][/]",
        ),
    ] = None
    seed: Annotated[int, typer.Option("--seed", metavar="N", rich_help_panel=TRAINING)] = 2017
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="DEVICE",
            rich_help_panel=TRAINING,
            help="cpu, cuda, cuda:1 or mps; auto is a GPU if there is one.",
        ),
    ] = "auto"


class Scored(NamedTuple):
    """Translations of pairs, and their scores by name."""

    scores: dict[str, dict]
    translations: list[str]


def train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair], options: Options):
    """Adam with a rate that rises and then falls linearly to 0. Label smoothing is in the model's own loss."""
    import torch
    from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        trainer = Seq2SeqTrainer(
            model=model,
            args=Seq2SeqTrainingArguments(
                folder,
                num_train_epochs=options.epochs or epochs_for(len(pairs), options.batch_size),
                max_steps=options.max_steps,
                per_device_train_batch_size=options.batch_size,
                train_sampling_strategy="group_by_length",
                learning_rate=options.learning_rate or (LORA_LEARNING_RATE if options.lora else LEARNING_RATE),
                warmup_steps=0.1,
                adam_beta2=0.98,
                bf16=options.device != "cpu" or torch.cpu._is_amx_tile_supported(),  # elsewhere float32 is faster
                use_cpu=options.device == "cpu",
                seed=options.seed,
                save_strategy="no",
                logging_strategy="no",
                dataloader_pin_memory=options.device != "cpu",
                report_to="none",
            ),
            train_dataset=[dict(tokenizer(source, text_target=target)) for source, target in pairs],
            data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
            processing_class=tokenizer,
        )
        trainer.train()
        trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)  # takes the autocast off `forward`


def epochs_for(pairs: int, batch_size: int) -> int:
    """3 for a memory of many pairs, more for a small one."""
    return min(MOST_EPOCHS, max(3, math.ceil(LEAST_STEPS * batch_size / pairs)))


def normalised(text: str) -> str:
    """What near duplicates share: the words, without case, punctuation and the values of numbers."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return re.sub(r"\d+", "0", " ".join(words)) or text


def split(pairs: Sequence[Pair], held_out: int | None, seed: int) -> tuple[list[Pair], list[Pair]]:
    """(pairs to train on, `held_out` pairs to test on): no source or target of one, once normalised, is in the other.

    By default a tenth is held out, 500 at most.

    Raises:
        ValueError: too few pairs.
    """
    pairs = list(dict.fromkeys(pairs))
    held_out = min(MOST_HELD_OUT, len(pairs) // 10) if held_out is None else held_out
    random.Random(seed).shuffle(pairs)
    test: dict[str, Pair] = {}
    for pair in pairs:
        if len(test) == held_out:
            break
        test.setdefault(normalised(pair[0]), pair)
    targets = {normalised(target) for _, target in test.values()}
    training = [p for p in pairs if normalised(p[0]) not in test and normalised(p[1]) not in targets]
    if len(test) < held_out or not held_out or not training:
        raise ValueError(f"{len(pairs):,} different pairs are too few to hold out {held_out:,} and train on others.")
    return training, list(test.values())


def read(path: Path, options: Options) -> Memory:
    """The pairs of a memory or of a file of columns, and their languages as far as they are known."""
    if is_memory(path):
        return read_memory(path, options.source, options.target)
    columns = {name: getattr(options, name) for name in ("source_column", "target_column", "tag_column")}
    pairs = read_pairs(Source(path=str(path), tags=options.tag or [], **columns))
    return Memory(pairs, options.source, options.target)


def checkpoint_for(memory: Memory) -> str:
    """The one that ships for the memory's languages."""
    return catalogue.for_languages(memory.source_language, memory.target_language)


def check_languages(source: str, memory: Memory, name: str):
    """Raises ValueError for a memory of other languages than the checkpoint's."""
    about = catalogue.read_about(Path(source))
    if about is None:
        return
    source_language, target_language = memory.source_language or "?", memory.target_language or "?"
    if source_language not in ("?", about.source_language) or target_language not in ("?", about.target_language):
        raise ValueError(f"{name} has {source_language} → {target_language}, and {about.name} {about.languages}.")


def run(options: Options) -> dict[str, Any]:
    """Loads, scores, trains, scores, and saves; returns what it recorded."""
    import torch
    from transformers import set_seed

    from vaswani_transformer import load
    from vaswani_transformer.hub import check_on_hub
    from vaswani_transformer.loading import check_device
    from vaswani_transformer.system.memory import keep_freed_memory

    from .data import remove_padding

    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    check_device(options.device)
    check_writable(options.output)
    memory = read(options.memory, options)
    source = catalogue.resolve(options.checkpoint) if options.checkpoint else checkpoint_for(memory)
    check_languages(source, memory, options.memory.name)
    check_on_hub(source)
    keep_freed_memory()
    set_seed(options.seed)
    # Fused attention has a slow backward pass for sentences on a CPU.
    attention = "eager" if options.device == "cpu" else "sdpa"
    base, tokenizer = load(source, torch.float32, attn_implementation=attention)
    base.to(options.device)
    pairs = not_too_long(memory.pairs, tokenizer, options.max_length)
    training, test = split(pairs, options.held_out, options.seed)
    sets = {"held out": test}
    if options.other:
        sets[options.other.name] = read(options.other, options).pairs
    model = with_adapter(base, options.rank) if options.lora or options.adapter else base
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    name = Path(source).name
    print(f"{name}: {len(training):,} pairs to train {trained:,} weights on, {len(test):,} held out", flush=True)

    before = {name: Scored(*evaluate_pairs(base, tokenizer, pairs)) for name, pairs in sets.items()}
    start = time.perf_counter()
    train(model, tokenizer, training, options)
    minutes = (time.perf_counter() - start) / 60
    after = {name: Scored(*evaluate_pairs(base, tokenizer, pairs)) for name, pairs in sets.items()}  # adapters included
    gains = {name: gain(pairs, before[name], after[name]) for name, pairs in sets.items()}
    for name, figures in gains.items():
        print_gain(name, figures)
    print_examples(test, before["held out"].translations, after["held out"].translations)

    record = {
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "checkpoint": Path(source).name,
        "pairs": {"training": len(training), "held_out": len(test), "left out": len(memory.pairs) - len(pairs)},
        "trained_weights": trained,
        "minutes": round(minutes, 2),
        "threads": torch.get_num_threads(),
        "gains": gains,
    }
    with atomic_folder(options.output) as folder:
        (model.merge_and_unload() if options.lora and not options.adapter else model).save_pretrained(folder)
        remove_padding(tokenizer)
        tokenizer.save_pretrained(folder)
        write_json(folder / "fine_tuning.json", record)
        if not options.adapter:
            write_json(folder / "about.json", describe(folder, options, source, memory, base.num_parameters()))
    print(f"\nvaswani translate --checkpoint {options.output}" if not options.adapter else f"\n{options.output}")
    return record


def not_too_long(pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, most: int) -> list[Pair]:
    """Those with 2 to `most` tokens on either side."""
    lengths = ([len(ids) for ids in tokenizer(list(pair))["input_ids"]] for pair in pairs)
    return [pair for pair, both in zip(pairs, lengths, strict=True) if all(2 <= n <= most for n in both)]


def with_adapter(model: PreTrainedModel, rank: int) -> torch.nn.Module:
    """The model with a LoRA adapter (Hu et al. 2021, arXiv 2106.09685), which alone is trained."""
    from peft import LoraConfig, TaskType, get_peft_model

    lora = LoraConfig(task_type=TaskType.SEQ_2_SEQ_LM, r=rank, lora_alpha=2 * rank, target_modules=PROJECTIONS)
    return get_peft_model(model, lora)


# What was gained -----------------------------------------------------------------------------------------------------


def gain(pairs: Sequence[Pair], before: Scored, after: Scored) -> dict[str, Any]:
    """Each score before and after, and how likely such a difference is by chance."""
    references = [reference for _, reference in pairs]
    chances = likely_by_chance(before.translations, after.translations, references)
    figures: dict[str, Any] = {
        name: {
            "before": before.scores[name]["value"],
            "after": after.scores[name]["value"],
            "p": chances[name],
            "signature": after.scores[name]["signature"],
        }
        for name in (SACREBLEU, CHRF)
    }
    same = {
        when: round(100 * sum(a == b for a, b in zip(scored.translations, references, strict=True)) / len(pairs), 1)
        for when, scored in (("before", before), ("after", after))
    }
    return figures | {"as in the memory, %": same}


def print_gain(name: str, figures: dict[str, Any]):
    print(f"\n{name:<22} before   after")
    for score, values in figures.items():
        change = values["after"] - values["before"]
        chance = f"  p = {values['p']:.3f}" if "p" in values else ""
        print(f"{score:<22} {values['before']:6.1f}  {values['after']:6.1f}  ({change:+.1f}){chance}")


def print_examples(pairs: Sequence[Pair], before: Sequence[str], after: Sequence[str]):
    """The first few of the held-out texts whose translation is another one now."""
    changed = [(pair, a, b) for pair, a, b in zip(pairs, before, after, strict=True) if a != b]
    for (source, reference), old, new in changed[:EXAMPLES]:
        print(f"\n  source  {source}\n  before  {old}\n  after   {new}\n  memory  {reference}")


# What is saved -------------------------------------------------------------------------------------------------------


def describe(folder: Path, options: Options, source: str, memory: Memory, parameters: int) -> dict[str, Any]:
    """The new checkpoint's about.json, after that of the one it comes from; see `catalogue.Checkpoint`."""
    base = catalogue.read_about(Path(source))
    known = base.to_dict() if base else {"licence": "", "max_length": options.max_length, "trained_on": []}
    known |= {"source_language": memory.source_language} if memory.source_language else {}
    known |= {"target_language": memory.target_language} if memory.target_language else {}
    return {
        "source_language": "",
        "target_language": "",
        **{name: value for name, value in known.items() if name not in ("path", "scores")},
        "name": options.output.resolve().name,
        "parameters": parameters,
        "bytes": sum(file.stat().st_size for file in folder.iterdir()),
        "domain": options.memory.name,
        "trained_on": [*known["trained_on"], options.memory.name],
    }


# The command ---------------------------------------------------------------------------------------------------------


app = make_app()


@app.command(cls=ManyValues)
@option_groups
def finetune(options: Options):
    """Fine-tune a checkpoint on your own translations, and report the gain on a held-out part of them.

    [dim]$[/] vaswani finetune memory.tmx --output mine
    [dim]$[/] vaswani translate --checkpoint mine "A sentence of the same kind."
    """
    if bool(options.tag) != (options.tag_column is not None):
        raise typer.BadParameter("--tag and --tag-column need each other.", param_hint="--tag")
    options.lora = options.lora or options.adapter
    with errors_as_messages(OSError, ValueError):
        if options.output.exists() and (not options.output.is_dir() or any(options.output.iterdir())):
            raise ValueError(f"{options.output} already exists and is not empty. Choose another name, or delete it.")
        run(options)


def main(arguments: Sequence[str] | None = None):
    run_app(app, "vaswani finetune", arguments)


if __name__ == "__main__":
    main()
