"""Fine-tunes a checkpoint on parallel text with transformers' Seq2SeqTrainer, and says what sacreBLEU it gained.

python -m training.finetune --data domain.tsv --output fine-tuned
vaswani translate --checkpoint fine-tuned "A sentence of the domain."
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vaswani_transformer.catalogue import resolve
from vaswani_transformer.command_line import stop, whole_number, whole_number_or_zero
from vaswani_transformer.files import check_writable

from .evaluate import evaluate_pairs
from .files import whole_folder
from .parallel_text import Pair, read_pairs
from .recipe import Source
from .scores import SACREBLEU


if TYPE_CHECKING:  # torch and transformers take seconds to import: they wait until the command line is read
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pairs: Sequence[Pair], options):
    """Adam with a rate that rises and then falls linearly to 0. Label smoothing is in the model's own loss."""
    from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        trainer = Seq2SeqTrainer(
            model=model,
            args=Seq2SeqTrainingArguments(
                folder,
                num_train_epochs=options.epochs,
                max_steps=options.max_steps,
                per_device_train_batch_size=options.batch_size,
                train_sampling_strategy="group_by_length",
                learning_rate=options.learning_rate,
                warmup_steps=0.1,
                adam_beta2=0.98,
                bf16=True,
                use_cpu=options.device == "cpu",
                seed=options.seed,
                save_strategy="no",
                logging_steps=50,
                dataloader_pin_memory=options.device != "cpu",
                report_to="none",
            ),
            train_dataset=[dict(tokenizer(source, text_target=target)) for source, target in pairs],
            data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
            processing_class=tokenizer,
        )
        trainer.train()
        trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)  # takes the autocast off `forward`


def normalised(text: str) -> str:
    """What near duplicates share: the words, without case, punctuation and the values of numbers."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return re.sub(r"\d+", "0", " ".join(words)) or text


def split(pairs: Sequence[Pair], held_out: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """(pairs to train on, `held_out` pairs to test on): no source or target of one, once normalised, is in the other.

    Raises:
        ValueError: too few pairs.
    """
    pairs = list(dict.fromkeys(pairs))
    random.Random(seed).shuffle(pairs)
    test: dict[str, Pair] = {}
    for pair in pairs:
        if len(test) == held_out:
            break
        test.setdefault(normalised(pair[0]), pair)
    targets = {normalised(target) for _, target in test.values()}
    training = [p for p in pairs if normalised(p[0]) not in test and normalised(p[1]) not in targets]
    if len(test) < held_out or not training:
        raise ValueError(f"{len(pairs):,} different pairs are too few to hold out {held_out:,} and train on others.")
    return training, list(test.values())


def run(
    options: argparse.Namespace,
    adapt: Callable[[PreTrainedModel], torch.nn.Module] = lambda model: model,
    finish: Callable[[torch.nn.Module], torch.nn.Module] = lambda model: model,
) -> dict:
    """Loads, adapts, scores, trains, scores, and saves what `finish` makes of the model; returns what it recorded."""
    import torch
    from transformers import set_seed

    from vaswani_transformer import load
    from vaswani_transformer.hub import look_on_hub
    from vaswani_transformer.loading import check_device
    from vaswani_transformer.memory import keep_freed_memory

    from .data import remove_padding

    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    source = resolve(options.checkpoint)
    check_device(options.device)
    check_writable(options.output)
    look_on_hub(source)
    keep_freed_memory()
    set_seed(options.seed)
    # Fused attention has a slow backward pass for sentences on a CPU.
    attention = "eager" if options.device == "cpu" else "sdpa"
    columns = {name: getattr(options, name) for name in ("source_column", "target_column", "tag_column")}
    pairs = read_pairs(Source(path=str(options.data), tags=options.tag or [], **columns))
    base, tokenizer = load(source, torch.float32, attn_implementation=attention)
    base.to(options.device)
    lengths = ([len(ids) for ids in tokenizer(list(pair))["input_ids"]] for pair in pairs)
    pairs = [p for p, both in zip(pairs, lengths, strict=True) if all(2 <= n <= options.max_length for n in both)]
    training, test = split(pairs, options.held_out, options.seed)
    model = adapt(base)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"{len(training):,} pairs to train {trained:,} weights on, {len(test):,} held out", flush=True)

    before = evaluate_pairs(base, tokenizer, test)[0][SACREBLEU]
    print(f"sacreBLEU before: {before['value']:.2f}", flush=True)
    start = time.perf_counter()
    train(model, tokenizer, training, options)
    minutes = (time.perf_counter() - start) / 60
    after = evaluate_pairs(base, tokenizer, test)[0][SACREBLEU]  # adapters are in its layers
    print(f"sacreBLEU after:  {after['value']:.2f}  {after['signature']}", flush=True)

    record = {
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "pairs": {"training": len(training), "held_out": len(test)},
        "trained_weights": trained,
        "minutes": round(minutes, 2),
        "threads": torch.get_num_threads(),
        "sacreBLEU": {"before": before["value"], "after": after["value"], "signature": after["signature"]},
    }
    with whole_folder(options.output) as folder:
        finish(model).save_pretrained(folder)
        remove_padding(tokenizer)
        tokenizer.save_pretrained(folder)
        (folder / "fine_tuning.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return record


def make_parser(module: str, description: str, learning_rate: float) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m training.{module}",
        description=description.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--checkpoint", default="mini-en-de", help="a shipped one's name, a folder or a Hub id")
    parser.add_argument("--data", type=Path, required=True, help="a file of columns separated by tabs; .xz and .gz too")
    parser.add_argument("--source-column", type=whole_number_or_zero, default=0)
    parser.add_argument("--target-column", type=whole_number_or_zero, default=1)
    parser.add_argument(
        "--tag-column", type=whole_number_or_zero, help="with --tag: only lines whose tag is one of these"
    )
    parser.add_argument("--tag", nargs="+")
    parser.add_argument(
        "--held-out", type=whole_number_or_zero, default=500, help="pairs to score before and after, not trained on"
    )
    parser.add_argument(
        "--max-length", type=whole_number, default=100, help="of either side, in tokens; longer pairs are left"
    )
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--max-steps", type=int, default=-1, help="instead of --epochs")
    parser.add_argument("--batch-size", type=whole_number, default=128, help="sentences")
    parser.add_argument("--learning-rate", type=float, default=learning_rate)
    parser.add_argument("--seed", type=int, default=2017)
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 or mps; auto is a GPU if there is one")
    parser.add_argument("--output", type=Path, required=True, help="a new folder")
    return parser


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    options = parser.parse_args(arguments)
    if bool(options.tag) != (options.tag_column is not None):
        parser.error("--tag needs --tag-column, and the other way round")
    if options.output.exists() and (not options.output.is_dir() or any(options.output.iterdir())):
        stop(
            parser, ValueError(f"{options.output} already exists and is not empty. Choose another name, or delete it.")
        )
    return options


def main(arguments: Sequence[str] | None = None):
    parser = make_parser("finetune", __doc__, learning_rate=5e-4)
    options = parse(parser, arguments)
    try:
        run(options)
    except (OSError, ValueError) as error:
        stop(parser, error)


if __name__ == "__main__":
    main()
