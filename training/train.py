"""Trains a recipe, or goes on where an interrupted run stopped.

python -m training.train training/recipes/mini-en-de.yaml --data DATA --output RUN
accelerate launch -m training.train training/recipes/mini-en-de.yaml --data DATA --output RUN
"""

import argparse
import json
import math
import platform
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path

import accelerate
import numpy as np
import torch
import transformers
from accelerate import Accelerator
from accelerate.utils import gather_object, set_seed
from safetensors import SafetensorError
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.catalogue import resolve
from vaswani_transformer.generation_vaswani import paper_generation_config
from vaswani_transformer.memory import keep_freed_memory, return_unused_memory
from vaswani_transformer.tokenization import learn_tokenizer

from .average import average_checkpoints
from .batches import Shares, padding, plan_batches
from .checkpoint import (
    WEIGHTS,
    CheckpointError,
    checkpoints,
    is_damaged,
    load_checkpoint,
    save_checkpoint,
    to_average,
)
from .data import (
    CachedCorpus,
    CutPairs,
    StreamedCorpus,
    TokenisedPairs,
    held_out_pairs,
    in_memory,
    read_pairs,
    tokenizer_pairs,
    without_padding,
    write_pairs,
)
from .evaluate import evaluate_pairs
from .files import whole_file, whole_folder
from .optimisation import build_optimisers, divergence, hide_averages, learning_rate, show_averages
from .recipe import Recipe, load_recipe
from .report import Report, plot_curves
from .subwords import Merges


# What a run may change when it goes on; all else would make it another run.
FREE = {"data.test", "checkpointing", "licence", "notice", "name"} | {
    f"optimisation.{key}"
    for key in (
        *("max_steps", "cooldown_steps", "learning_rate_scale", "max_grad_norm", "micro_batches", "precision"),
        *("attention", "compile", "gradient_checkpointing", "workers"),
    )
}


# Of a run's state what a checkpoint holds beside tensors.
PLACE = {"step", "epoch", "batch", "losses", "seconds"}


class DivergenceError(RuntimeError):
    """A loss was not finite."""


