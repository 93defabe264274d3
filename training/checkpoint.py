"""The checkpoints that a run resumes from: safetensors and JSON, written atomically, checked when loaded.

They store whole tensors by name, so the same files serve one process, DDP and FSDP2 with any number of processes.
"""

import hashlib
import json
import re
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from .files import atomic_folder


# Schedule-Free keeps these in its parameter groups, not with each parameter.
GROUP_STATE = {"k", "weight_sum", "lr_max", "train_mode"}
FILES = WEIGHTS, OPTIMISERS, RANDOM = "model.safetensors", "optimizer.safetensors", "random.safetensors"


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or loaded; the message says which ones are left and what to do."""


def checkpoints(run: Path) -> list[Path]:
    """Return the complete checkpoint folders of a run, oldest first."""
    folders = [folder for folder in run.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", folder.name)]
    return sorted(folders, key=step_of)


def checkpoints_to_average(run: Path, save_steps: int, last: int) -> list[Path]:
    """Return the last checkpoints, without those saved because of a signal: an interruption changes nothing."""
    *earlier, newest = checkpoints(run)
    regular = [folder for folder in earlier if step_of(folder) % save_steps == 0]
    return [*regular, newest][-last:]


def find_damage(folder: Path, files: Sequence[str] = FILES) -> str | None:
    """Return what is wrong with a checkpoint's files, or None."""
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        if state.pop("digest", None) not in (None, _digest(state)):
            return "state.json has changed since it was written"
        for name in files:
            with (folder / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != state["files"][name]:
                    return f"{name} has changed since it was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def step_of(folder: Path) -> int:
    """Return the step in the name of a checkpoint's folder."""
    return int(folder.name.removeprefix("checkpoint-"))


def _digest(state: dict) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def save_checkpoint(
    run: Path,
    accelerator: Accelerator,
    model: torch.nn.Module,
    optimisers: Sequence[torch.optim.Optimizer],
    state: dict,
    save_steps: int,
    keep: int,
):
    """Write checkpoint-STEP with the weights, the optimisers, the random state of each process and `state`.

    Older checkpoints are deleted, except for the last two and the weights of the last `keep` that are averaged.

    Raises:
        CheckpointError: The checkpoint cannot be written, or has values that are not finite. Earlier checkpoints are
            unchanged.
    """
    options = StateDictOptions(full_state_dict=True, cpu_offload=True, flatten_optimizer_state_dict=True)
    weights = get_model_state_dict(model, options=options)
    moments = get_optimizer_state_dict(model, optimisers, options=options)
    generators = {f"cpu.{accelerator.process_index}": torch.get_rng_state()}
    if accelerator.device.type == "cuda":
        generators[f"cuda.{accelerator.process_index}"] = torch.cuda.get_rng_state()
    generators = gather_object([generators])
    if accelerator.is_main_process:
        groups = [{key: group[key] for key in GROUP_STATE & group.keys()} for group in _groups(optimisers)]
        names = {name for name, _ in accelerator.unwrap_model(model).named_parameters()}  # a tied weight only once
        files = {
            WEIGHTS: {name: weights[name] for name in weights if name in names},
            OPTIMISERS: {name: value for name, value in moments.items() if name.startswith("state.")},
            RANDOM: {name: value for each in generators for name, value in each.items()},
        }
        path = run / f"checkpoint-{state['step']:07d}"
        if bad := [name for tensors in files.values() for name in tensors if not tensors[name].isfinite().all()]:
            raise CheckpointError(
                f"{path} was not written: {bad[0]} has values that are not finite. "
                "Lower optimisation.learning_rate_scale or set max_grad_norm. Earlier checkpoints are intact."
            )
        try:
            with atomic_folder(path) as folder:
                digests = {}
                for name, tensors in files.items():
                    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / name)
                    with (folder / name).open("rb") as file:
                        digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
                state = {**state, "groups": groups, "files": digests}
                text = json.dumps({**state, "digest": _digest(state)}, indent=1)
                (folder / "state.json").write_text(text, encoding="utf-8")
        except (OSError, SafetensorError) as error:
            last = checkpoints(run)
            raise CheckpointError(
                f"{path} could not be written: {error}. "
                + (f"The last complete checkpoint is {last[-1]}. " if last else "No earlier one exists. ")
                + "Free some disk space and rerun the command to resume."
            ) from error
        averaged = checkpoints_to_average(run, save_steps, keep)
        for folder in checkpoints(run)[:-2]:
            if folder in averaged:
                (folder / OPTIMISERS).unlink(missing_ok=True)
            else:
                shutil.rmtree(folder)
    accelerator.wait_for_everyone()


def load_checkpoint(
    run: Path, accelerator: Accelerator, model: torch.nn.Module, optimisers: Sequence[torch.optim.Optimizer]
) -> dict | None:
    """Load a run's last intact checkpoint into model and optimisers; return its `state`, or None if there is none.

    Raises:
        CheckpointError: All checkpoints are damaged.
    """
    folder = broadcast_object_list([_last_intact(run) if accelerator.is_main_process else None])[0]
    if folder is None:
        if checkpoints(run):
            raise CheckpointError(f"All checkpoints in {run} are damaged. Move them away to start over.")
        return None
    # Not strict: a tied weight is stored under only one of its names.
    whole = StateDictOptions(full_state_dict=True, strict=False)
    set_model_state_dict(model, load_file(folder / WEIGHTS), options=whole)
    for group in _groups(optimisers):
        if "train_mode" in group:
            group["train_mode"] = True  # otherwise Schedule-Free rejects the state that torch loads next
    options = StateDictOptions(full_state_dict=True)
    state = get_optimizer_state_dict(model, optimisers, options=options)
    for key, value in load_file(folder / OPTIMISERS).items():
        name, _, kind = key.removeprefix("state.").rpartition(".")
        state["state"][name][kind] = value
    set_optimizer_state_dict(model, optimisers, state, options=options)
    progress = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    for group, group_state in zip(_groups(optimisers), progress.pop("groups", ()), strict=False):
        group.update(group_state)
    generators = load_file(folder / RANDOM)
    key = f"cpu.{accelerator.process_index}"
    if key in generators:
        torch.set_rng_state(generators[key])
    else:
        warnings.warn(f"{folder} was written by fewer processes, so dropout's random numbers differ.", stacklevel=2)
    if accelerator.device.type == "cuda" and (key := f"cuda.{accelerator.process_index}") in generators:
        torch.cuda.set_rng_state(generators[key])
    accelerator.print(f"resuming from {folder}", flush=True)
    return progress


def _groups(optimisers: Sequence[torch.optim.Optimizer]) -> list[dict]:
    return [group for optimiser in optimisers for group in optimiser.param_groups]


def _last_intact(run: Path) -> Path | None:
    for folder in reversed(checkpoints(run)):
        if (problem := find_damage(folder)) is None:
            return folder
        warnings.warn(f"Skipping the damaged checkpoint {folder}: {problem}.", stacklevel=2)
    return None
