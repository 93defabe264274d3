"""The training loop, with validation, checkpoints and resuming."""

import math
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, set_seed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.system.memory import return_unused_memory

from .batches import Batch, Progress, Shares, padding, plan_batches
from .checkpoint import load_checkpoint, save_checkpoint
from .data import TokenisedPairs, cut_pairs
from .evaluate import evaluate_pairs
from .meter import DivergenceError, Meter
from .optimisation import build_optimisers, hide_averages, learning_rate, r_drop_loss, show_averages
from .parallel_text import write_pairs
from .prepare import (
    build_model,
    check_recipe,
    choose_precision,
    flatten,
    lock_folder,
    prepare_data,
    shard_weights,
    write_recipe,
)
from .recipe import Recipe
from .report import Report, plot_curves
from .result import earlier_runs, finish


class Due(NamedTuple):
    """The actions that are due after a step."""

    log: bool = False
    validate: bool = False
    translate: bool = False
    save: bool = False
    stop: bool = False


class Run:
    """A training run: its data, model, optimisers and progress, and the loop."""

    def __init__(self, recipe: Recipe, data_folder: Path, output: Path, cache: Path | None = None):
        self.output = output
        # The recipe alone decides the precision, whatever accelerate's own configuration contains.
        self.accelerator = accelerator = Accelerator(
            mixed_precision="no", log_with=recipe.checkpointing.trackers or None, project_dir=output
        )
        set_seed(recipe.seed)
        check_recipe(recipe, output)
        self.lock = lock_folder(output) if accelerator.is_main_process else None
        accelerator.wait_for_everyone()
        self.recipe = recipe = choose_precision(recipe, output, accelerator)
        if accelerator.is_main_process:
            write_recipe(recipe, output)
        self.data = prepare_data(recipe, data_folder, output, cache or output / "cache", accelerator)
        model = build_model(recipe, accelerator.device)
        self.attention = model.config._attn_implementation
        self.earlier = earlier_runs(recipe.initial)  # at the end of a long run these files may be gone
        self.model = shard_weights(model, accelerator) if accelerator.is_fsdp2 else accelerator.prepare(model)
        self.optimisers = build_optimisers(model, recipe.optimisation)
        if accelerator.process_index:
            # With the same seed, every process would use the same dropout masks.
            torch.manual_seed(recipe.seed + accelerator.process_index)
        self.progress, self.meter, self.stop_requested = Progress(), Meter(), False
        facts = {key: value for key, value in flatten(recipe.to_dict()) if isinstance(value, str | int | float)}
        self.report = Report(accelerator, output, recipe.name, facts, recipe.optimisation.max_steps)
        self.report.say(self.data.describe())

    @property
    def config(self) -> VaswaniConfig:
        return self.accelerator.unwrap_model(self.model).config

    # The loop

    def train(self) -> bool:
        """Train to `max_steps`; return False if SIGTERM or SIGINT stopped the run earlier, with a checkpoint.

        Raises:
            DivergenceError: A loss is not finite; the message names the batch.
            CheckpointError: A checkpoint could not be written or loaded.
        """
        self.report.start(*self.resume())
        self.meter.start()
        due = Due()
        for batch in self.batches(self.progress):
            self.meter.add(batch, self.update(batch))
            self.progress = batch.progress_after
            self.report.advance(batch.step)
            due = self.due(batch.step)
            if not any(due):
                continue  # does not wait for the device
            self.read_losses()
            show_averages(self.optimisers)
            if due.log:
                rate = self.optimisers[0].param_groups[0]["lr"]
                self.report.progress(batch.step, batch.epoch, learning_rate=rate, **self.meter.report())
                return_unused_memory()
            with self.meter.paused():
                if due.validate:
                    self.report.validation(batch.step, batch.epoch, "validation_loss", self.validate())
                if due.translate:
                    self.translate(batch)
                if due.save:
                    self.save()
            if due.stop:
                break
        self.report.close()
        return not due.stop

    def batches(self, progress: Progress) -> Iterator[Batch]:
        """Yield the batches after `progress`, up to `max_steps`."""
        settings, accelerator = self.recipe.optimisation, self.accelerator
        step, epoch, start = progress
        while step < settings.max_steps:
            pairs, plan = self.plan(epoch)
            rank, ranks = accelerator.process_index, accelerator.num_processes
            shares = Shares(pairs, plan, self.config.pad_token_id, settings.micro_batches, rank, ranks)
            loader = shares.loader(start, settings.workers, pin_memory=accelerator.device.type == "cuda")
            for number, (parts, tokens) in enumerate(loader, start=start + 1):
                step += 1
                yield Batch(step, epoch, number, pairs, plan[number - 1], parts, tokens)
                if step == settings.max_steps:
                    return
            epoch, start = epoch + 1, 0

    def plan(self, epoch: int) -> tuple[TokenisedPairs, list[np.ndarray]]:
        """Return the pairs of an epoch and its batches, the same on every process."""
        recipe = self.recipe
        pairs, indices = self.data.corpus.epoch(epoch)
        if self.data.merges:
            rng = np.random.default_rng(
                (recipe.seed, epoch, 2)
            )  # 2: not the numbers of `CachedCorpus.epoch`, which uses 1
            pairs, indices = cut_pairs(pairs, indices, self.data.merges, recipe.data, rng)
        plan = plan_batches(pairs.lengths, indices, recipe.optimisation.batch_tokens, recipe.seed, epoch)
        if epoch == 0 and self.progress.step == 0:
            share = padding(pairs.lengths, plan)
            self.report.say(f"{len(plan):,} batches in an epoch, {share:.1%} of them padding")
        return pairs, plan

    def due(self, step: int) -> Due:
        """Return what is due after a step; after the last one, everything."""
        settings, is_last = self.recipe.checkpointing, step == self.recipe.optimisation.max_steps
        stops = self.must_stop(step) and not is_last
        return Due(
            log=is_last or step % settings.log_steps == 0,
            validate=bool(self.data.validation) and (is_last or step % settings.validation_steps == 0),
            translate=settings.bleu_steps > 0 and (is_last or step % settings.bleu_steps == 0),
            save=is_last or stops or step % settings.save_steps == 0,
            stop=stops,
        )

    def update(self, batch: Batch) -> torch.Tensor:
        """Do one step of the optimisers; return the batch's mean loss over all processes, []."""
        settings, processes = self.recipe.optimisation, self.accelerator.num_processes
        self.model.train()
        hide_averages(self.optimisers)
        rate = learning_rate(batch.step, self.config.d_model, settings)
        for group in (group for optimiser in self.optimisers for group in optimiser.param_groups):
            group["lr"] = rate
        total = torch.zeros((), device=self.accelerator.device)
        for number, part in enumerate(batch.parts, start=1):
            with self.accelerator.no_sync(self.model) if number < len(batch.parts) else nullcontext():
                # The factor undoes the mean over processes: each part is already divided by the whole batch's tokens.
                loss = self.loss(self.model, part, batch.tokens) * processes
                self.accelerator.backward(loss)
            total += loss.detach() / processes
        if settings.max_grad_norm is not None:
            self.accelerator.clip_grad_norm_(self.model.parameters(), settings.max_grad_norm)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return self.accelerator.reduce(total, "sum")

    def loss(self, model: torch.nn.Module, part: dict[str, torch.Tensor], tokens: int) -> torch.Tensor:
        """Return what `part` adds to the mean loss of a batch of `tokens` target tokens."""
        device, settings = self.accelerator.device, self.recipe.optimisation
        part = {key: value.to(device, non_blocking=True) for key, value in part.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
            if not (settings.r_drop and model.training):
                return model(**part, num_items_in_batch=tokens).loss
            # Half of R-Drop's equation 4, so that alpha = 0 gives the mean loss of the two samples.
            outputs = model(**{key: torch.cat([x, x]) for key, x in part.items()}, num_items_in_batch=2 * tokens)
            divergence = r_drop_loss(outputs.logits, part["labels"].ne(-100))
            return outputs.loss + settings.r_drop / 2 * divergence / tokens

    def read_losses(self):
        """Wait for the losses of the steps so far. If one is not finite, write its batch to RUN/not_finite.tsv.

        Raises:
            DivergenceError: A loss is not finite; the message names the batch.
        """
        try:
            self.meter.read()
        except DivergenceError as error:
            self.report.close()
            path, batch = self.output / "not_finite.tsv", error.batch
            if self.accelerator.is_main_process:
                decode = self.data.tokenizer.batch_decode
                write_pairs((decode(batch.pairs[i], skip_special_tokens=True) for i in batch.indices), path)
            message = (
                f"{error} {path} has the {len(batch.indices)} pairs of that batch. Lower "
                "optimisation.learning_rate_scale, set max_grad_norm, or check these pairs. Earlier checkpoints are "
                "intact."
            )
            raise DivergenceError(message, batch) from None

    # Validation

    def validate(self) -> dict[str, tuple[float, int]]:
        """Return each validation set's mean negative log-likelihood per token, in nats, and its number of tokens.

        The model is in evaluation mode, so without dropout and label smoothing.
        """
        losses, accelerator = {}, self.accelerator
        for name, pairs in self.data.validation.items():
            rank, ranks = accelerator.process_index, accelerator.num_processes
            total = accelerator.reduce(self.negative_log_likelihood(self.model, pairs, rank, ranks), "sum")
            tokens = int(pairs.lengths[:, 1].sum())
            losses[name] = float(total) / tokens, tokens
        return losses

    @torch.no_grad()
    def negative_log_likelihood(
        self, model: torch.nn.Module, pairs: TokenisedPairs, rank: int = 0, ranks: int = 1
    ) -> torch.Tensor:
        """Return the sum over the pairs that process `rank` of `ranks` computes, in nats."""
        model.eval()
        plan = plan_batches(pairs.lengths, np.arange(len(pairs)), self.recipe.optimisation.batch_tokens, 0, 0)
        shares = Shares(pairs, plan, self.config.pad_token_id, 1, rank, ranks)
        return sum(self.loss(model, shares[i][0][0], 1) for i in range(len(plan)))

    def bits_per_character(self, model: VaswaniForConditionalGeneration) -> dict[str, float]:
        """Return the bits per character of each validation set's references, which can be compared across vocabularies.

        One process computes them all.
        """
        bits = {}
        for name, pairs in self.data.validation.items():
            characters = sum(len(target) for _, target in self.data.validation_pairs[name])
            bits[name] = float(self.negative_log_likelihood(model, pairs)) / math.log(2) / characters
        return bits

    def translate(self, batch: Batch):
        """Translate each set's first validation pairs greedily; report their sacreBLEU and show some."""
        recipe = self.recipe.checkpointing
        model = self.whole_model()
        if not self.accelerator.is_main_process:
            return
        scores = {}
        for name, pairs in self.data.validation_pairs.items():
            pairs = pairs[: recipe.bleu_sentences]
            scored, translations = evaluate_pairs(model, self.data.tokenizer, pairs, num_beams=1)
            scores[name] = scored["sacreBLEU"]["value"], len(pairs)
            for (source, reference), translation in list(zip(pairs, translations, strict=True))[: recipe.samples]:
                self.report.say(f"  source       {source}\n  reference    {reference}\n  translation  {translation}")
        self.report.validation(batch.step, batch.epoch, "validation_bleu", scores)

    def whole_model(self) -> VaswaniForConditionalGeneration:
        """Return the model as a single process can use it; if the weights are sharded, only the main process can."""
        if not self.accelerator.is_fsdp2:
            return self.accelerator.unwrap_model(self.model)
        weights = get_model_state_dict(self.model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        model = VaswaniForConditionalGeneration(self.config)
        if weights:
            model.load_state_dict(weights)
        return model.to(self.accelerator.device)

    # Saving, resuming, stopping

    def save(self):
        state = {
            **self.progress._asdict(),
            "log_lines": self.report.lines,
            "losses": self.meter.losses,
            "seconds": self.meter.seconds,
        }
        settings = self.recipe.checkpointing
        save_checkpoint(
            self.output,
            self.accelerator,
            self.model,
            self.optimisers,
            state,
            settings.save_steps,
            settings.average_last,
        )

    def resume(self) -> tuple[int, int]:
        """Load the last intact checkpoint, if there is one; return its step and the number of lines in the log."""
        state = load_checkpoint(self.output, self.accelerator, self.model, self.optimisers)
        if not state:
            return 0, 0
        self.progress = Progress(state["step"], state["epoch"], state["batch"])
        self.meter.losses, self.meter.seconds = state["losses"], state["seconds"]
        return state["step"], state.get("log_lines", 0)  # older checkpoints do not have it

    def request_stop(self, number: int, frame):
        """Handle a signal: stop after the next step, or at once at the second signal."""
        self.stop_requested = True
        signal.signal(number, signal.SIG_DFL)

    def must_stop(self, step: int) -> bool:
        """Return True if a signal requested a stop. Several processes agree on it at multiples of `log_steps`."""
        if self.accelerator.num_processes == 1:
            return self.stop_requested
        if step % self.recipe.checkpointing.log_steps:
            return False
        return any(gather_object([self.stop_requested]))

    def finish(self):
        """Write RUN/model, the mean of the last checkpoints, and RUN/curves.png; wait for the other processes."""
        if self.accelerator.is_main_process:
            finish(self)
            plot_curves(self.output / "log.jsonl", self.output / "curves.png", self.recipe.name)
            self.lock.release()
        self.accelerator.wait_for_everyone()  # gloo can abort a process whose peer has left
