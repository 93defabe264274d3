"""What the experiments share: training runs, the losses of their models, and the files of results."""

import json
import lzma
import platform
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from vaswani_transformer.system.cpu import cpu_name
from vaswani_transformer.system.files import atomic_file


FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
# The files to archive of a run that finished, or whose loss was not finite.
ARCHIVED = ("recipe.json", "log.jsonl", "not_finite.tsv", "model/training.json", "model/likelihood-*.tsv")
VERSIONS = ("torch", "transformers", "tokenizers", "accelerate", "numpy", "scipy")


class ExperimentError(Exception):
    """An experiment cannot continue; the message says why and what to do."""


@dataclass(frozen=True)
class Run:
    """A finished training run of a grid."""

    row: str
    seed: int
    folder: Path
    facts: dict[str, Any]  # as recorded by training.grid

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def log(self) -> list[dict[str, Any]]:
        """The training log: dicts with `step`, `validation_loss` and so on."""
        lines = (self.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class Lab:
    """Where an experiment finds its data and keeps its runs."""

    data: Path
    work: Path | None  # folder for runs; None if nothing is trained
    jobs: int = 1  # parallel runs

    def path(self, name: str) -> Path:
        """The path of a data file.

        Raises:
            ExperimentError: the file is missing.
        """
        if not (self.data / name).exists():
            raise ExperimentError(f"File not found: {self.data / name}. Set the data folder with --data.")
        return self.data / name

    def folder(self, name: str) -> Path:
        """The folder of an experiment's runs; creates it if it is missing.

        Raises:
            ExperimentError: no folder for runs was given.
        """
        if self.work is None:
            raise ExperimentError("--work is missing. Set the folder for training runs with --work.")
        folder = self.work / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """Sources and targets of a tab-separated .xz file of the data."""
        with lzma.open(self.path(name), "rt", encoding="utf-8") as file:
            return [(source, target) for source, target, *_ in (line.rstrip("\n").split("\t") for line in file)]

    def train(
        self,
        name: str,
        recipe: str,
        runs: dict[str, list[str]],
        settings: Sequence[str] = (),
        seeds: Sequence[int] = (1,),
    ) -> list[Run]:
        """Trains a recipe of this folder with each run's settings and each seed, unless that is done already.

        Calls training.grid. Leaves out runs whose loss was not finite.

        Raises:
            ExperimentError: training was interrupted, or a run failed for another reason.
        """
        folder = self.folder(name)
        unpack(RESULTS / "runs" / f"{name}.tar.xz", folder)
        grid: dict[str, Any] = {"recipe": str(FOLDER / "recipes" / f"{recipe}.yaml"), "set": list(settings)}
        grid |= {"seeds": list(seeds), "runs": {run: {"set": run_settings} for run, run_settings in runs.items()}}
        (folder / "grid.yaml").write_text(yaml.safe_dump(grid, sort_keys=False), encoding="utf-8")
        command = ["training.grid", folder / "grid.yaml", "--data", self.data, "--output", folder]
        command += ["--jobs", self.jobs, "--results", folder / "results.json"]
        with (folder / "grid.txt").open("a") as log:
            code = self.spawn(*command, stdout=log, stderr=subprocess.STDOUT)
        if code:
            last = (folder / "grid.txt").read_text().strip().splitlines()[-1:]
            raise ExperimentError(f"Training {name} failed: {''.join(last)} (see {folder / 'grid.txt'})")
        facts = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        runs_by_name = {
            name: Run(run["run"], run["seed"], folder / name, run)
            for run in facts
            for name in [f"{run['run']}-seed{run['seed']}"]
        }
        for missing in {f"{run}-seed{seed}" for seed in seeds for run in runs} - runs_by_name.keys():
            if not (folder / missing / "not_finite.tsv").exists():
                raise ExperimentError(f"Training {missing} failed. See {folder / missing / 'output.txt'}.")
        return list(runs_by_name.values())

    def archive(self, name: str):
        """Writes results/runs/NAME.tar.xz: settings, log and losses of each finished run, without its weights.

        `train` unpacks them, so that another machine can resume the experiment or recompute its results.
        """
        folder, path = self.folder(name), RESULTS / "runs" / f"{name}.tar.xz"
        finished = sorted({path.parent for end in ("model", "not_finite.tsv") for path in folder.glob(f"*/{end}")})
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as partial, tarfile.open(partial, "w:xz") as archive:
            for file in (file for run in finished for pattern in ARCHIVED for file in sorted(run.glob(pattern))):
                archive.add(file, file.relative_to(folder), filter=without_owner)

    def losses(self, models: Sequence[Path], pairs: str) -> list[np.ndarray]:
        """Nats and tokens of each target in a file of pairs: an array [N, 2] for each model."""
        file = self.path(pairs)

        def measure(model: Path) -> np.ndarray:
            path = model / f"likelihood-{file.name.partition('.')[0]}.tsv"
            if not path.exists():
                output = self.run_module("training.likelihood", model, file)
                with atomic_file(path) as partial:
                    partial.write_text(output)
            total, mean = np.loadtxt(path).T
            return np.stack([-total, np.round(total / mean)], axis=1)

        with ThreadPoolExecutor(self.jobs) as workers:
            return list(workers.map(measure, models))

    def loss(self, model: Path, pairs: str) -> float:
        """The mean loss of a model on a file of pairs, in nats per token."""
        nats, tokens = self.losses([model], pairs)[0].sum(axis=0)
        return float(nats / tokens)

    def run_module(self, module: str, *arguments: Any) -> str:
        """The output of `python -m MODULE ...`.

        Raises:
            ExperimentError: the command failed; the message includes its errors.
        """
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            code = self.spawn(module, *arguments, stdout=output, stderr=errors)
            output.seek(0)
            errors.seek(0)
            if code:
                raise ExperimentError(f"python -m {module} {' '.join(map(str, arguments))} failed:\n{errors.read()}")
            return output.read()

    def spawn(self, module: str, *arguments: Any, **streams: Any) -> int:
        """Runs `python -m MODULE ...` and returns its exit status; passes SIGTERM on, so that it can save and stop."""
        process = subprocess.Popen([sys.executable, "-m", module, *map(str, arguments)], **streams)
        try:
            return process.wait()
        except KeyboardInterrupt:  # Ctrl-C, which the terminal also sends to the process, or SIGTERM
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise


def without_owner(file: tarfile.TarInfo) -> tarfile.TarInfo:
    file.uid = file.gid = 0
    file.uname = file.gname = ""
    return file


def unpack(archive: Path, folder: Path):
    """Unpacks the finished runs of an archive, if it exists, except those already in the folder."""
    if archive.exists():
        with tarfile.open(archive) as file:
            existing = {path.name for path in folder.iterdir()}
            members = [member for member in file if member.name.partition("/")[0] not in existing]
            file.extractall(folder, members, filter="data")


def write_results(name: str, results: dict[str, Any]) -> Path:
    """Writes results/NAME.json with the command, machine and versions."""
    machine = {"processor": cpu_name(), "python": platform.python_version()}
    versions = {package: version(package) for package in VERSIONS}
    about = {"command": f"python -m experiments {name}", "machine": machine, "versions": versions}
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    with atomic_file(path) as file:
        file.write_text(json.dumps({**about, **results}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read_results(name: str) -> dict[str, Any] | None:
    """The contents of results/NAME.json, or None if the experiment has not been run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
