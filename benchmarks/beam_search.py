"""Beam search: our loop with its own decoder step, our loop with the model's forward, and the library's loop.

    python -m benchmarks.beam_search --output benchmarks/results/beam_search.json

"forward" is our loop without a `DecoderStep`: it calls the model's forward with the library's caches. "library" is
`GenerationMixin`'s loop with the paper's length penalty, so that all three search for the same. They take turns on the
same weights and must find the same translations. We measure the CPU time of one thread, which a busy machine does not
change.
"""

import argparse
import statistics
import time
from functools import partial
from pathlib import Path

import torch
from transformers import GenerationMixin, LogitsProcessorList

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.model.beam_search_vaswani import length_penalty
from vaswani_transformer.model.settings_vaswani import NeverPad

from .generation import make_batch
from .measure import in_turns, ratios, write_results


class PaperPenalty(float):
    """An alpha that makes `length ** alpha`, the library's divisor, the paper's length penalty."""

    def __rpow__(self, length: int) -> float:
        return length_penalty(length, float(self))


class LibraryLoop(VaswaniForConditionalGeneration):
    def _beam_search(self, input_ids, logits_processor, stopping_criteria, generation_config, **kwargs):
        generation_config.length_penalty = PaperPenalty(generation_config.length_penalty)
        processors = LogitsProcessorList([NeverPad(self.config.pad_token_id), *logits_processor])
        return GenerationMixin._beam_search(self, input_ids, processors, stopping_criteria, generation_config, **kwargs)

    def _expand_inputs_for_generation(self, *args, **kwargs):
        return GenerationMixin._expand_inputs_for_generation(self, *args, **kwargs)

    def _reorder_cache(self, past_key_values, beam_idx):
        past_key_values.reorder_cache(beam_idx)
        return past_key_values


class OwnForward(VaswaniForConditionalGeneration):
    def __init__(self, config: VaswaniConfig):
        super().__init__(config)
        self.register_forward_hook(lambda *_: None)  # a watched model is run by its own forward


LOOPS = {"ours": VaswaniForConditionalGeneration, "forward": OwnForward, "library": LibraryLoop}


def models(preset: str) -> dict[str, VaswaniForConditionalGeneration]:
    """The same random weights with each loop, without an end token, so that all produce equally many tokens."""
    torch.manual_seed(0)
    config = VaswaniConfig.from_preset(preset)
    first = VaswaniForConditionalGeneration(config).eval()
    first.generation_config.eos_token_id = None
    by_loop = {name: loop(config).eval() for name, loop in LOOPS.items()}
    for model in by_loop.values():
        model.load_state_dict(first.state_dict())
        model.generation_config = first.generation_config
    return by_loop


def search(model, batch: dict[str, torch.Tensor], tokens: int) -> torch.Tensor:
    settings = dict(num_beams=4, length_penalty=0.6, early_stopping="never")
    return model.generate(**batch, **settings, max_new_tokens=tokens)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beam_search", description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["mini", "base"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--source-tokens", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)
    results = []
    for preset in options.presets:
        loops = models(preset)
        for size in options.batch_sizes:
            batch = make_batch(size, options.source_tokens, loops["ours"].config.vocab_size)
            runs = {name: partial(search, model, batch, options.new_tokens) for name, model in loops.items()}
            ours, *translations = (run() for run in runs.values())
            if not all(torch.equal(ours, translation) for translation in translations):
                raise RuntimeError("The loops found different translations, so their times cannot be compared.")
            seconds = in_turns(runs, options.rounds, time.process_time)
            results.append({"preset": preset, "batch_size": size})
            results[-1] |= {f"{name} seconds": round(statistics.median(s), 3) for name, s in seconds.items()}
            results[-1] |= {f"as fast as {name}": ratios(seconds, "ours", name) for name in ("forward", "library")}
    write_results(options.output, "python -m benchmarks.beam_search", vars(options), results)


if __name__ == "__main__":
    main()
