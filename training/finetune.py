"""Fine-tune a checkpoint on your translations and report the gain on a held-out part.

vaswani finetune memory.tmx --output mine
vaswani translate --checkpoint mine "A sentence of the same kind."

Your translations are a memory (.tmx, .xliff, .po) or a tab-separated file (.tsv, also .gz, .bz2, .xz or .zst).
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
from vaswani_transformer.system.files import check_regular, check_writable, write_json

from .evaluate import evaluate_pairs
from .files import atomic_folder
from .models import recorded_fact
from .parallel_text import Pair, read_pairs
from .recipe import Source
from .scores import CHRF, SACREBLEU, bootstrap_p_values


if TYPE_CHECKING:  # importing torch and transformers takes seconds, so it waits until the command line is parsed
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


LEARNING_RATE, LORA_LEARNING_RATE = 5e-4, 3e-3
MIN_STEPS, MAX_EPOCHS = 200, 20  # of a small memory
MAX_HELD_OUT = 500
EXAMPLES = 3


COLUMNS, TRAINING = "Columns of a tab-separated file (counted from 0)", "Training"


@dataclass(kw_only=True)
class Options:
    """The options of `vaswani finetune`."""

    memory: Annotated[
        Path,
        typer.Argument(
            metavar="MEMORY",
            exists=True,
            dir_okay=False,
            help="Your translations: .tmx, .xliff, .xlf, .po, or tab-separated columns.",
        ),
    ]
    output: Annotated[Path, typer.Option("--output", metavar="FOLDER", help="New folder for the fine-tuned model.")]
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
        Path | None,
        typer.Option(
            "--other", metavar="FILE", exists=True, dir_okay=False, help="A second test set, to measure forgetting."
        ),
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
        typer.Option("--adapter", rich_help_panel=TRAINING, help="Train a LoRA adapter and save it alone, for peft."),
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
            help="Number of pairs kept out of training, and scored before and after it. "
            f"[dim]\\[default: a tenth, at most {MAX_HELD_OUT}][/]",
        ),
    ] = None
    max_length: Annotated[
        int,
        typer.Option(
            "--max-length",
            parser=count,
            metavar="N",
            rich_help_panel=TRAINING,
            help="Maximum tokens on either side; longer pairs are dropped.",
        ),
    ] = 100
    epochs: Annotated[
        float | None,
        typer.Option(
            "--epochs",
            metavar="N",
            rich_help_panel=TRAINING,
            help="Passes over the pairs. [dim]\\[default: 3; more for a small memory, to reach "
            f"{MIN_STEPS} steps, but at most {MAX_EPOCHS}][/]",
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
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.", rich_help_panel=TRAINING)] = 2017
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="DEVICE",
            rich_help_panel=TRAINING,
            help="cpu, cuda, cuda:1 or mps; auto uses a GPU if there is one.",
        ),
    ] = "auto"


class Scored(NamedTuple):
    """Scores by name, and the translations they belong to."""

    scores: dict[str, dict]
    translations: list[str]


def train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair], options: Options):
    """Train with Adam and a rate that rises and then falls linearly to 0. The model's loss has label smoothing."""
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
        trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)  # removes the autocast from `forward`


def epochs_for(pairs: int, batch_size: int) -> int:
    """Return 3 epochs for a large memory and more for a small one."""
    return min(MAX_EPOCHS, max(3, math.ceil(MIN_STEPS * batch_size / pairs)))


