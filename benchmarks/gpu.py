"""Training and decoding on a GPU in bfloat16, eager and compiled: speed and memory, within half an hour.

    python -m benchmarks.gpu --output benchmarks/results/gpu.json
    python -m benchmarks.gpu --device cpu --presets tiny --sentences 4 --tokens 8 --rounds 1   # a rehearsal

Training: with `sdpa` torch chooses the kernel, `flash` allows only FlashAttention and fails where it cannot run, and
`compiled` is `torch.compile` of the model. Decoding: our step with a growing cache, and the model's forward with a
static cache, eager and compiled (on a GPU with CUDA graphs). Results are written after each preset, in case the machine
is lost.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from .generation import make_batch
from .measure import in_turns, write_results
from .models import vaswani
from .training_step import peak_tflops, training_flops


def reset_peak(device: str):
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_memory(device: str) -> int | None:
    """Peak MiB of tensors since `reset_peak`."""
    return torch.cuda.max_memory_allocated() // 2**20 if device == "cuda" else None


def synchronised(function: Callable, device: str):
    function()
    if device == "cuda":
        torch.cuda.synchronize()


def first_run(function: Callable) -> float:
    """Seconds of the first call, which includes compilation."""
    start = time.perf_counter()
    function()
    return round(time.perf_counter() - start, 2)


def train_step(forward: Callable, optimizer: torch.optim.Optimizer, batch: dict, kernels):
    """Forward, backward and Adam in bfloat16."""
    with torch.autocast(batch["input_ids"].device.type, torch.bfloat16), kernels():
        loss = forward(**batch).loss
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def measure_training(preset: str, options: argparse.Namespace) -> list[dict]:
    model = vaswani(preset).to(options.device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(2, model.config.vocab_size, (2, options.sentences, options.tokens), device=options.device)
    # FlashAttention takes no mask: sentences of equal length need none.
    batch = {"input_ids": ids[0], "labels": ids[1]}
    flash = partial(sdpa_kernel, SDPBackend.FLASH_ATTENTION)
    cases = {
        "sdpa": (model, nullcontext),
        "flash": (model, flash),
        "compiled": (torch.compile(model), nullcontext),
    }
    flops = training_flops(model.config, options.sentences, options.tokens, options.tokens)
    results = []
    for name, (forward, kernels) in cases.items():
        run = partial(synchronised, partial(train_step, forward, optimizer, batch, kernels), options.device)
        result = {"preset": preset, "training": name}
        try:
            reset_peak(options.device)
            result["s of the first step"] = first_run(run)
            median = statistics.median(in_turns({name: run}, options.rounds)[name])
        except RuntimeError as error:
            results.append(result | {"error": str(error).partition("\n")[0]})
            continue
        result["target tokens/s"] = round(options.sentences * options.tokens / median)
        result["TFLOP/s"] = round(flops / median / 1e12, 3)
        if peak := peak_tflops(options.device):
            result["share of the peak"] = round(flops / median / 1e12 / peak, 3)
        results.append(result | {"peak MiB": peak_memory(options.device)})
    return results


def measure_decoding(preset: str, options: argparse.Namespace) -> list[dict]:
    model = vaswani(preset).to(options.device, torch.bfloat16)
    model.generation_config.eos_token_id = None
    plain, results = model.forward, []
    for size in options.batch_sizes:
        batch = {name: x.to(options.device) for name, x in make_batch(size, 32, model.config.vocab_size).items()}
        for beams in (1, 4):
            for name, settings in {
                "our step": {},
                "static cache": {"cache_implementation": "static", "disable_compile": True},
                "static cache, compiled": {"cache_implementation": "static"},
            }.items():
                if name.endswith("compiled"):
                    model.forward = torch.compile(plain, mode="reduce-overhead")
                limits = dict(num_beams=beams, do_sample=False, min_new_tokens=32, max_new_tokens=32)
                generate = partial(model.generate, **batch, **limits, **settings)
                run = partial(synchronised, generate, options.device)
                result = {"preset": preset, "decoding": name, "beams": beams, "sentences": size}
                try:
                    reset_peak(options.device)
                    result["s of the first batch"] = first_run(run)
                    median = statistics.median(in_turns({name: run}, options.rounds)[name])
                    result["tokens/s"], result["peak MiB"] = round(32 * size / median), peak_memory(options.device)
                except RuntimeError as error:
                    result["error"] = str(error).partition("\n")[0]
                vars(model).pop("forward", None)
                results.append(result)
    return results


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--presets", nargs="+", default=["base", "big"])
    parser.add_argument("--sentences", type=int, default=768, help="sentences in a training step")
    parser.add_argument("--tokens", type=int, default=32, help="tokens per sentence, on either side")
    parser.add_argument(
        "--batch-sizes", type=int, nargs="+", default=[1, 32, 128], help="sentences in a decoding batch"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    options = parser.parse_args(arguments)

    settings, results = vars(options), []
    if options.device == "cuda":
        settings = {**settings, "gpu": torch.cuda.get_device_name()}
    for measure in (measure_training, measure_decoding):
        for preset in options.presets:
            results += measure(preset, options)
            write_results(options.output, "python -m benchmarks.gpu", settings, results)


if __name__ == "__main__":
    main()
