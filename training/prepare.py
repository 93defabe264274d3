"""Preparation of a run before its first step: its folder, recipe, tokenizer, data and model."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from filelock import FileLock, Timeout
from torch.distributed.fsdp import fully_shard
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.learn_bpe import learn_tokenizer
from vaswani_transformer.loading import load_model, load_tokenizer
from vaswani_transformer.system.cpu import bfloat16_slowdown

from .checkpoint import checkpoints
from .data import CachedCorpus, StreamedCorpus, TokenisedPairs, in_memory
from .files import atomic_file, atomic_folder
from .parallel_text import held_out_pairs, read_pairs, tokenizer_pairs, write_pairs
from .recipe import Recipe, load_recipe
from .subwords import Merges
from .variations import Pair


# Keys that may differ when a run resumes; any other key would make it another run.
CHANGEABLE = {"data.test", "checkpointing", "licence", "notice", "name"} | {
    f"optimisation.{key}"
    for key in (
        *("max_steps", "cooldown_steps", "learning_rate_scale", "max_grad_norm", "micro_batches", "precision"),
        *("attention", "compile", "gradient_checkpointing", "workers"),
    )
}


SLOW_BFLOAT16 = "bfloat16 is slow on this CPU: a matrix product takes {:.1f} times as long as in float32. {}"
TO_FLOAT32 = "--set optimisation.precision=float32; it resumes from the last checkpoint."


def lock_folder(output: Path) -> FileLock:
    """Lock the folder, so that no second process trains into it; the lock ends with the process.

    Then delete the temporary files that a killed process left.

    Raises:
        ValueError: Another process has the lock.
    """
    output.mkdir(parents=True, exist_ok=True)
    lock = FileLock(output / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(f"Another process is training in {output}. Wait for it, or use another --output.") from None
    for leftover in output.glob("*.partial"):
        if leftover.is_file():
            leftover.unlink()
    return lock


def is_started(output: Path) -> bool:
    """Return whether a run in this folder can be resumed: it has a checkpoint and its recipe."""
    path = output / "recipe.json"
    return bool(checkpoints(output)) and path.exists() and path.stat().st_size > 0


def check_recipe(recipe: Recipe, output: Path):
    """Check that a run resumes with the recipe that it was started with.

    Raises:
        ValueError: The recipes differ in keys that must not change; the message names them.
    """
    if not is_started(output):
        return
    started = load_recipe(output / "recipe.json").to_dict()  # fills in the defaults of newer keys
    changed = [
        key
        for key in _differing_keys(started, recipe.to_dict())
        if not any(f"{key}.".startswith(f"{changeable}.") for changeable in CHANGEABLE)
    ]
    if changed:
        raise ValueError(
            f"{output} has a run with another recipe. These keys differ: {', '.join(changed)}. "
            "Restore them to resume it, or use another --output."
        )


def choose_precision(recipe: Recipe, output: Path, accelerator: Accelerator) -> Recipe:
    """Replace the precision "auto", and warn if bfloat16 is slow on this CPU.

    With "auto", a new run uses bfloat16 if it is fast on the device, otherwise float32. A resumed run keeps its
    precision.
    """
    chosen, device, slowdown = recipe.optimisation.precision, accelerator.device.type, 0.0
    if chosen == "auto" and is_started(output):
        chosen = load_recipe(output / "recipe.json").optimisation.precision
    if device == "cpu" and chosen != "float32":
        # Processes could measure differently, but must train in the same precision.
        slowdown = broadcast_object_list([bfloat16_slowdown()])[0]
    if chosen == "bfloat16" and slowdown > 1.2:
        accelerator.print(SLOW_BFLOAT16.format(slowdown, "Stop the run, then rerun it with " + TO_FLOAT32))
    if chosen == "auto":
        fast = torch.cuda.is_bf16_supported(including_emulation=False) if device == "cuda" else 0 < slowdown < 1
        chosen = "bfloat16" if fast else "float32"
        if slowdown > 1:
            accelerator.print(SLOW_BFLOAT16.format(slowdown, "Training in float32."))
    optimisation = recipe.optimisation.model_copy(update={"precision": chosen})
    return recipe.model_copy(update={"optimisation": optimisation})


def write_recipe(recipe: Recipe, output: Path):
    with atomic_file(output / "recipe.json") as partial:
        partial.write_text(json.dumps(recipe.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@dataclass
class PreparedData:
    """The data that a run is trained and validated on."""

    tokenizer: PreTrainedTokenizerBase
    corpus: CachedCorpus | StreamedCorpus
    merges: Merges | None  # for BPE-dropout
    held_out: list[Pair]
    validation_pairs: dict[str, list[Pair]]  # by the name of each set
    validation: dict[str, TokenisedPairs]

    def describe(self) -> str:
        return self.corpus.describe() + (f"; {len(self.held_out):,} held out" if self.held_out else "")


def prepare_data(recipe: Recipe, folder: Path, output: Path, cache: Path, accelerator: Accelerator) -> PreparedData:
    """Read, tokenise and cache the data. With several processes, one does the shared work while the others wait.

    Raises:
        OSError, ValueError: Data cannot be read; the message names the file and, if possible, the line.
    """
    accelerator.print(f"Preparing the data from {len(recipe.data.train)} sources.")
    with accelerator.main_process_first():
        held_out = held_out_pairs(recipe.data, folder, recipe.seed)
        all_held_out = list(chain.from_iterable(held_out.values()))
        if all_held_out and accelerator.is_main_process:
            write_pairs(all_held_out, output / "held_out.tsv")
        tokenizer = prepare_tokenizer(recipe, folder, output, all_held_out)
    with accelerator.local_main_process_first():
        if recipe.data.streaming:
            corpus = StreamedCorpus(recipe.data, folder, tokenizer, recipe.seed)
        else:
            corpus = CachedCorpus(recipe.data, folder, tokenizer, all_held_out, cache, recipe.seed)
    validation_pairs = {source.title: read_pairs(source, folder) for source in recipe.data.validation} | held_out
    # Validation keeps long pairs, so that figures of different vocabularies can be compared.
    keep_all = recipe.data.model_copy(update={"max_length": recipe.optimisation.batch_tokens})
    return PreparedData(
        tokenizer=tokenizer,
        corpus=corpus,
        merges=Merges(tokenizer) if recipe.data.bpe_dropout else None,
        held_out=all_held_out,
        validation_pairs=validation_pairs,
        validation={name: in_memory(pairs, tokenizer, keep_all) for name, pairs in validation_pairs.items()},
    )


def prepare_tokenizer(recipe: Recipe, data: Path, output: Path, held_out: list[Pair]) -> PreTrainedTokenizerBase:
    """Return the tokenizer of `initial`, or RUN/tokenizer, which is learned from training pairs if it is missing."""
    if recipe.initial:
        return load_tokenizer(recipe.initial)
    folder = output / "tokenizer"
    file = folder / "tokenizer.json"
    if not (file.exists() and file.stat().st_size):
        pairs = tokenizer_pairs(recipe.data, data, held_out)
        with atomic_folder(folder) as partial:
            learn_tokenizer(chain.from_iterable(pairs), recipe.vocab_size).save_pretrained(partial)
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises Exception itself
        raise ValueError(f"{folder} is damaged ({error}). Delete it to learn the tokenizer again.") from error


def build_model(recipe: Recipe, device: torch.device) -> VaswaniForConditionalGeneration:
    """Build the recipe's model, new or with the weights of `initial`, ready for training.

    Raises:
        ValueError: `model` does not fit those weights.
    """
    settings = recipe.optimisation
    if recipe.initial:
        model = load_model(recipe.initial, torch.float32, **recipe.model)
        if not isinstance(model, VaswaniForConditionalGeneration):
            raise ValueError(f"initial: {recipe.initial} contains a {type(model).__name__}, not a vaswani model.")
    else:
        sizes = {"vocab_size": recipe.vocab_size, **recipe.model}
        model = VaswaniForConditionalGeneration(VaswaniConfig.from_preset(recipe.preset, **sizes))
    attention = settings.attention
    if attention == "auto":
        # On a CPU, the fused kernel has a slow backward pass for sentences; measured in training/README.md.
        attention = "eager" if device.type == "cpu" else "sdpa"
    model.set_attn_implementation(attention)
    if settings.gradient_checkpointing:
        # Older versions of transformers have the second name only.
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    if settings.compile:
        model.compile(dynamic=True)
    return model


def shard_weights(model: VaswaniForConditionalGeneration, accelerator: Accelerator) -> VaswaniForConditionalGeneration:
    """Shard the weights with FSDP2: each process has a part of each weight, and a layer is gathered to run it.

    Accelerate's wrapping makes separate groups of the embeddings, which torch rejects if three modules share a matrix.
    Here, everything outside the layers forms one group with the model.
    """
    plugin = accelerator.state.fsdp_plugin
    options = {"reshard_after_forward": plugin.reshard_after_forward, "offload_policy": plugin.cpu_offload}
    model.to(accelerator.device)
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def flatten(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Yield (key.of.value, value) for every value in nested dicts and lists."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flatten(inner, f"{key}.{name}".lstrip("."))
    else:
        yield key, value


def _differing_keys(first: dict, second: dict) -> list[str]:
    first, second = dict(flatten(first)), dict(flatten(second))
    return [key for key in dict.fromkeys([*first, *second]) if first.get(key, ...) != second.get(key, ...)]
