"""Training steps of `training.train` compared with transformers' Seq2SeqTrainer and MarianMTModel.

    python -m benchmarks.seq2seq_trainer --output benchmarks/results/seq2seq_trainer.json

Both train a model of the same shape with dropout 0.1, label smoothing 0.1 and Adam, on the same padded batches, whose
sentences have the lengths of real ones. Each way of training has a separate process, so that its memory settings do not
affect the others. They take turns: one passes over the batches while the others sleep.
"""

import argparse
import json
import multiprocessing
import statistics
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.system.memory import keep_freed_memory

from .measure import in_turns, ratios, write_results
from .models import marian_like, vaswani


LENGTHS = Path(__file__).with_name("sentence_lengths.json")
ADAM = {"lr": 1e-4, "betas": (0.9, 0.98), "eps": 1e-9}


def make_batches(vocab_size: int, batch_tokens: int, count: int) -> list[dict[str, torch.Tensor]]:
    """`count` batches of random tokens with the lengths of real sentences, from the shortest to the longest.

    A batch has sentences of similar length, and at most `batch_tokens` tokens: sentences x the longest side.
    """
    lengths = sorted(json.loads(LENGTHS.read_text(encoding="utf-8"))["lengths"], key=lambda pair: (max(pair), pair))
    groups, group = [], []
    for pair in lengths:
        if group and max(pair) * (len(group) + 1) > batch_tokens:
            groups.append(group)
            group = []
        group.append(pair)
    if len(groups) < count:
        raise ValueError(f"Only {len(groups)} batches of {batch_tokens:,} tokens; lower --batches or --batch-tokens.")
    generator = torch.Generator().manual_seed(0)

    def padded(sizes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask."""
        mask = torch.arange(max(sizes)) < torch.tensor(sizes).unsqueeze(-1)
        return torch.randint(2, vocab_size, mask.shape, generator=generator) * mask, mask

    batches = []
    for place in torch.linspace(0, len(groups) - 1, count).round().int():
        (source, source_mask), (target, target_mask) = (padded(list(side)) for side in zip(*groups[place], strict=True))
        batches.append(
            {
                "input_ids": source,
                "attention_mask": source_mask.long(),
                "decoder_input_ids": torch.cat((torch.zeros_like(target[:, :1]), target[:, :-1]), dim=1),
                "labels": target.masked_fill(~target_mask, -100),
            }
        )
    return batches


def train_ours(take_turn, preset: str, batches: list[dict], bf16: bool, tuned: bool):
    """As `training.train` does."""
    keep_freed_memory()
    model = vaswani(preset).train()
    model.set_attn_implementation("eager")
    optimizer = torch.optim.Adam(model.parameters(), **ADAM, fused=True)
    while take_turn():
        for batch in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = model(**batch, num_items_in_batch=(batch["labels"] != -100).sum()).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss.item()


class Turns(TrainerCallback):
    """Waits for its turn after each pass over the batches."""

    def __init__(self, take_turn, steps: int):
        self.take_turn, self.steps = take_turn, steps

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == 0:
            self.take_turn()

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self.steps == 0 and not self.take_turn():
            control.should_training_stop = True


def train_marian(take_turn, preset: str, batches: list[dict], bf16: bool, tuned: bool):
    """With the library's defaults, or `tuned` with the settings that are fastest for our model."""
    if tuned:
        keep_freed_memory()
    model = marian_like(VaswaniConfig.from_preset(preset)).train()
    model.config.use_cache = False
    if tuned:
        model.set_attn_implementation("eager")
    arguments = Seq2SeqTrainingArguments(
        output_dir=".", per_device_train_batch_size=1, train_sampling_strategy="sequential", max_steps=10**6,
        label_smoothing_factor=0.1, learning_rate=ADAM["lr"], adam_beta1=ADAM["betas"][0],
        adam_beta2=ADAM["betas"][1], adam_epsilon=ADAM["eps"], lr_scheduler_type="constant", max_grad_norm=0.0,
        bf16=bf16, use_cpu=True, dataloader_pin_memory=False, save_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=batches * 1000,
        data_collator=lambda rows: rows[0],
        callbacks=[Turns(take_turn, len(batches))],
    )
    trainer.train()


WAYS = {
    "ours": (train_ours, True),
    "Marian": (train_marian, False),
    "Marian, tuned": (train_marian, True),
}


def work(connection: Connection, threads: int, way: str, *settings):
    """A process that trains when it is its turn."""

    def take_turn() -> bool:
        connection.send("done")
        return connection.recv()

    torch.set_num_threads(threads)
    train, tuned = WAYS[way]
    train(take_turn, *settings, tuned)


def pass_over_the_batches(connection: Connection):
    connection.send(True)
    connection.recv()


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seq2seq_trainer", description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--batch-tokens", type=int, default=3072)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
    vocab_size = VaswaniConfig.from_preset(options.preset).vocab_size
    batches = make_batches(vocab_size, options.batch_tokens, options.batches)
    context, connections, workers = multiprocessing.get_context("fork"), {}, []
    for way in WAYS:
        for precision in ("float32", "bfloat16"):
            connection, worker_end = context.Pipe()
            settings = (options.preset, batches, precision == "bfloat16")
            arguments = (worker_end, options.threads, way, *settings)
            workers.append(context.Process(target=work, args=arguments, daemon=True))
            workers[-1].start()
            worker_end.close()
            connections[f"{way} {precision}"] = connection
    for connection in connections.values():
        connection.recv()
    runs = {name: partial(pass_over_the_batches, connection) for name, connection in connections.items()}
    seconds = in_turns(runs, options.rounds)
    for worker in workers:
        worker.terminate()

    tokens = sum(int((batch["labels"] != -100).sum()) for batch in batches)
    results = [
        {
            "way": name,
            "target tokens/s": round(tokens / statistics.median(seconds[name])),
            "times as fast as Marian": {p: ratios(seconds, name, f"Marian {p}") for p in ("float32", "bfloat16")},
            "times as fast as Marian, tuned": {
                p: ratios(seconds, name, f"Marian, tuned {p}") for p in ("float32", "bfloat16")
            },
        }
        for name in runs
    ]
    shapes = [[*batch["input_ids"].shape, batch["labels"].shape[1]] for batch in batches]
    results.append({"batches": shapes, "of": ["sentences", "source", "target"], "target tokens": tokens})
    torch.set_num_threads(options.threads)
    write_results(options.output, "python -m benchmarks.seq2seq_trainer", vars(options), results)


if __name__ == "__main__":
    main()
