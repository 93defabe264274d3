"""Repeats the paper's experiments.

python -m experiments                                       # what there is, and what has been run
python -m experiments table3 --data DATA --work RUNS --jobs 2
python -m experiments report                                # README.md and its figures, from results/

Interrupt an experiment, and its training goes on with the same command. Its runs stay in RUNS; results/NAME.json is
what is recorded, and the report is written again. DATA is the folder that README.md describes.
"""

import argparse
import signal
import sys
from importlib import import_module
from pathlib import Path

from .lab import ExperimentError, Lab, record, recorded
from .report import EXPERIMENTS, write_report


def interrupt(*_):
    raise KeyboardInterrupt


def overview() -> str:
    lines = []
    for name in EXPERIMENTS:
        module, found = import_module(f".{name}", __package__), recorded(name)
        state = f"run on {found['machine']['processor']}" if found else "not run yet"
        lines.append(f"{name:12} {module.TITLE} ({state})")
    return "\n".join(lines)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=[*EXPERIMENTS, "report"], metavar="NAME", help="table3, heads, ...")
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder that the recipes' paths start from")
    parser.add_argument("--work", type=Path, help="the folder of the runs, where some are trained")
    parser.add_argument(
        "--jobs", type=int, default=1, help="runs (of heads: checkpoints) at a time; they share the threads"
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
            record(options.name, module.run(lab))
        write_report()
    except ExperimentError as error:
        sys.exit(f"{parser.prog}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{parser.prog}: stopped; give the same command again")


if __name__ == "__main__":
    main()
