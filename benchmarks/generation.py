"""Generation compared with transformers' MarianMTModel and CTranslate2 of the same shape: tokens per second.

    python -m benchmarks.generation --output benchmarks/results/generation.json
    python -m benchmarks.generation --presets opus-mt --batch-sizes 1 8 32 --beams 1 4 6 --threads 1 --rounds 2 \\
        --cpu-time --output benchmarks/results/generation_opus_mt.json

All models have random weights, get the same sources, and cannot end early, so that they produce equally many tokens.
They take turns within one run, so that noise of the machine affects all of them. Results are medians of the rounds and
of their ratios. CTranslate2 has our weights, converted.
"""

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from vaswani_transformer import quantize
from vaswani_transformer.system.memory import keep_freed_memory

from .measure import in_turns, ratios, write_results
from .models import in_ctranslate2, marian_like, vaswani


CONTENDERS = ("vaswani", "vaswani int8", "marian", "ctranslate2", "ctranslate2 int8")
COMPARED = (
    ("vaswani", "marian"),
    ("vaswani", "ctranslate2"),
    ("vaswani int8", "ctranslate2 int8"),
    ("vaswani int8", "vaswani"),
    ("vaswani int8", "marian"),
)


def make_batch(size: int, length: int, vocab_size: int) -> dict[str, torch.Tensor]:
    """`size` random sources of `length` down to half as many tokens, padded on the right."""
    generator = torch.Generator().manual_seed(size)
    ids = torch.randint(3, vocab_size, (size, length), generator=generator)
    lengths = torch.linspace(length, length // 2, size).round()
    mask = (torch.arange(length) < lengths.unsqueeze(-1)).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def generate(model: PreTrainedModel, batch: dict[str, torch.Tensor], beams: int, tokens: int):
    search = {} if beams == 1 else {"length_penalty": 0.6, "early_stopping": "never"}
    output = model.generate(**batch, num_beams=beams, do_sample=False, max_new_tokens=tokens, **search)
    if output.shape != (len(batch["input_ids"]), tokens + 1):
        raise RuntimeError(f"Expected {tokens} new tokens per sentence, got an output of shape {tuple(output.shape)}.")


def translate(translator, batch: dict[str, torch.Tensor], beams: int, tokens: int):
    """Translates the same sources with CTranslate2."""
    lengths = batch["attention_mask"].sum(dim=-1).tolist()
    words = [[f"w{i}" for i in ids[:n]] for ids, n in zip(batch["input_ids"].tolist(), lengths, strict=True)]
    limits = dict(min_decoding_length=tokens, max_decoding_length=tokens)
    results = translator.translate_batch(words, beam_size=beams, length_penalty=0, **limits)
    if any(len(result.hypotheses[0]) != tokens for result in results):
        raise RuntimeError(f"Expected {tokens} new tokens per sentence from CTranslate2.")


def contenders(
    preset: str, dtype: torch.dtype, names: list[str], folder: Path, vocab_size: int | None = None
) -> dict[str, Callable]:
    """For each contender, a function of a batch, the number of beams and the number of new tokens."""
    model, functions = vaswani(preset, vocab_size), {}
    for name in names:
        if name.startswith("ctranslate2"):
            import ctranslate2

            kind = "int8" if name.endswith("int8") else "float32"
            path = in_ctranslate2(model, folder, kind)
            translator = ctranslate2.Translator(str(path), compute_type=kind, intra_threads=torch.get_num_threads())
            functions[name] = partial(translate, translator)
            continue
        if name == "marian":
            contender = marian_like(model.config).to(dtype)
        else:
            contender = quantize(copy.deepcopy(model)) if name.endswith("int8") else copy.deepcopy(model).to(dtype)
        contender.generation_config.eos_token_id = None
        functions[name] = partial(generate, contender)
    return functions


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generation", description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["mini", "base"])
    parser.add_argument("--contenders", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--source-tokens", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--cpu-time", action="store_true", help="count CPU time, for one thread on a machine that others use too"
    )
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    options = parser.parse_args(arguments)

    keep_freed_memory()
    clock = time.process_time if options.cpu_time else time.perf_counter
    if options.threads:
        torch.set_num_threads(options.threads)
    results = []
    for preset in options.presets:
        with tempfile.TemporaryDirectory() as folder:
            functions = contenders(preset, getattr(torch, options.dtype), options.contenders, Path(folder))
        vocab_size = vaswani(preset).config.vocab_size
        for beams in options.beams:
            for size in options.batch_sizes:
                batch = make_batch(size, options.source_tokens, vocab_size)
                runs = {name: partial(run, batch, beams, options.new_tokens) for name, run in functions.items()}
                seconds = in_turns(runs, options.rounds, clock)
                tokens = size * options.new_tokens
                rates = {name: round(tokens / statistics.median(s)) for name, s in seconds.items()}
                pairs = [(first, second) for first, second in COMPARED if first in runs and second in runs]
                speeds = {f"{first} / {second}": ratios(seconds, first, second) for first, second in pairs}
                results.append({"preset": preset, "beams": beams, "batch_size": size, "tokens/s": rates} | speeds)
                print(results[-1], flush=True)
    write_results(options.output, "python -m benchmarks.generation", vars(options), results)


if __name__ == "__main__":
    main()
