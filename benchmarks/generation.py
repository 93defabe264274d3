"""Generation beside transformers' MarianMTModel of the same shape and precision: how many times as fast.

    python -m benchmarks.generation --output benchmarks/results/generation.json

Both models have random weights, get the same padded sources, and know no end token, so that they produce equally many
tokens. They take turns within one run, so that a noisy machine is noisy for both; the figure is the median of the
rounds' ratios.
"""

import argparse
import statistics
from functools import partial
from pathlib import Path

import torch

from .measure import in_turns, ratios, record
from .models import ours_and_marian


def make_batch(size: int, length: int, vocab_size: int) -> dict[str, torch.Tensor]:
    """`size` random sources of `length` to half as many tokens, padded on the right."""
    generator = torch.Generator().manual_seed(size)
    ids = torch.randint(2, vocab_size, (size, length), generator=generator)
    lengths = torch.linspace(length, length // 2, size).round()
    mask = (torch.arange(length) < lengths.unsqueeze(-1)).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def generate(model: torch.nn.Module, batch: dict[str, torch.Tensor], beams: int, tokens: int):
    search = {} if beams == 1 else {"length_penalty": 0.6, "early_stopping": "never"}
    output = model.generate(**batch, num_beams=beams, do_sample=False, max_new_tokens=tokens, **search)
    if output.shape != (len(batch["input_ids"]), tokens + 1):
        raise RuntimeError(f"Expected {tokens} new tokens a sentence, got an output of shape {tuple(output.shape)}.")


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generation", description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="base")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--source-tokens", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    options = parser.parse_args(arguments)

    models = ours_and_marian(options.preset)
    for model in models.values():
        model.to(getattr(torch, options.dtype)).eval()
        model.generation_config.eos_token_id = None
    results = []
    for beams in options.beams:
        for size in options.batch_sizes:
            batch = make_batch(size, options.source_tokens, models["vaswani"].config.vocab_size)
            runs = {n: partial(generate, m, batch, beams, options.new_tokens) for n, m in models.items()}
            seconds = in_turns(runs, options.rounds)
            tokens = size * options.new_tokens
            rates = {f"{n} tokens/s": round(tokens / statistics.median(s), 1) for n, s in seconds.items()}
            speed = ratios(seconds, "vaswani", "marian")
            results.append({"beams": beams, "batch_size": size, "times_as_fast": speed, **rates})
            print(results[-1], flush=True)
    record(options.output, "python -m benchmarks.generation", vars(options), results)


if __name__ == "__main__":
    main()
