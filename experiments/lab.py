"""What the experiments share: runs of a grid, how likely they think given translations, and the record of it all."""

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

from vaswani_transformer.system.cpu import processor
from vaswani_transformer.system.files import whole_file


ROOM = Path(__file__).parent
RESULTS = ROOM / "results"
# Of a finished run, or one whose loss was not finite.
KEPT = ("recipe.json", "log.jsonl", "not_finite.tsv", "model/training.json", "model/likelihood-*.tsv")
VERSIONS = ("torch", "transformers", "tokenizers", "accelerate", "numpy", "scipy")


class ExperimentError(Exception):
    """An experiment cannot go on; the message says why and what to do."""


@dataclass(frozen=True)
class Run:
    """A finished training run of a grid."""

    row: str
    seed: int
    folder: Path
    facts: dict[str, Any]  # what training.grid recorded

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def log(self) -> list[dict[str, Any]]:
        """What was reported on the way: dicts with `step`, `validation_loss` and so on."""
        lines = (self.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class Lab:
    """Where an experiment finds its data and leaves its runs."""

    data: Path
    work: Path | None  # of the runs; None where nothing is to be trained
    jobs: int = 1  # runs at a time

    def path(self, name: str) -> Path:
        """A file of the data.

        Raises:
            ExperimentError: there is none.
        """
        if not (self.data / name).exists():
            raise ExperimentError(f"There is no {self.data / name}. The folder of the data is given with --data.")
        return self.data / name

    def folder(self, name: str) -> Path:
        """The folder of an experiment's runs, made if it is missing.

        Raises:
            ExperimentError: where runs are kept was not said.
        """
        if self.work is None:
            raise ExperimentError("--work is missing: the folder in which runs are kept.")
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
        """Trains a recipe of this room with each run's settings and each seed, or what is left of it.

        All training is training.grid's; a run whose loss is not finite is missing in what is returned.

        Raises:
            ExperimentError: it was stopped, or a run failed for another reason.
        """
        folder = self.folder(name)
        unpack(RESULTS / "runs" / f"{name}.tar.xz", folder)
        grid: dict[str, Any] = {"recipe": str(ROOM / "recipes" / f"{recipe}.yaml"), "set": list(settings)}
        grid |= {"seeds": list(seeds), "runs": {run: {"set": own} for run, own in runs.items()}}
        (folder / "grid.yaml").write_text(yaml.safe_dump(grid, sort_keys=False), encoding="utf-8")
        command = ["training.grid", folder / "grid.yaml", "--data", self.data, "--output", folder]
        command += ["--jobs", self.jobs, "--results", folder / "results.json"]
        with (folder / "grid.txt").open("a") as log:
            code = self.call(*command, stdout=log, stderr=subprocess.STDOUT)
        if code:
            last = (folder / "grid.txt").read_text().strip().splitlines()[-1:]
            raise ExperimentError(f"{name} was not trained: {''.join(last)} ({folder / 'grid.txt'})")
        facts = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        finished = {f"{one['run']}-seed{one['seed']}" for one in facts}
        for missing in {f"{run}-seed{seed}" for seed in seeds for run in runs} - finished:
            if not (folder / missing / "not_finite.tsv").exists():
                raise ExperimentError(f"{missing} was not trained: {folder / missing / 'output.txt'} says why.")
        return [Run(one["run"], one["seed"], folder / f"{one['run']}-seed{one['seed']}", one) for one in facts]

    def keep(self, name: str):
        """Writes results/runs/NAME.tar.xz: the settings, log and losses of each run that has ended, not its weights.

        `train` finds them there, so that an experiment can go on, and its page be computed again, on another machine.
        """
        folder, path = self.folder(name), RESULTS / "runs" / f"{name}.tar.xz"
        finished = sorted({path.parent for end in ("model", "not_finite.tsv") for path in folder.glob(f"*/{end}")})
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial, tarfile.open(partial, "w:xz") as archive:
            for file in (file for run in finished for pattern in KEPT for file in sorted(run.glob(pattern))):
                archive.add(file, file.relative_to(folder), filter=without_owner)

    def losses(self, models: Sequence[Path], pairs: str) -> list[np.ndarray]:
        """Of each model, and each pair of a file of the data: nats and tokens of the target, [N, 2]."""
        file = self.path(pairs)

        def measure(model: Path) -> np.ndarray:
            kept = model / f"likelihood-{file.name.partition('.')[0]}.tsv"
            if not kept.exists():
                printed = self.require("training.likelihood", model, file)
                with whole_file(kept) as partial:
                    partial.write_text(printed)
            total, mean = np.loadtxt(kept).T
            return np.stack([-total, np.round(total / mean)], axis=1)

        with ThreadPoolExecutor(self.jobs) as workers:
            return list(workers.map(measure, models))

    def loss(self, model: Path, pairs: str) -> float:
        """Nats a token."""
        nats, tokens = self.losses([model], pairs)[0].sum(axis=0)
        return float(nats / tokens)

    def require(self, module: str, *arguments: Any) -> str:
        """`call`, where nothing may go wrong; returns what was printed.

        Raises:
            ExperimentError: it did; the message is the command's.
        """
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            code = self.call(module, *arguments, stdout=output, stderr=errors)
            output.seek(0)
            errors.seek(0)
            if code:
                raise ExperimentError(f"python -m {module} {' '.join(map(str, arguments))} failed:\n{errors.read()}")
            return output.read()

    def call(self, module: str, *arguments: Any, **streams: Any) -> int:
        """`python -m MODULE ...`; SIGTERM goes to it, too, so that it can save and end."""
        process = subprocess.Popen([sys.executable, "-m", module, *map(str, arguments)], **streams)
        try:
            return process.wait()
        except KeyboardInterrupt:  # which the terminal sends to it as well; SIGTERM becomes one in the command
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise


def without_owner(file: tarfile.TarInfo) -> tarfile.TarInfo:
    file.uid = file.gid = 0
    file.uname = file.gname = ""
    return file


def unpack(archive: Path, folder: Path):
    """Finished runs of an archive, if there is one, except those that the folder has already."""
    if archive.exists():
        with tarfile.open(archive) as kept:
            there = {path.name for path in folder.iterdir()}
            files = [file for file in kept if file.name.partition("/")[0] not in there]
            kept.extractall(folder, files, filter="data")


def record(name: str, found: dict[str, Any]) -> Path:
    """Writes results/NAME.json: what was found, with the command, machine and versions."""
    machine = {"processor": processor(), "python": platform.python_version()}
    versions = {package: version(package) for package in VERSIONS}
    about = {"command": f"python -m experiments {name}", "machine": machine, "versions": versions}
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    with whole_file(path) as file:
        file.write_text(json.dumps({**about, **found}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def recorded(name: str) -> dict[str, Any] | None:
    """results/NAME.json, or None where the experiment has not been run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
