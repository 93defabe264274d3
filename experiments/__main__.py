"""Repeats the paper's experiments.

python -m experiments                                       # list the experiments
python -m experiments table3 --data DATA --work RUNS --jobs 2
python -m experiments report                                # rewrite README.md and its figures from results/

Each experiment writes results/NAME.json and updates the report. Its training runs stay in RUNS; after an
interruption, rerun the command to resume. README.md describes the files in DATA.
"""

import argparse
import signal
import sys
from importlib import import_module
from pathlib import Path

from .lab import ExperimentError, Lab, read_results, write_results
from .report import EXPERIMENTS, write_report


def interrupt(*_):
    raise KeyboardInterrupt


def overview() -> str:
    lines = []
    for name in EXPERIMENTS:
        module, results = import_module(f".{name}", __package__), read_results(name)
        state = f"run on {results['machine']['processor']}" if results else "not run yet"
        lines.append(f"{name:12} {module.TITLE} ({state})")
    return "\n".join(lines)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "name", nargs="?", choices=[*EXPERIMENTS, "report"], metavar="NAME", help="an experiment, or report"
    )
    parser.add_argument("--data", type=Path, default=Path("."), help="folder with the data [default: this folder]")
    parser.add_argument("--work", type=Path, help="folder for training runs; required by experiments that train")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="number of parallel runs (for heads: checkpoints); they share the threads [default: 1]",
    )
    options = parser.parse_args(arguments)
    if options.name is None:
        print(overview())
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        if options.name != "report":
            module = import_module(f".{options.name}", __package__)
            lab = Lab(options.data.absolute(), options.work and options.work.absolute(), options.jobs)
            write_results(options.name, module.run(lab))
        write_report()
    except ExperimentError as error:
        sys.exit(f"{parser.prog}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{parser.prog}: interrupted; rerun the same command to resume")


if __name__ == "__main__":
    main()
