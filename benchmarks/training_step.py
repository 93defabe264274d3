"""A training step (forward, backward, Adam) in the ways one could take it, beside transformers' MarianMTModel.

    python -m benchmarks.training_step --output benchmarks/results/training_step.json
    python -m benchmarks.training_step --device cuda --presets base big --sentences 768 --tokens 32

The share of the peak is that of the model's own floating-point operations, as PaLM counted (arXiv 2204.02311, appendix
B): what a step computes twice, or on padding, does not count.
"""

import argparse
import statistics
from functools import partial
from pathlib import Path

import torch

from vaswani_transformer import VaswaniConfig
from vaswani_transformer.system.memory import keep_freed_memory

from .measure import in_turns, ratios, record
from .models import marian_like, vaswani


PEAK_TFLOPS = {"H100": 989, "H200": 989}  # dense bfloat16, from NVIDIA's data sheets (SXM)


def training_flops(config: VaswaniConfig, sentences: int, source: int, target: int) -> int:
    """Floating-point operations of the products in a forward and a backward pass; the latter has twice the former's.

    `sentences` of `source` and `target` tokens each. A multiplication with its addition counts as two operations.
    """

    def attention(heads: int, queries: int, keys: int) -> int:
        d_k, d_v = config.d_k or config.d_model // heads, config.d_v or config.d_model // heads
        projections = heads * config.d_model * (queries * (d_k + d_v) + keys * (d_k + d_v))
        return projections + heads * queries * keys * (d_k + d_v)

    feed_forward = 2 * config.d_model * config.d_ff
    encoder, decoder = config.encoder_attention_heads, config.decoder_attention_heads
    multiplications = (
        config.encoder_layers * (attention(encoder, source, source) + source * feed_forward)
        + config.decoder_layers * (attention(decoder, target, target) + attention(decoder, target, source))
        + config.decoder_layers * target * feed_forward
        + target * config.d_model * config.decoder_vocab_size
    )
    return 3 * 2 * sentences * multiplications


def peak_tflops(device: str) -> float | None:
    """Of the device in bfloat16, where it is known."""
    name = torch.cuda.get_device_name() if device == "cuda" else ""
    return next((peak for known, peak in PEAK_TFLOPS.items() if known in name), None)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor], attention, bf16):
    model.set_attn_implementation(attention)
    device = batch["input_ids"].device.type
    with torch.autocast(device, torch.bfloat16, enabled=bf16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if device == "cuda":
        torch.cuda.synchronize()


def measure(preset: str, options: argparse.Namespace) -> list[dict]:
    ours = vaswani(preset)
    models = {"vaswani": ours, "marian": marian_like(ours.config)}
    config, shape = models["vaswani"].config, (options.sentences, options.tokens)
    ids = torch.randint(2, config.vocab_size, (2, *shape), device=options.device)
    batch = {"input_ids": ids[0], "attention_mask": torch.ones_like(ids[0]), "labels": ids[1]}
    runs = {}
    for name, model in models.items():
        optimizer = torch.optim.Adam(model.to(options.device).train().parameters(), lr=1e-4, fused=True)
        for attention in ("sdpa", "eager"):
            for precision in ("float32", "bfloat16"):
                runs[f"{name} {precision} {attention}"] = partial(
                    step, model, optimizer, batch, attention, precision == "bfloat16"
                )
    seconds = in_turns(runs, options.rounds)
    flops = training_flops(config, options.sentences, options.tokens, options.tokens)
    peak = options.peak_tflops or peak_tflops(options.device)
    results = []
    for name in runs:
        median = statistics.median(seconds[name])
        rate = round(options.sentences * options.tokens / median)
        result = {"preset": preset, "step": name, "target tokens/s": rate}
        if name.startswith("vaswani"):
            result["TFLOP/s"] = round(flops / median / 1e12, 3)
            if peak and "bfloat16" in name:
                result["share of the peak"] = round(flops / median / 1e12 / peak, 3)
        result["times as fast as marian float32 sdpa"] = ratios(seconds, name, "marian float32 sdpa")
        results.append(result)
    return results


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_step", description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["mini"])
    parser.add_argument("--sentences", type=int, default=160)
    parser.add_argument("--tokens", type=int, default=15, help="of each sentence, on either side")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--peak-tflops", type=float, help="of the device in bfloat16; known for H100 and H200")
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    options = parser.parse_args(arguments)

    keep_freed_memory()
    results = [result for preset in options.presets for result in measure(preset, options)]
    settings = vars(options)
    if options.device == "cuda":
        settings = {**settings, "gpu": torch.cuda.get_device_name()}
    record(options.output, "python -m benchmarks.training_step", settings, results)


if __name__ == "__main__":
    main()