def normalised(text: str) -> str:
    """Return what near duplicates have in common: the words, without case, punctuation and values of numbers."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return re.sub(r"\d+", "0", " ".join(words)) or text


def split(pairs: Sequence[Pair], held_out: int | None, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Split pairs into (training pairs, `held_out` test pairs) that share no normalised source or target.

    By default a tenth is held out, at most 500.

    Raises:
        ValueError: There are too few pairs.
    """
    pairs = list(dict.fromkeys(pairs))
    held_out = min(MAX_HELD_OUT, len(pairs) // 10) if held_out is None else held_out
    random.Random(seed).shuffle(pairs)
    test: dict[str, Pair] = {}
    for pair in pairs:
        if len(test) == held_out:
            break
        test.setdefault(normalised(pair[0]), pair)
    targets = {normalised(target) for _, target in test.values()}
    training = [p for p in pairs if normalised(p[0]) not in test and normalised(p[1]) not in targets]
    if len(test) < held_out or not held_out or not training:
        raise ValueError(f"Only {len(pairs):,} distinct pairs: too few to hold out {held_out:,} and still train.")
    return training, list(test.values())


def read(path: Path, options: Options) -> Memory:
    """Read the pairs of a memory or of a tab-separated file, and their languages if known.

    Raises:
        ValueError: The file is not a regular file, is damaged, or has no pairs.
    """
    check_regular(path)
    memory = read_memory(path, options.source, options.target) if is_memory(path) else read_columns(path, options)
    if not memory.pairs:
        raise ValueError(f"{path} has no pairs of a text and its translation.")
    return memory


def read_columns(path: Path, options: Options) -> Memory:
    """Read the pairs of a tab-separated file."""
    columns = {name: getattr(options, name) for name in ("source_column", "target_column", "tag_column")}
    pairs = read_pairs(Source(path=str(path), tags=options.tag or [], **columns))
    return Memory(pairs, options.source, options.target)


def checkpoint_for(memory: Memory) -> str:
    """Return the included checkpoint for the memory's languages."""
    return catalogue.for_languages(memory.source_language, memory.target_language)


def check_languages(source: str, memory: Memory, name: str):
    """Check that the memory has the checkpoint's languages.

    Raises:
        ValueError: It has not.
    """
    about = catalogue.read_about(Path(source))
    if about is None:
        return
    source_language, target_language = memory.source_language or "?", memory.target_language or "?"
    if source_language not in ("?", about.source_language) or target_language not in ("?", about.target_language):
        raise ValueError(f"{name} is {source_language} → {target_language}, but {about.name} is {about.languages}.")


def run(options: Options) -> dict[str, Any]:
    """Load, score, train, score again and save; return the record of fine_tuning.json."""
    import torch
    from transformers import set_seed

    from vaswani_transformer import load
    from vaswani_transformer.loading import check_device
    from vaswani_transformer.locating import locate
    from vaswani_transformer.system.memory import keep_freed_memory

    from .data import remove_padding

    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    check_device(options.device)
    check_writable(options.output)
    memory = read(options.memory, options)
    other = read(options.other, options).pairs if options.other else []
    target = memory.target_language  # which a model with several target languages needs
    source = locate(options.checkpoint, target) if options.checkpoint else checkpoint_for(memory)
    check_languages(source, memory, options.memory.name)
    keep_freed_memory()
    set_seed(options.seed)
    # Fused attention has a slow backward pass for sentences on a CPU.
    attention = "eager" if options.device == "cpu" else "sdpa"
    base, tokenizer = load(source, torch.float32, attn_implementation=attention)
    base.to(options.device)
    pairs = select_by_length(memory.pairs, tokenizer, options.max_length)
    training, test = split(pairs, options.held_out, options.seed)
    sets = {"held out": test}
    if options.other:
        sets[options.other.name] = other
    model = with_adapter(base, options.rank) if options.lora or options.adapter else base
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    checkpoint = catalogue.display_name(source)
    print(
        f"{checkpoint}: training {trained:,} parameters on {len(training):,} pairs; {len(test):,} pairs held out",
        flush=True,
    )

    before = {name: Scored(*evaluate_pairs(base, tokenizer, pairs)) for name, pairs in sets.items()}
    start = time.perf_counter()
    train(model, tokenizer, training, options)
    minutes = (time.perf_counter() - start) / 60
    after = {name: Scored(*evaluate_pairs(base, tokenizer, pairs)) for name, pairs in sets.items()}  # with the adapter
    gains = {name: gain(pairs, before[name], after[name]) for name, pairs in sets.items()}
    for name, figures in gains.items():
        print_gain(name, figures)
    print_examples(test, before["held out"].translations, after["held out"].translations)

    record = {
        "options": {name: shareable(value) for name, value in vars(options).items()},
        "checkpoint": shareable(checkpoint),
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


def shareable(value: Any) -> Any:
    """Return an option for the record, with only the last part of a path: the others may name the user."""
    path = Path(value) if isinstance(value, str | Path) else None
    return path.name if path and (isinstance(value, Path) or path.is_absolute()) else value


def select_by_length(pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, max_length: int) -> list[Pair]:
    """Return the pairs with 2 to `max_length` tokens on each side."""
    lengths = ([len(ids) for ids in tokenizer(list(pair))["input_ids"]] for pair in pairs)
    return [pair for pair, both in zip(pairs, lengths, strict=True) if all(2 <= n <= max_length for n in both)]


def with_adapter(model: PreTrainedModel, rank: int) -> torch.nn.Module:
    """Return the model with a LoRA adapter on every linear map of its layers (Hu et al. 2021, arXiv 2106.09685).

    Only the adapter is trained.
    """
    from peft import LoraConfig, TaskType, get_peft_model

    lora = LoraConfig(task_type=TaskType.SEQ_2_SEQ_LM, r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    return get_peft_model(model, lora)


# Gain ---------------------------------------------------------------------------------------------------------------


def gain(pairs: Sequence[Pair], before: Scored, after: Scored) -> dict[str, Any]:
    """Return each score before and after, and the p-value of the difference."""
    references = [reference for _, reference in pairs]
    p_values = bootstrap_p_values(before.translations, after.translations, references)
    figures: dict[str, Any] = {
        name: {
            "before": before.scores[name]["value"],
            "after": after.scores[name]["value"],
            "p": p_values[name],
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
        p_value = f"  p = {values['p']:.3f}" if "p" in values else ""
        print(f"{score:<22} {values['before']:6.1f}  {values['after']:6.1f}  ({change:+.1f}){p_value}")


def print_examples(pairs: Sequence[Pair], before: Sequence[str], after: Sequence[str]):
    """Print the first few held-out texts whose translation has changed."""
    changed = [(pair, a, b) for pair, a, b in zip(pairs, before, after, strict=True) if a != b]
    for (source, reference), old, new in changed[:EXAMPLES]:
        print(f"\n  source  {source}\n  before  {old}\n  after   {new}\n  memory  {reference}")


# Saving --------------------------------------------------------------------------------------------------------------


def describe(folder: Path, options: Options, source: str, memory: Memory, parameters: int) -> dict[str, Any]:
    """Return the new checkpoint's about.json, based on that of its base checkpoint; see `catalogue.Checkpoint`."""
    base = catalogue.read_about(Path(source))
    known = base.to_dict() if base else {"max_length": options.max_length, "trained_on": []}
    for key in ("source_language", "target_language", "licence"):
        known.setdefault(key, recorded_fact(source, key) or "")
    known |= {"source_language": memory.source_language} if memory.source_language else {}
    known |= {"target_language": memory.target_language} if memory.target_language else {}
    return {
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
        raise typer.BadParameter("--tag and --tag-column must be used together.", param_hint="--tag")
    options.lora = options.lora or options.adapter
    with errors_as_messages(OSError, ValueError):
        if options.output.exists() and (not options.output.is_dir() or any(options.output.iterdir())):
            raise ValueError(f"{options.output} already exists and is not empty. Choose another name, or delete it.")
        run(options)


def main(arguments: Sequence[str] | None = None):
    run_app(app, "vaswani finetune", arguments)


if __name__ == "__main__":
    main()