class Run:
    """A training run: its folder, its state, and the loop."""

    def __init__(self, recipe: Recipe, data_folder: Path, output: Path, cache: Path | None = None):
        self.recipe, self.output, self.data_folder = recipe, output, data_folder
        # The recipe alone says the precision, whatever accelerate's own configuration holds.
        self.accelerator = Accelerator(
            mixed_precision="no", log_with=recipe.checkpointing.trackers or None, project_dir=output
        )
        set_seed(recipe.seed)
        self._keep_recipe()
        with self.accelerator.main_process_first():
            held_out = held_out_pairs(recipe.data, data_folder, recipe.seed)
            self.held_out = list(chain.from_iterable(held_out.values()))
            self.tokenizer = self._prepare_tokenizer()
        self.merges = Merges(self.tokenizer) if recipe.data.bpe_dropout else None
        with self.accelerator.local_main_process_first():
            self.corpus = self._prepare_corpus(cache or output / "cache")
        # By the name of each set: those that the recipe names, and what it holds out of its training sources.
        self.validation_pairs = {s.title: read_pairs(s, data_folder) for s in recipe.data.validation} | held_out
        self.validation = {
            name: in_memory(pairs, self.tokenizer, replace(recipe.data, max_length=recipe.optimisation.batch_tokens))
            for name, pairs in self.validation_pairs.items()
        }
        model = self._build_model()
        self.attention = model.config._attn_implementation
        if self.accelerator.is_fsdp2:
            self.model = shard_weights(model, self.accelerator)
        else:
            self.model = self.accelerator.prepare(model)
        self.optimisers = build_optimisers(model, recipe.optimisation)
        if self.accelerator.process_index:
            torch.manual_seed(recipe.seed + self.accelerator.process_index)  # else all would drop out the same units
        self.step, self.epoch, self.batch = 0, 0, 0  # updates done; place in the data
        self.losses: list[float] = []  # since the last report
        self.seconds = 0.0
        self.stop_asked = False
        self.report = Report(self.accelerator, output, recipe.name, self._tracked(), recipe.optimisation.max_steps)
        self.report.say(self.corpus.describe() + (f"; {len(self.held_out):,} held out" if self.held_out else ""))

    # Preparing

    def _keep_recipe(self):
        """Writes RUN/recipe.json; a run that goes on must not contradict the one that is there.

        Raises:
            ValueError: it does; the message names the keys.
        """
        path, now = self.output / "recipe.json", self.recipe.to_dict()
        if path.exists() and checkpoints(self.output):
            begun = load_recipe(path).to_dict()  # with the defaults of keys that came after it was written
            differing = [key for key in _differing(begun, now) if not any(f"{key}.".startswith(f"{f}.") for f in FREE)]
            if differing:
                raise ValueError(
                    f"{self.output} holds a run of another recipe; different are: {', '.join(differing)}. "
                    "Set these back to go on, or give another --output."
                )
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            with whole_file(path) as partial:
                partial.write_text(json.dumps(now, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def _prepare_tokenizer(self) -> PreTrainedTokenizerBase:
        recipe, folder = self.recipe, self.output / "tokenizer"
        if recipe.initial:
            return AutoTokenizer.from_pretrained(resolve(recipe.initial))
        if not folder.exists():
            write_pairs(self.held_out, self.output / "held_out.tsv")
            pairs = tokenizer_pairs(recipe.data, self.data_folder, self.held_out)
            with whole_folder(folder) as partial:
                learn_tokenizer(chain.from_iterable(pairs), recipe.vocab_size).save_pretrained(partial)
        return AutoTokenizer.from_pretrained(folder)

    def _prepare_corpus(self, cache: Path) -> CachedCorpus | StreamedCorpus:
        data, seed = self.recipe.data, self.recipe.seed
        if data.streaming:
            return StreamedCorpus(data, self.data_folder, self.tokenizer, seed)
        return CachedCorpus(data, self.data_folder, self.tokenizer, self.held_out, cache, seed)

    def _build_model(self) -> VaswaniForConditionalGeneration:
        recipe, settings = self.recipe, self.recipe.optimisation
        if recipe.initial:
            path = resolve(recipe.initial)
            try:
                model = VaswaniForConditionalGeneration.from_pretrained(path, dtype=torch.float32, **recipe.model)
            except RuntimeError as error:
                raise ValueError(f"model: {recipe.model} does not fit the weights of {path}: {error}") from error
        else:
            sizes = {"vocab_size": recipe.vocab_size, **recipe.model}
            model = VaswaniForConditionalGeneration(VaswaniConfig.from_preset(recipe.preset, **sizes))
        attention = settings.attention
        if attention == "auto":
            # Measured in training/README.md: the fused kernel's backward pass is slow for sentences on a processor.
            attention = "eager" if self.accelerator.device.type == "cpu" else "sdpa"
        model.set_attn_implementation(attention)
        if settings.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        if settings.compile:
            model.compile(dynamic=True)
        return model

    # The loop

    def train(self):
        """Trains to `max_steps`, or until SIGTERM or SIGINT asks for a checkpoint and an end.

        Raises:
            DivergenceError: a loss is not finite; the message names the batch.
            CheckpointError: a checkpoint could not be written or read.
        """
        recipe, last = self.recipe.checkpointing, self.recipe.optimisation.max_steps
        self._resume()
        self.report.start(self.step)
        since, tokens, steps, done = time.perf_counter(), 0, 0, []
        for pairs, (parts, count) in self._batches():
            done.append((self.step, self.epoch, self.batch, pairs, self._update(parts, count)))
            tokens, steps = tokens + count, steps + 1
            self.report.advance(self.step)
            ends = self.step == last
            logs, validates, saves = (
                ends or self.step % every == 0
                for every in (recipe.log_steps, recipe.validation_steps, recipe.save_steps)
            )
            translates = recipe.bleu_steps and (ends or self.step % recipe.bleu_steps == 0)
            stops = self._stops()
            # A device is waited for only here, not at every step.
            if logs or validates or saves or translates or stops:
                self.losses += self._finite(done)
                done = []
            if logs:
                elapsed = time.perf_counter() - since
                self.seconds += elapsed
                self.report.progress(
                    self.step,
                    self.epoch,
                    seconds_per_step=elapsed / steps,
                    loss=sum(self.losses) / len(self.losses),
                    learning_rate=self.optimisers[0].param_groups[0]["lr"],
                    tokens_per_second=tokens / elapsed,
                    minutes=self.seconds / 60,
                )
                since, tokens, steps, self.losses = time.perf_counter(), 0, 0, []
            pause = time.perf_counter()
            if logs or validates or saves or translates or stops:
                show_averages(self.optimisers)
            if validates and self.validation:
                self.report.validation(self.step, self.epoch, "validation_loss", self.validate())
            if translates:
                self.translate()
            if saves or stops:
                self.save()
            if logs:
                return_unused_memory()
            since += time.perf_counter() - pause
            if stops and not ends:
                self.report.close()
                raise KeyboardInterrupt
        self.report.close()

    def _batches(self) -> Iterator:
        """Batches from where the run stands, each counted as done once the next is asked for, and where they are from:
        all pairs of the epoch and the numbers of those in the batch."""
        settings, accelerator = self.recipe.optimisation, self.accelerator
        while self.step < settings.max_steps:
            pairs, taken = self.corpus.epoch(self.epoch)
            if self.merges:
                rng = np.random.default_rng((self.recipe.seed, self.epoch, 2))
                pairs = CutPairs(pairs, taken, self.merges, self.recipe.data, rng)
                taken = pairs.kept
            plan = plan_batches(pairs.lengths, taken, settings.batch_tokens, self.recipe.seed, self.epoch)
            if self.epoch == 0 and self.batch == 0:
                self.report.say(
                    f"{len(plan):,} batches in an epoch, {padding(pairs.lengths, plan):.1%} of them padding"
                )
            shares = Shares(
                pairs,
                plan,
                self.config.pad_token_id,
                settings.micro_batches,
                accelerator.process_index,
                accelerator.num_processes,
            )
            loader = shares.loader(self.batch, settings.workers, pin_memory=accelerator.device.type == "cuda")
            for parts in loader:
                self.step += 1
                self.batch += 1
                yield (pairs, plan[self.batch - 1]), parts
                if self.step == settings.max_steps:
                    break
            if self.batch >= len(plan):
                self.epoch, self.batch = self.epoch + 1, 0

    def _update(self, parts: list[dict], count: int) -> torch.Tensor:
        """One step of the optimisers over a batch of all processes, `count` target tokens; returns its mean loss."""
        settings = self.recipe.optimisation
        self.model.train()
        rate = learning_rate(self.step, self.config.d_model, settings)
        hide_averages(self.optimisers)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate
        total = torch.zeros((), device=self.accelerator.device)
        processes = self.accelerator.num_processes
        for number, part in enumerate(parts, start=1):
            with self.accelerator.no_sync(self.model) if number < len(parts) else nullcontext():
                # Gradients are averaged over processes, hence the factor; every part counts all tokens of the batch.
                loss = self._loss(part, count) * processes
                self.accelerator.backward(loss)
            total += loss.detach() / processes
        if settings.max_grad_norm is not None:
            self.accelerator.clip_grad_norm_(self.model.parameters(), settings.max_grad_norm)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return self.accelerator.reduce(total, "sum")

    def _loss(self, batch: dict[str, torch.Tensor], count: int, model: torch.nn.Module | None = None) -> torch.Tensor:
        """The part that `batch` has in the loss of `count` target tokens."""
        model = model or self.model
        device, settings = self.accelerator.device, self.recipe.optimisation
        batch = {key: value.to(device, non_blocking=True) for key, value in batch.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
            if not (settings.r_drop and model.training):
                return model(**batch, num_items_in_batch=count).loss
            # Half of R-Drop's equation 4, so that without alpha the mean of two draws is left.
            outputs = model(**{key: torch.cat([x, x]) for key, x in batch.items()}, num_items_in_batch=2 * count)
            disagreement = divergence(outputs.logits, batch["labels"].ne(-100))
            return outputs.loss + settings.r_drop / 2 * disagreement / count

    def _finite(self, done: list) -> list[float]:
        losses = torch.stack([loss for *_, loss in done]).tolist()
        for (step, epoch, number, (pairs, batch), _), loss in zip(done, losses, strict=True):
            if not abs(loss) < float("inf"):
                self.report.close()
                path = self.output / "not_finite.tsv"
                if self.accelerator.is_main_process:
                    decode = self.tokenizer.batch_decode
                    write_pairs((decode(pairs[i], skip_special_tokens=True) for i in batch), path)
                raise DivergenceError(
                    f"The loss is {loss} at step {step} (epoch {epoch}, batch {number}); {path} holds the {len(batch)} "
                    "pairs of that batch. Lower optimisation.learning_rate_scale, set max_grad_norm, or look at these "
                    "pairs. The checkpoints written before are whole."
                )
        return losses

    def validate(self) -> dict[str, tuple[float, int]]:
        """Of each validation set the mean negative log-likelihood of a token, in nats, and how many tokens it has.

        Without dropout and label smoothing.
        """
        losses = {}
        for name, pairs in self.validation.items():
            total = self._negative_log_likelihood(
                self.model, pairs, self.accelerator.process_index, self.accelerator.num_processes
            )
            tokens = int(pairs.lengths[:, 1].sum())
            losses[name] = float(self.accelerator.reduce(total, "sum")) / tokens, tokens
        return losses

    @torch.no_grad()
    def _negative_log_likelihood(
        self, model: torch.nn.Module, pairs: TokenisedPairs, rank: int = 0, ranks: int = 1
    ) -> torch.Tensor:
        """The sum over the part of the pairs that process `rank` of `ranks` computes, in nats."""
        model.eval()
        config = self.accelerator.unwrap_model(model).config
        smoothing, config.label_smoothing = config.label_smoothing, 0.0
        plan = plan_batches(pairs.lengths, np.arange(len(pairs)), self.recipe.optimisation.batch_tokens, 0, 0)
        shares = Shares(pairs, plan, config.pad_token_id, 1, rank, ranks)
        total = sum(self._loss(shares[i][0][0], 1, model) for i in range(len(plan)))
        config.label_smoothing = smoothing
        return total

    def translate(self):
        """Greedy translations of each set's first validation pairs: their sacreBLEU, and some to look at."""
        recipe = self.recipe.checkpointing
        model = self._whole_model()
        if not self.accelerator.is_main_process:
            return
        scores = {}
        for name, pairs in self.validation_pairs.items():
            pairs = pairs[: recipe.bleu_sentences]
            scored, translations = evaluate_pairs(model, self.tokenizer, pairs, num_beams=1)
            scores[name] = scored["sacreBLEU"]["value"], len(pairs)
            for (source, reference), translation in list(zip(pairs, translations, strict=True))[: recipe.samples]:
                self.report.say(f"  source       {source}\n  reference    {reference}\n  translation  {translation}")
        self.report.validation(self.step, self.epoch, "validation_bleu", scores)

    def _whole_model(self) -> VaswaniForConditionalGeneration:
        """The model as one process can use it; the main one, where the weights are sharded."""
        if not self.accelerator.is_fsdp2:
            return self.accelerator.unwrap_model(self.model)
        weights = get_model_state_dict(self.model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        model = VaswaniForConditionalGeneration(self.config)
        if weights:
            model.load_state_dict(weights)
        return model.to(self.accelerator.device)

    # State

    def save(self):
        place = {key: getattr(self, key) for key in sorted(PLACE)}
        recipe = self.recipe.checkpointing
        save_checkpoint(
            self.output, self.accelerator, self.model, self.optimisers, place, recipe.save_steps, recipe.average_last
        )

    def _resume(self):
        if place := load_checkpoint(self.output, self.accelerator, self.model, self.optimisers):
            for key in PLACE & place.keys():
                setattr(self, key, place[key])

    def _stops(self) -> bool:
        """Whether a signal asked for an end; processes agree on it where they report."""
        if self.accelerator.num_processes == 1:
            return self.stop_asked
        if self.step % self.recipe.checkpointing.log_steps:
            return False
        return any(gather_object([self.stop_asked]))

    def stop(self, number: int, frame):
        """For signal.signal: ends the run at the next step; asked a second time, at once."""
        self.stop_asked = True
        signal.signal(number, signal.SIG_DFL)

    def finish(self):
        """The mean of the last checkpoints as a model folder, RUN/model, and RUN/curves.png."""
        if not self.accelerator.is_main_process:
            return
        recipe = self.recipe.checkpointing
        folders = to_average(self.output, recipe.save_steps, recipe.average_last)
        for folder in folders:
            if problem := is_damaged(folder, [WEIGHTS]):
                raise CheckpointError(f"{folder} cannot be averaged: {problem}.")
        config = self.config
        if hasattr(config, "dtype"):
            config.dtype = None
        model = VaswaniForConditionalGeneration(config)
        model.load_state_dict(average_checkpoints(f / WEIGHTS for f in folders), strict=False)
        model.set_attn_implementation("sdpa")
        ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
        # Label smoothing leaves `</s>` enough of the first step for no translation at all to beat a long doubtful one.
        model.generation_config = paper_generation_config(min_new_tokens=1, **ids)
        with whole_folder(self.output / "model") as folder:
            model.save_pretrained(folder)
            without_padding(self.tokenizer)
            self.tokenizer.save_pretrained(folder)
            facts = self.facts(folders) | {"validation": self.bits_per_character(model)}
            facts = json.dumps(facts, indent=2, ensure_ascii=False)
            (folder / "training.json").write_text(facts + "\n", encoding="utf-8")
        plot_curves(self.output / "log.jsonl", self.output / "curves.png", self.recipe.name)
        print(f"the mean of {len(folders)} checkpoints is in {self.output / 'model'}", flush=True)

    def bits_per_character(self, model: VaswaniForConditionalGeneration) -> dict[str, float]:
        """Of each validation set's references, by the main process alone; comparable between vocabularies."""
        model, bits = model.to(self.accelerator.device), {}
        for name, pairs in self.validation.items():
            characters = sum(len(target) for _, target in self.validation_pairs[name])
            bits[name] = float(self._negative_log_likelihood(model, pairs)) / math.log(2) / characters
        return bits

    def facts(self, averaged: list[Path]) -> dict:
        """What a model card says about the run."""
        corpus = self.corpus
        return {
            "recipe": self.recipe.to_dict(),
            "steps": self.step,
            "epochs": self.epoch,
            "averaged_steps": [int(folder.name.removeprefix("checkpoint-")) for folder in averaged],
            "training_pairs": len(corpus) if isinstance(corpus, CachedCorpus) else None,
            "target_tokens_per_epoch": corpus.target_tokens() if isinstance(corpus, CachedCorpus) else None,
            "hours": self.seconds / 3600,
            "parameters": self.accelerator.unwrap_model(self.model).num_parameters(),
            "processes": self.accelerator.num_processes,
            "device": device_name(self.accelerator.device),
            "threads": torch.get_num_threads(),
            "attention": self.attention,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "accelerate": accelerate.__version__,
        }

    def _tracked(self) -> dict:
        """The recipe's plain values, as trackers take them."""
        return {key: value for key, value in _flatten(self.recipe.to_dict()) if isinstance(value, str | int | float)}

    @property
    def config(self) -> VaswaniConfig:
        return self.accelerator.unwrap_model(self.model).config


def shard_weights(model: VaswaniForConditionalGeneration, accelerator: Accelerator) -> VaswaniForConditionalGeneration:
    """FSDP2: every process holds a part of each weight; a layer's are gathered when it runs.

    Accelerate's own wrapping puts embeddings into groups of their own, which torch refuses where three modules share
    one matrix. Here what is outside the layers stays with the whole model.
    """
    plugin = accelerator.state.fsdp_plugin
    options = {"reshard_after_forward": plugin.reshard_after_forward, "offload_policy": plugin.cpu_offload}
    model.to(accelerator.device)
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def _flatten(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """(key.of.value, value) of everything in nested dicts and lists."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _flatten(inner, f"{key}.{name}".lstrip("."))
    else:
        yield key, value


def _differing(one: dict, other: dict) -> list[str]:
    one, other = dict(_flatten(one)), dict(_flatten(other))
    return [key for key in dict.fromkeys([*one, *other]) if one.get(key, ...) != other.get(key, ...)]


def device_name(device: torch.device) -> str:
    """What a reader knows the machine's processor or accelerator by."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    models = [line for line in cpuinfo.read_text().splitlines() if "model name" in line] if cpuinfo.exists() else []
    return models[0].partition(":")[2].strip() if models else platform.processor() or str(device)


def main():
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path, help="a YAML file, such as training/recipes/mini-en-de.yaml")
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder that the recipe's paths start from")
    parser.add_argument(
        "--output", type=Path, required=True, help="the run's folder; a run found there is gone on with"
    )
    parser.add_argument(
        "--cache", type=Path, help="folder for tokenised text that runs may share; default: OUTPUT/cache"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. optimisation.max_steps=100"
    )
    arguments = parser.parse_args()
    keep_freed_memory()
    transformers.utils.logging.disable_progress_bar()
    try:
        recipe = load_recipe(arguments.recipe, arguments.set)
        run = Run(recipe, arguments.data, arguments.output, arguments.cache)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, run.stop)
    try:
        run.train()
        run.finish()
    except KeyboardInterrupt:
        sys.exit(f"Stopped after step {run.step:,}, which is saved; the same command goes on from there.")
    except (CheckpointError, DivergenceError, OSError, SafetensorError) as error:
        sys.exit(f"{parser.prog}: {error}")
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
