"""Memory and start-up time of each contender of `benchmarks.generation`, each in a separate process.

    python -m benchmarks.footprint --threads 1 --output benchmarks/results/footprint.json

Each process starts Python, loads a saved model of the same random weights, translates one sentence, then the same
sentence again, then a batch. Seconds count from the start of the process. Memory is the peak, and how much of it Python
and its libraries had used before the model was loaded.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .generation import CONTENDERS
from .measure import write_results


def write_models(preset: str, folder: Path):
    """Saves the same weights in the format of each contender, in a folder of its name."""
    from vaswani_transformer import quantize

    from .models import in_ctranslate2, marian_like, vaswani

    model = vaswani(preset)
    model.save_pretrained(folder / "vaswani")
    marian_like(model.config).save_pretrained(folder / "marian")
    in_ctranslate2(model, folder, "float32").rename(folder / "ctranslate2")
    in_ctranslate2(model, folder, "int8").rename(folder / "ctranslate2 int8")
    quantize(model).save_pretrained(folder / "vaswani int8")


def work(name: str, folder: Path, options: argparse.Namespace) -> dict:
    """Measures one contender; runs in a separate process."""
    begun = time.time() - time.process_time()  # until here the process has only computed

    import torch

    torch.set_num_threads(options.threads)
    if name.startswith("ctranslate2"):
        import ctranslate2

        from .generation import translate
    else:
        from transformers import AutoModelForSeq2SeqLM

        import vaswani_transformer  # noqa: F401

        from .generation import generate
    from .generation import make_batch

    def memory() -> int:  # `resource` would include the memory of the parent process
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024

    result = {"contender": name, "imported after s": round(time.time() - begun, 2), "MiB imported": memory()}
    if name.startswith("ctranslate2"):
        kind = "int8" if name.endswith("int8") else "float32"
        model, run = ctranslate2.Translator(str(folder), compute_type=kind, intra_threads=options.threads), translate
    else:
        model, run = AutoModelForSeq2SeqLM.from_pretrained(folder), generate
        model.generation_config.eos_token_id = None
    result["loaded after s"] = round(time.time() - begun, 2)
    sentence = make_batch(1, options.source_tokens, options.vocab_size)
    run(model, sentence, options.beams, options.new_tokens)
    result["first sentence after s"] = round(time.time() - begun, 2)
    seconds = []
    for _ in range(options.repetitions):
        start = time.perf_counter()
        run(model, sentence, options.beams, options.new_tokens)
        seconds.append(time.perf_counter() - start)
    result["ms a sentence"] = round(1000 * statistics.median(seconds), 1)
    batch = make_batch(options.batch_size, options.source_tokens, options.vocab_size)
    run(model, batch, options.beams, options.new_tokens)
    return result | {"MiB at most": memory()}


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.footprint", description=__doc__.splitlines()[0])
    parser.add_argument("--presets", nargs="+", default=["mini", "base"])
    parser.add_argument("--contenders", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--source-tokens", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--repetitions", type=int, default=10, help="repetitions of the single sentence")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="JSON file for the results")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--vocab-size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        print(json.dumps(work(options.work, options.folder, options)))
        return

    from .models import vaswani

    results = []
    for preset in options.presets:
        with tempfile.TemporaryDirectory() as folder:
            write_models(preset, Path(folder))
            vocab_size = vaswani(preset).config.vocab_size
            for name in options.contenders:
                command = [sys.executable, "-m", "benchmarks.footprint", "--work", name, "--folder", f"{folder}/{name}"]
                for option in ("batch_size", "beams", "source_tokens", "new_tokens", "repetitions", "threads"):
                    command += [f"--{option.replace('_', '-')}", str(getattr(options, option))]
                command += ["--vocab-size", str(vocab_size)]
                run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                results.append({"preset": preset} | json.loads(run.stdout.splitlines()[-1]))
                print(results[-1], flush=True)
    settings = {key: value for key, value in vars(options).items() if key not in ("work", "folder", "vocab_size")}
    write_results(options.output, "python -m benchmarks.footprint", settings, results)


if __name__ == "__main__":
    main()
