"""The checkpoints that a run resumes from: safetensors and JSON, written whole, checked when read.

The same files serve one process, DDP and FSDP2 of any number of processes: they hold whole tensors by name.
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


# What Schedule-Free counts in its groups of parameters, not beside each parameter.
COUNTED = {"k", "weight_sum", "lr_max", "train_mode"}
FILES = WEIGHTS, OPTIMISERS, RANDOM = "model.safetensors", "optimizer.safetensors", "random.safetensors"


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read; the message says what is left and what to do."""


def checkpoints(run: Path) -> list[Path]:
    """The complete checkpoint folders of a run, oldest first."""
    folders = [folder for folder in run.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", folder.name)]
    return sorted(folders, key=step_of)


def to_average(run: Path, save_steps: int, last: int) -> list[Path]:
    """The last checkpoints but those that a signal asked for, as if the run had never been interrupted."""
    *earlier, newest = checkpoints(run)
    regular = [folder for folder in earlier if step_of(folder) % save_steps == 0]
    return [*regular, newest][-last:]


def is_damaged(folder: Path, files: Sequence[str] = FILES) -> str | None:
    """What is wrong with a checkpoint's files, or None."""
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
    """The step that a checkpoint's folder is named by."""
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
    """Writes checkpoint-STEP with the weights, the optimisers, the random numbers of each process and `state`.

    The last two checkpoints stay with all that a run resumes from, and the weights of the last `keep` `to_average`.

    Raises:
        CheckpointError: it cannot be written, or has values that are not finite; those before it are as they were.
    """
    options = StateDictOptions(full_state_dict=True, cpu_offload=True, flatten_optimizer_state_dict=True)
    weights = get_model_state_dict(model, options=options)
    moments = get_optimizer_state_dict(model, optimisers, options=options)
    generators = {f"cpu.{accelerator.process_index}": torch.get_rng_state()}
    if accelerator.device.type == "cuda":
        generators[f"cuda.{accelerator.process_index}"] = torch.cuda.get_rng_state()
    generators = gather_object([generators])
    if accelerator.is_main_process:
        counted = [{key: group[key] for key in COUNTED & group.keys()} for group in _groups(optimisers)]
        names = {name for name, _ in accelerator.unwrap_model(model).named_parameters()}  # each tied weight once
        files = {
            WEIGHTS: {name: weights[name] for name in weights if name in names},
            OPTIMISERS: {name: value for name, value in moments.items() if name.startswith("state.")},
            RANDOM: {name: value for each in generators for name, value in each.items()},
        }
        path = run / f"checkpoint-{state['step']:07d}"
        if bad := [name for tensors in files.values() for name in tensors if not tensors[name].isfinite().all()]:
            raise CheckpointError(
                f"{path} is not written: {bad[0]} has values that are not finite. "
                "Lower optimisation.learning_rate_scale or set max_grad_norm; the checkpoints before are whole."
            )
        try:
            with atomic_folder(path) as folder:
                digests = {}
                for name, tensors in files.items():
                    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / name)
                    with (folder / name).open("rb") as file:
                        digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
                state = {**state, "groups": counted, "files": digests}
                text = json.dumps({**state, "digest": _digest(state)}, indent=1)
                (folder / "state.json").write_text(text, encoding="utf-8")
        except (OSError, SafetensorError) as error:
            last = checkpoints(run)
            raise CheckpointError(
                f"{path} could not be written: {error}. "
                + (f"The last whole checkpoint is {last[-1]}; " if last else "There is no earlier one; ")
                + "make room and run the same command again to resume."
            ) from error
        kept = to_average(run, save_steps, keep)
        for folder in checkpoints(run)[:-2]:
            if folder in kept:
                (folder / OPTIMISERS).unlink(missing_ok=True)
            else:
                shutil.rmtree(folder)
    accelerator.wait_for_everyone()


def load_checkpoint(
    run: Path, accelerator: Accelerator, model: torch.nn.Module, optimisers: Sequence[torch.optim.Optimizer]
) -> dict | None:
    """Loads the last undamaged checkpoint of a run into model and optimisers; returns its `state`, or None without one.

    Raises:
        CheckpointError: there are checkpoints, and all of them are damaged.
    """
    folder = broadcast_object_list([_last_whole(run) if accelerator.is_main_process else None])[0]
    if folder is None:
        if checkpoints(run):
            raise CheckpointError(f"No checkpoint in {run} can be resumed. Move them away to start over.")
        return None
    # Not strict: a tied weight is there under one of its names.
    whole = StateDictOptions(full_state_dict=True, strict=False)
    set_model_state_dict(model, load_file(folder / WEIGHTS), options=whole)
    for group in _groups(optimisers):
        if "train_mode" in group:
            group["train_mode"] = True  # Schedule-Free then lets torch fill in the state that is loaded next
    options = StateDictOptions(full_state_dict=True)
    state = get_optimizer_state_dict(model, optimisers, options=options)
    for key, value in load_file(folder / OPTIMISERS).items():
        name, _, kind = key.removeprefix("state.").rpartition(".")
        state["state"][name][kind] = value
    set_optimizer_state_dict(model, optimisers, state, options=options)
    progress = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    for group, counted in zip(_groups(optimisers), progress.pop("groups", ()), strict=False):
        group.update(counted)
    generators = load_file(folder / RANDOM)
    mine = f"cpu.{accelerator.process_index}"
    if mine in generators:
        torch.set_rng_state(generators[mine])
    else:
        warnings.warn(f"{folder} was written by fewer processes: dropout continues with other numbers.", stacklevel=2)
    if accelerator.device.type == "cuda" and (mine := f"cuda.{accelerator.process_index}") in generators:
        torch.cuda.set_rng_state(generators[mine])
    accelerator.print(f"resuming from {folder}", flush=True)
    return progress


def _groups(optimisers: Sequence[torch.optim.Optimizer]) -> list[dict]:
    return [group for optimiser in optimisers for group in optimiser.param_groups]


def _last_whole(run: Path) -> Path | None:
    for folder in reversed(checkpoints(run)):
        if (problem := is_damaged(folder)) is None:
            return folder
        warnings.warn(f"{folder} is skipped: {problem}.", stacklevel=2)
    return None
