"""Trains a recipe from scratch, or goes on where an interrupted run stopped.

python -m training.train training/recipes/mini-en-de.yaml --data DATA --output RUN
accelerate launch -m training.train training/recipes/mini-en-de.yaml --data DATA --output RUN
"""

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_transformer.memory import keep_freed_memory
from vaswani_transformer.tokenization import learn_tokenizer

from .average import average_checkpoints
from .data import TokenisedPairs, collate, load_split, plan_batches, share, tokenise
from .recipe import Optimisation, Recipe, load_recipe


def learning_rate(step: int, d_model: int, recipe: Optimisation) -> float:
    """Equation 3 for step 1, 2, ...: rises for `warmup_steps`, then falls with the root of the step."""
    rate = d_model**-0.5 * min(step**-0.5, step * recipe.warmup_steps**-1.5) * recipe.learning_rate_scale
    if recipe.cooldown_steps:
        rate *= min(1.0, (recipe.max_steps + 1 - step) / recipe.cooldown_steps)
    return rate


class Run:
    """A training run: its folder, its state, and the loop."""

    def __init__(self, recipe: Recipe, data_folder: Path, output: Path):
        self.recipe, self.output = recipe, output
        self.accelerator = Accelerator()
        set_seed(recipe.seed)
        with self.accelerator.main_process_first():
            self.tokenizer, self.training, self.validation = self._prepare_data(data_folder)
        config = VaswaniConfig.from_preset(recipe.preset, **{"vocab_size": recipe.vocab_size, **recipe.model})
        model = VaswaniForConditionalGeneration(config)
        if self.accelerator.device.type == "cpu":
            # Measured in training/README.md: the fused kernel's backward pass is slow for sentences on a processor.
            model.set_attn_implementation("eager")
        optimizer = torch.optim.Adam(
            model.parameters(),
            betas=(recipe.optimisation.adam_beta1, recipe.optimisation.adam_beta2),
            eps=recipe.optimisation.adam_epsilon,
            fused=True,
        )
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.step, self.epoch, self.batch = 0, 0, 0  # updates done; place in the data
        self.seconds = 0.0

    def _prepare_data(self, data_folder: Path) -> tuple[PreTrainedTokenizerBase, TokenisedPairs, TokenisedPairs]:
        recipe = self.recipe
        training, validation, held_out = load_split(recipe.data, data_folder, recipe.seed)
        tokenizer_folder = self.output / "tokenizer"
        if not tokenizer_folder.exists():
            self.output.mkdir(parents=True, exist_ok=True)
            (self.output / "held_out.tsv").write_text(
                "".join(f"{source}\t{target}\n" for source, target in held_out), encoding="utf-8"
            )
            learned = learn_tokenizer((side for pair in training for side in pair), recipe.vocab_size)
            with whole_folder(tokenizer_folder) as folder:
                learned.save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
        pairs, dropped = tokenise(training, tokenizer, recipe.data)
        self.report(
            f"{len(pairs):,} training pairs, {sum(map(len, pairs.targets)):,} target tokens; dropped: "
            + (", ".join(f"{count:,} {reason}" for reason, count in dropped.items()) or "none")
            + f"; {len(held_out):,} held out"
        )
        return tokenizer, pairs, tokenise(validation, tokenizer, recipe.data)[0]

    # The loop

    def train(self):
        recipe, settings = self.recipe.checkpointing, self.recipe.optimisation
        since, tokens, losses = time.perf_counter(), 0, []
        for batch in self._batches():
            loss, count = self._update(batch)
            losses.append(loss)
            tokens += count
            if not torch.isfinite(loss):
                raise RuntimeError(
                    f"The loss is {loss.item()} at step {self.step} (epoch {self.epoch}, batch {self.batch}, pairs "
                    f"{batch.tolist()}). Lower optimisation.learning_rate_scale, or look at these pairs."
                )
            if self.step % recipe.log_steps == 0 or self.step == settings.max_steps:
                elapsed = time.perf_counter() - since
                self.seconds += elapsed
                self._log(
                    loss=torch.stack(losses).mean().item(),
                    learning_rate=self.optimizer.param_groups[0]["lr"],
                    tokens_per_second=tokens / elapsed,
                    minutes=self.seconds / 60,
                )
                since, tokens, losses = time.perf_counter(), 0, []
            if self.step % recipe.validation_steps == 0 or self.step == settings.max_steps:
                self._log(validation_loss=self.validate())
            if self.step % recipe.save_steps == 0 or self.step == settings.max_steps:
                self.save()

    def _batches(self) -> Iterator:
        """Batches from where the run stands, each counted as done once the next is asked for."""
        settings = self.recipe.optimisation
        while self.step < settings.max_steps:
            plan = plan_batches(self.training, settings.batch_tokens, self.recipe.seed, self.epoch)
            while self.batch < len(plan) and self.step < settings.max_steps:
                self.step += 1
                self.batch += 1
                yield plan[self.batch - 1]
            if self.batch == len(plan):
                self.epoch, self.batch = self.epoch + 1, 0

    def _update(self, batch) -> tuple[torch.Tensor, int]:
        """One step of the optimiser over a batch of all processes; returns its mean loss and its target tokens."""
        settings = self.recipe.optimisation
        self.model.train()
        count = sum(len(self.training.targets[i]) for i in batch)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.step, self.config.d_model, settings)
        total = torch.zeros((), device=self.accelerator.device)
        processes = self.accelerator.num_processes
        mine = list(share(batch, processes * settings.micro_batches))[self.accelerator.process_index :: processes]
        for number, part in enumerate(mine, start=1):
            with self.accelerator.no_sync(self.model) if number < len(mine) else nullcontext():
                # Gradients are averaged over processes, hence the factor; every part counts all tokens of the batch.
                loss = self._loss(self.training, part, num_items_in_batch=count) * processes
                self.accelerator.backward(loss)
            total += loss.detach() / processes
        if settings.max_grad_norm is not None:
            self.accelerator.clip_grad_norm_(self.model.parameters(), settings.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return self.accelerator.reduce(total, "sum"), count

    def _loss(self, pairs: TokenisedPairs, indices, **kwargs) -> torch.Tensor:
        device = self.accelerator.device
        batch = collate(pairs, indices, self.config.pad_token_id)
        batch = {key: value.to(device, non_blocking=True) for key, value in batch.items()}
        enabled = self.recipe.optimisation.precision == "bfloat16"
        with torch.autocast(device.type, torch.bfloat16, enabled=enabled):
            return self.model(**batch, **kwargs).loss

    @torch.no_grad()
    def validate(self) -> float:
        """Mean negative log-likelihood of a validation token, in nats and without label smoothing."""
        if not len(self.validation):
            return float("nan")
        self.model.eval()
        smoothing, self.config.label_smoothing = self.config.label_smoothing, 0.0
        count = sum(map(len, self.validation.targets))
        plan = plan_batches(self.validation, self.recipe.optimisation.batch_tokens, 0, 0)
        total = sum(self._loss(self.validation, batch, num_items_in_batch=count) for batch in plan)
        self.config.label_smoothing = smoothing
        return float(total)

    # State on disk

    def save(self):
        """A checkpoint that a run can go on from: written whole, or not at all."""
        if self.accelerator.is_main_process:
            with whole_folder(self.output / f"checkpoint-{self.step:07d}") as folder:
                weights = dict(self.accelerator.unwrap_model(self.model).named_parameters())
                save_file(
                    {name: weight.detach().contiguous() for name, weight in weights.items()},
                    folder / "model.safetensors",
                )
                torch.save(self.optimizer.state_dict(), folder / "optimizer.pt")
                torch.save(torch.get_rng_state(), folder / "random.pt")
                place = {"step": self.step, "epoch": self.epoch, "batch": self.batch, "seconds": self.seconds}
                (folder / "state.json").write_text(json.dumps(place))
            self._prune()
        self.accelerator.wait_for_everyone()

    def _prune(self):
        """Of the older checkpoints only the weights are kept, and of these the ones that the average needs."""
        keep = self.recipe.checkpointing.average_last
        for index, folder in enumerate(reversed(self.checkpoints())):
            if index >= keep:
                shutil.rmtree(folder)
            elif index >= 2:
                (folder / "optimizer.pt").unlink(missing_ok=True)

    def checkpoints(self) -> list[Path]:
        return sorted(folder for folder in self.output.glob("checkpoint-*") if folder.suffix != ".partial")

    def resume(self):
        """Goes on from the last checkpoint, if there is one."""
        if not (folders := self.checkpoints()):
            return
        folder = folders[-1]
        self.accelerator.unwrap_model(self.model).load_state_dict(load_file(folder / "model.safetensors"), strict=False)
        self.optimizer.load_state_dict(torch.load(folder / "optimizer.pt", weights_only=True))
        torch.set_rng_state(torch.load(folder / "random.pt", weights_only=True))
        place = json.loads((folder / "state.json").read_text())
        self.step, self.epoch, self.batch, self.seconds = (place[key] for key in ("step", "epoch", "batch", "seconds"))
        self.report(f"going on from {folder}")

    def finish(self):
        """The mean of the last checkpoints as a model folder, RUN/model."""
        if not self.accelerator.is_main_process:
            return
        model = self.accelerator.unwrap_model(self.model)
        folders = self.checkpoints()[-self.recipe.checkpointing.average_last :]
        model.load_state_dict(average_checkpoints(f / "model.safetensors" for f in folders), strict=False)
        model.set_attn_implementation("sdpa")
        with whole_folder(self.output / "model") as folder:
            model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
            (folder / "training.json").write_text(json.dumps(self.facts(folders), indent=2) + "\n", encoding="utf-8")
        self.report(f"the mean of {len(folders)} checkpoints is in {self.output / 'model'}")

    def facts(self, averaged: list[Path]) -> dict:
        """What a model card says about the run."""
        return {
            "recipe": self.recipe.to_dict(),
            "steps": self.step,
            "epochs": self.epoch,
            "averaged_steps": [int(folder.name.removeprefix("checkpoint-")) for folder in averaged],
            "training_pairs": len(self.training),
            "target_tokens_per_epoch": sum(map(len, self.training.targets)),
            "hours": self.seconds / 3600,
            "processes": self.accelerator.num_processes,
            "device": str(self.accelerator.device),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }

    @property
    def config(self) -> VaswaniConfig:
        return self.accelerator.unwrap_model(self.model).config

    def report(self, text: str):
        self.accelerator.print(text, flush=True)

    def _log(self, **values: float):
        if self.accelerator.is_main_process:
            with (self.output / "log.jsonl").open("a") as log:
                log.write(json.dumps({"step": self.step, "epoch": self.epoch, **values}) + "\n")
        self.report(f"step {self.step:,}  " + "  ".join(f"{key} {value:.4g}" for key, value in values.items()))


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes its place at `path` only when it is complete."""
    partial = path.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    shutil.rmtree(path, ignore_errors=True)
    os.replace(partial, path)


def main():
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path, help="a YAML file, such as training/recipes/mini-en-de.yaml")
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder that the recipe's paths start from")
    parser.add_argument(
        "--output", type=Path, required=True, help="the run's folder; a run found there is gone on with"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="e.g. optimisation.max_steps=100"
    )
    arguments = parser.parse_args()
    keep_freed_memory()
    try:
        recipe = load_recipe(arguments.recipe, arguments.set)
        run = Run(recipe, arguments.data, arguments.output)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    run.resume()
    run.train()
    run.finish()


if __name__ == "__main__":
    main()
