"""Where the time of a translation goes: products, attention, softmax and search, the rest, and Python between them.

    python -m benchmarks.decoding --output benchmarks/results/decoding.json

Wall time is that of `generate` without a profiler, the median of the rounds; the kernels' shares are those that torch's
profiler sees, by their own time. What no kernel accounts for is Python, memory and the calls of kernels.
"""

import argparse
import statistics
from functools import partial
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from vaswani_transformer import quantize
from vaswani_transformer.system.memory import keep_freed_memory

from .generation import generate, make_batch
from .measure import in_turns, record
from .models import vaswani


PARTS = {
    "products": ("aten::addmm", "aten::mm", "mkldnn::_linear_pointwise", "onednn::qlinear_pointwise"),
    "attention": ("aten::_scaled_dot_product_flash_attention_for_cpu", "aten::bmm", "aten::_softmax"),
    "rounding to int8": ("quantized::embedding_bag_byte_prepack", "aten::addcmul", "aten::addr", "aten::mul_"),
    "softmax and search": ("aten::_log_softmax", "aten::topk", "aten::amax", "aten::gather", "aten::index_select"),
    "LayerNorm and residuals": ("aten::native_layer_norm", "aten::add_"),
}


def shares(run, seconds: float) -> dict[str, float]:
    """The part of the wall time that kernels of each kind take."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    own = {event.key: event.self_cpu_time_total / 1e6 for event in profiler.key_averages()}
    parts = {part: sum(own.get(name, 0.0) for name in names) for part, names in PARTS.items()}
    named = {name for names in PARTS.values() for name in names}
    others = sum(time for name, time in own.items() if "::" in name and name not in named)
    return {part: round(time / seconds, 3) for part, time in {**parts, "other kernels": others}.items()}


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding", description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["mini", "base"])
    parser.add_argument("--dtypes", nargs="+", default=["float32", "int8"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 32, 64])
    parser.add_argument("--beams", type=int, nargs="+", default=[4])
    parser.add_argument("--source-tokens", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="a JSON file for the figures")
    options = parser.parse_args(arguments)

    keep_freed_memory()
    torch.set_num_threads(1)
    results = []
    for preset in options.presets:
        for dtype in options.dtypes:
            model = vaswani(preset)
            model.generation_config.eos_token_id = None
            if dtype == "int8":
                quantize(model)
            for beams in options.beams:
                for size in options.batch_sizes:
                    batch = make_batch(size, options.source_tokens, model.config.vocab_size)
                    run = partial(generate, model, batch, beams, options.new_tokens)
                    seconds = statistics.median(in_turns({"run": run}, options.rounds)["run"])
                    result = {"preset": preset, "dtype": dtype, "beams": beams, "batch_size": size}
                    step = {"ms a step": round(1e3 * seconds / options.new_tokens, 2)}
                    results.append(result | step | {"shares": shares(run, seconds)})
    record(options.output, "python -m benchmarks.decoding", vars(options), results)


if __name__ == "__main__":
    main()
