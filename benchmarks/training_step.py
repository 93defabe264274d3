"""A training step (forward, backward, Adam) in the ways one could take it, beside transformers' MarianMTModel.

python -m benchmarks.training_step --output benchmarks/results/training_step.json
"""

import argparse
import statistics
from functools import partial
from pathlib import Path

import torch

from vaswani_transformer.memory import keep_freed_memory

from .measure import in_turns, ratios, record
from .models import ours_and_marian


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor], attention, bf16):
    model.set_attn_implementation(attention)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_step", description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--sentences", type=int, default=160)
    parser.add_argument("--tokens", type=int, default=15, help="of each sentence, on either side")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    arguments = parser.parse_args()

    keep_freed_memory()
    models = ours_and_marian(arguments.preset)
    ids = torch.randint(2, models["vaswani"].config.vocab_size, (2, arguments.sentences, arguments.tokens))
    batch = {"input_ids": ids[0], "attention_mask": torch.ones_like(ids[0]), "labels": ids[1]}
    runs = {}
    for name, model in models.items():
        optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-4, fused=True)
        for attention in ("sdpa", "eager"):
            for precision in ("float32", "bfloat16"):
                runs[f"{name} {precision} {attention}"] = partial(
                    step, model, optimizer, batch, attention, precision == "bfloat16"
                )
    seconds = in_turns(runs, arguments.rounds)
    results = [
        {
            "step": name,
            "target tokens/s": round(arguments.sentences * arguments.tokens / statistics.median(seconds[name])),
            "times as fast as marian float32 sdpa": ratios(seconds, name, "marian float32 sdpa"),
        }
        for name in runs
    ]
    record(arguments.output, "python -m benchmarks.training_step", vars(arguments), results)


if __name__ == "__main__":
    main()
