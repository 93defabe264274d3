"""What a run needs before its first step: its folder, its recipe on record, tokenizer, data and model."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from accelerate import Accelerator
from filelock import FileLock, Timeout
from torch.distributed.fsdp import fully_shard
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.catalogue import resolve
from vaswani_transformer.learn_bpe import learn_tokenizer
from vaswani_transformer.loading import load_model, load_tokenizer

from .checkpoint import checkpoints
from .data import CachedCorpus, StreamedCorpus, TokenisedPairs, in_memory
from .files import atomic_file, atomic_folder
from .parallel_text import held_out_pairs, read_pairs, tokenizer_pairs, write_pairs
from .recipe import Recipe, load_recipe
from .subwords import Merges
from .variations import Pair


# What a run may change when it resumes; anything else would make it another run.
CHANGEABLE = {"data.test", "checkpointing", "licence", "notice", "name"} | {
    f"optimisation.{key}"
    for key in (
        *("max_steps", "cooldown_steps", "learning_rate_scale", "max_grad_norm", "micro_batches", "precision"),
        *("attention", "compile", "gradient_checkpointing", "workers"),
    )
}


def lock_folder(output: Path) -> FileLock:
    """Keeps a second process from training into the same folder; the lock ends with the process.

    Raises:
        ValueError: another process has the lock.
    """
    output.mkdir(parents=True, exist_ok=True)
    lock = FileLock(output / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(f"Another process is training in {output}. Wait for it, or give another --output.") from None
    return lock


def check_recipe(recipe: Recipe, output: Path):
    """Refuses to resume a run with another recipe.

    Raises:
        ValueError: the recipes differ in what must not change; the message names the keys.
    """
    path = output / "recipe.json"
    if not (checkpoints(output) and path.exists() and path.stat().st_size):
        return
    begun = load_recipe(path).to_dict()  # with the defaults of keys that did not exist when it was written
    changed = [
        key
        for key in _differing(begun, recipe.to_dict())
        if not any(f"{key}.".startswith(f"{free}.") for free in CHANGEABLE)
    ]
    if changed:
        raise ValueError(
            f"{output} holds a run with another recipe. These keys differ: {', '.join(changed)}. "
            "Set them back to resume it, or give another --output."
        )


def write_recipe(recipe: Recipe, output: Path):
    with atomic_file(output / "recipe.json") as partial:
        partial.write_text(json.dumps(recipe.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@dataclass
class PreparedData:
    """What a run learns from and is validated on."""

    tokenizer: PreTrainedTokenizerBase
    corpus: CachedCorpus | StreamedCorpus
    merges: Merges | None  # where BPE-dropout undoes them
    held_out: list[Pair]
    validation_pairs: dict[str, list[Pair]]  # by the name of each set
    validation: dict[str, TokenisedPairs]

    def describe(self) -> str:
        return self.corpus.describe() + (f"; {len(self.held_out):,} held out" if self.held_out else "")


def prepare_data(recipe: Recipe, folder: Path, output: Path, cache: Path, accelerator: Accelerator) -> PreparedData:
    """Reads, tokenises and caches; in several processes one does the work that all share, and the others wait.

    Raises:
        OSError, ValueError: data cannot be read; the message names the file, and the line where it can.
    """
    with accelerator.main_process_first():
        held_out = held_out_pairs(recipe.data, folder, recipe.seed)
        all_held_out = list(chain.from_iterable(held_out.values()))
        tokenizer = prepare_tokenizer(recipe, folder, output, all_held_out)
    with accelerator.local_main_process_first():
        if recipe.data.streaming:
            corpus = StreamedCorpus(recipe.data, folder, tokenizer, recipe.seed)
        else:
            corpus = CachedCorpus(recipe.data, folder, tokenizer, all_held_out, cache, recipe.seed)
    validation_pairs = {source.title: read_pairs(source, folder) for source in recipe.data.validation} | held_out
    # Validation drops no long pair: figures of different vocabularies stay comparable.
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
    """The tokenizer of `initial`, or RUN/tokenizer, learned from the training pairs where it is missing or empty."""
    if recipe.initial:
        return load_tokenizer(resolve(recipe.initial))
    folder = output / "tokenizer"
    file = folder / "tokenizer.json"
    if not (file.exists() and file.stat().st_size):
        write_pairs(held_out, output / "held_out.tsv")
        pairs = tokenizer_pairs(recipe.data, data, held_out)
        with atomic_folder(folder) as partial:
            learn_tokenizer(chain.from_iterable(pairs), recipe.vocab_size).save_pretrained(partial)
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises Exception itself
        raise ValueError(f"{folder} is damaged ({error}). Delete it to learn the tokenizer again.") from error


def build_model(recipe: Recipe, device: torch.device) -> VaswaniForConditionalGeneration:
    """The recipe's model, new or with the weights of `initial`, ready for training.

    Raises:
        ValueError: `model` does not fit those weights.
    """
    settings = recipe.optimisation
    if recipe.initial:
        model = load_model(resolve(recipe.initial), torch.float32, **recipe.model)
        if not isinstance(model, VaswaniForConditionalGeneration):
            raise ValueError(f"initial: {recipe.initial} holds another kind of model, a {type(model).__name__}.")
    else:
        sizes = {"vocab_size": recipe.vocab_size, **recipe.model}
        model = VaswaniForConditionalGeneration(VaswaniConfig.from_preset(recipe.preset, **sizes))
    attention = settings.attention
    if attention == "auto":
        # Measured in training/README.md: on a CPU the backward pass of the fused kernel is slow for sentences.
        attention = "eager" if device.type == "cpu" else "sdpa"
    model.set_attn_implementation(attention)
    if settings.gradient_checkpointing:
        # Older versions of transformers know the second name only.
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    if settings.compile:
        model.compile(dynamic=True)
    return model


def shard_weights(model: VaswaniForConditionalGeneration, accelerator: Accelerator) -> VaswaniForConditionalGeneration:
    """FSDP2: every process holds a part of each weight; a layer's are gathered when it runs.

    Accelerate's own wrapping puts embeddings into groups of their own, which torch refuses where three modules share
    one matrix. Here everything outside the layers stays with the whole model.
    """
    plugin = accelerator.state.fsdp_plugin
    options = {"reshard_after_forward": plugin.reshard_after_forward, "offload_policy": plugin.cpu_offload}
    model.to(accelerator.device)
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def flatten(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """(key.of.value, value) of everything in nested dicts and lists."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flatten(inner, f"{key}.{name}".lstrip("."))
    else:
        yield key, value


def _differing(one: dict, other: dict) -> list[str]:
    one, other = dict(flatten(one)), dict(flatten(other))
    return [key for key in dict.fromkeys([*one, *other]) if one.get(key, ...) != other.get(key, ...)]
