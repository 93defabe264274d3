"""The result of a finished run: the mean of its last checkpoints as a model folder, and the facts for its card."""

import json
import platform
from pathlib import Path

import accelerate
import torch
import transformers

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.locating import locate
from vaswani_transformer.model.generation_vaswani import paper_generation_config
from vaswani_transformer.system.cpu import cpu_name
from vaswani_transformer.system.files import write_json

from .average import average_checkpoints
from .checkpoint import WEIGHTS, CheckpointError, checkpoints_to_average, find_damage, step_of
from .data import CachedCorpus, remove_padding
from .files import atomic_folder
from .recipe import describe, named_sources


def averaged_model(folders: list[Path], config: VaswaniConfig) -> VaswaniForConditionalGeneration:
    """Return a model with the mean weights of checkpoints (section 6.1) and the paper's search as its default.

    Raises:
        CheckpointError: A checkpoint is damaged.
    """
    for folder in folders:
        if problem := find_damage(folder, [WEIGHTS]):
            raise CheckpointError(f"{folder} cannot be averaged: {problem}.")
    if hasattr(config, "dtype"):
        config.dtype = None
    model = VaswaniForConditionalGeneration(config)
    model.load_state_dict(average_checkpoints(f / WEIGHTS for f in folders), strict=False)
    model.set_attn_implementation("sdpa")
    ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    # Label smoothing gives `</s>` some probability at the first step, enough for the empty translation to beat a long,
    # unlikely one. Requiring one token prevents that.
    model.generation_config = paper_generation_config(min_new_tokens=1, **ids)
    return model.eval()


def finish(run) -> Path:
    """Write RUN/model. Call it on the main process only.

    Raises:
        CheckpointError: A checkpoint to average is damaged.
    """
    settings = run.recipe.checkpointing
    folders = checkpoints_to_average(run.output, settings.save_steps, settings.average_last)
    model = averaged_model(folders, run.config)
    facts = {**run_facts(run), "averaged_steps": [step_of(folder) for folder in folders]}
    facts["validation"] = run.bits_per_character(model.to(run.accelerator.device))
    tokenizer = run.data.tokenizer
    remove_padding(tokenizer)
    with atomic_folder(run.output / "model") as folder:
        model.cpu().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "training.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        size = sum(file.stat().st_size for file in folder.iterdir())
        write_json(folder / "about.json", describe(facts, facts["parameters"], size))
    print(f"{run.output / 'model'} is the mean of {len(folders)} checkpoints", flush=True)
    return run.output / "model"


def run_facts(run) -> dict:
    """Return what a model card says about the training of a model."""
    corpus = run.data.corpus
    return {
        "recipe": run.recipe.to_dict(),
        "earlier": run.earlier,
        "steps": run.progress.step,
        "epochs": run.progress.epoch,
        "parameters": run.accelerator.unwrap_model(run.model).num_parameters(),
        "training_pairs": len(corpus) if isinstance(corpus, CachedCorpus) else None,
        "target_tokens_per_epoch": corpus.target_tokens() if isinstance(corpus, CachedCorpus) else None,
        "hours": run.meter.seconds / 3600,
        "processes": run.accelerator.num_processes,
        "device": device_name(run.accelerator.device),
        "threads": torch.get_num_threads(),
        "attention": run.attention,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "accelerate": accelerate.__version__,
    }


def earlier_runs(initial: str | None) -> list[dict]:
    """Return name, steps, sources and so on of the runs that the initial weights come from, oldest first.

    The list is empty if the weights do not record how they were trained.
    """
    file = Path(locate(initial), "training.json") if initial else None
    if file is None or not file.is_file():
        return []
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        recipe = facts["recipe"]
        last = {"name": recipe["name"], **{key: facts[key] for key in ("steps", "hours", "device", "threads")}}
        last |= {key: recipe["optimisation"][key] for key in ("batch_tokens", "precision")}
        last["sources"] = named_sources(recipe)
    except (ValueError, KeyError, TypeError):  # a file of another program
        return []
    return [*facts.get("earlier", []), last]


def device_name(device: torch.device) -> str:
    """Return the manufacturer's name of the CPU or GPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name()
