"""One YAML file says everything about a training run; any value can be overridden on the command line.

python -m training.recipe training/recipes/table3/a-h1.yaml    # the whole recipe, defaults and `extends` included
"""

import argparse
import re
import sys
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml
from huggingface_hub.errors import StrictDataclassError

from vaswani_transformer import PRESETS, VaswaniConfig


@dataclass
class Source:
    """Parallel text: a file, a pair of files, or a data set of the Hub. Files may be .gz, .xz or .zst.

    `path` alone is tab-separated, or JSON lines where it ends in .jsonl; with `target_path` both are plain text, line
    by line. Columns are numbers in tab-separated text (default 0 and 1), elsewhere names, where a dot looks inside
    (default "translation.en" and the like, by the recipe's languages).
    """

    path: str | None = None  # relative to the data folder
    target_path: str | None = None
    dataset: str | None = None  # for `datasets.load_dataset`: an id such as wmt/wmt14, or a folder
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    name: str = ""  # what it is called where results and cards speak of it
    licence: str = ""
    source_column: int | str | None = None
    target_column: int | str | None = None
    tag_column: int | str | None = None  # with `tags`: only examples whose tag is one of these
    tags: list[str] = field(default_factory=list)
    weight: float = 1.0  # how often an epoch takes each pair: 0.25 a quarter of them, 2 each twice
    held_out: int = 0  # this many pairs validate instead; training pairs that share a side with one are dropped
    tokenizer_lines: int | None = None  # the tokenizer learns from this many pairs; default: an equal share

    @property
    def title(self) -> str:
        return self.name or self.path or self.dataset or ""


@dataclass
class Data:
    train: list[Source]
    validation: list[Source] = field(default_factory=list)
    test: list[Source] = field(default_factory=list)
    reversed: bool = False  # every pair the other way round: what was its target is its source
    joined: float = 0.0  # this share of the pairs is given again, each joined to another: texts of two sentences
    bpe_dropout: float = 0.0  # for small data: this share of merges is undone, in each epoch others
    max_length: int = 128  # tokens of either side, </s> included; longer pairs are dropped
    max_ratio: float = 3.0  # of the longer side to the shorter, where either is over 10 tokens
    tokenizer_lines: int = 10_000_000  # so many pairs at most are read to learn the tokenizer
    streaming: bool = False  # read as training goes, nothing cached: for what does not fit on the disk
    window: int = 1_000_000  # with streaming: batches are planned over so many pairs at a time


@dataclass
class Optimisation:
    """Section 5.3; the defaults are the paper's."""

    max_steps: int = 100_000
    batch_tokens: int = 25_000  # max(source, target) x sentences, padding included, over all processes
    micro_batches: int = 1  # gradient accumulation: a batch is computed in so many parts
    warmup_steps: int = 4000
    learning_rate_scale: float = 1.0
    cooldown_steps: int = 0  # so many last steps go linearly to 0 (not in the paper, whose rate never ends)
    # muon: for the matrices between the embeddings, Adam for the rest. schedule_free: AdamW whose weights are averages
    optimiser: Literal["adam", "muon", "schedule_free"] = "adam"
    adam_beta1: float = 0.9
    adam_beta2: float = 0.98
    adam_epsilon: float = 1e-9
    max_grad_norm: float | None = None
    r_drop: float = 0.0  # alpha of R-Drop, for small data: batches are computed twice, to agree
    precision: Literal["float32", "bfloat16"] = "float32"
    attention: Literal["auto", "eager", "sdpa", "flash_attention_2", "flash_attention_3"] = "auto"
    compile: bool = False
    gradient_checkpointing: bool = False
    workers: int = 0  # processes that prepare batches


@dataclass
class Checkpointing:
    save_steps: int = 1000
    average_last: int = 5  # checkpoints whose mean is the final model (section 6.1)
    log_steps: int = 50
    validation_steps: int = 1000
    bleu_steps: int = 0  # every so many steps the validation pairs are translated and scored; 0: never
    bleu_sentences: int = 200  # the first so many
    samples: int = 3  # translations shown each time
    trackers: list[str] = field(default_factory=list)  # accelerate's, such as tensorboard or wandb


@dataclass
class Recipe:
    name: str
    source_language: str
    target_language: str
    data: Data
    preset: str | None = None
    vocab_size: int | None = None
    domain: str = ""  # the kind of text that it is for, such as captions; empty: text of all kinds
    initial: str | None = None  # start from this checkpoint's weights and tokenizer, not from a preset
    licence: str = ""  # of the weights
    notice: str = ""  # what whoever takes the weights must know, in a sentence
    model: dict[str, Any] = field(default_factory=dict)  # fields of VaswaniConfig that differ from the preset
    seed: int = 2017
    optimisation: Optimisation = field(default_factory=Optimisation)
    checkpointing: Checkpointing = field(default_factory=Checkpointing)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def load_recipe(path: str | Path, overrides: list[str] = ()) -> Recipe:
    """Reads a recipe; `overrides` are `key.of.value=yaml`.

    Raises:
        FileNotFoundError: there is no such file, or none that it extends.
        ValueError: it is not YAML, or a key is unknown, missing, of the wrong type or contradicts another; all are
            named at once.
    """
    values = _read(Path(path))
    for override in overrides:
        _override(values, override)
    problems: list[str] = []
    recipe = _build(Recipe, values, "", problems)
    if not problems:
        problems = list(_contradictions(recipe))
    if problems:
        raise ValueError(f"{path}:\n" + "\n".join(f"  - {problem}" for problem in problems))
    for source in (*recipe.data.train, *recipe.data.validation, *recipe.data.test):
        _name_columns(source, recipe)
        if recipe.data.reversed:
            source.source_column, source.target_column = source.target_column, source.source_column
            if source.target_path:
                source.path, source.target_path = source.target_path, source.path
    return recipe


def _override(values: dict, override: str):
    key, separator, text = override.partition("=")
    if not separator:
        raise ValueError(f"--set wants key=value, not {override!r}.")
    target, where = values, "the recipe"
    for part in key.split("."):
        if isinstance(target, list):
            if not part.isdecimal() or int(part) >= len(target):
                raise ValueError(f"--set {override}: {where} has {len(target)} entries, counted from 0; not {part!r}.")
            part = int(part)
        elif not isinstance(target, dict):
            raise ValueError(f"--set {override}: {where} has no keys of its own.")
        elif part not in target:
            target[part] = {}
        below, target, where = target, target[part], f"{where}.{part}".removeprefix("the recipe.")
    try:
        below[part] = _parse(text)
    except yaml.YAMLError as error:
        raise ValueError(f"--set {override}: not YAML: {error}") from error


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML would forget the first; reads 1e-9 as a number, as YAML 1.2."""

    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _parse(text: str) -> Any:
    return yaml.load(text, _Loader)


def _read(path: Path, above: tuple[Path, ...] = ()) -> dict:
    """The YAML's values on top of those of the recipe that it `extends`, if any; `above` are those that extend it."""
    if path.resolve() in above:
        raise ValueError(f"{path} extends itself: {' -> '.join(p.name for p in (*above, path))}.")
    try:
        values = _parse(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no recipe: keys and values are expected.")
    extended = values.pop("extends", None)
    if extended is None:
        return values
    if not isinstance(extended, str):
        raise ValueError(f"{path}: extends is {extended!r}; it must be the path of one recipe.")
    return _merge(_read(path.parent / extended, (*above, path.resolve())), values)


def _merge(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {key: _merge(below.get(key), value) for key, value in above.items()}
    return above


def _build(kind: Any, value: Any, where: str, problems: list[str]) -> Any:
    """`value`, as read from YAML, as the type `kind`; what does not fit is added to `problems`."""
    if is_dataclass(kind):
        if not isinstance(value, dict):
            problems.append(f"{where.rstrip('.') or 'the recipe'} must hold keys and values")
            return None
        hints, known = get_type_hints(kind), {f.name: f for f in fields(kind)}
        problems += [f"{where}{key} is unknown; known are {', '.join(known)}" for key in value if key not in known]
        required = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
        problems += [f"{where}{key} is missing" for key in required if key not in value]
        given = {key: _build(hints[key], value[key], f"{where}{key}.", problems) for key in value if key in known}
        return None if problems else kind(**given)
    arguments = getattr(kind, "__args__", ())
    origin = getattr(kind, "__origin__", None)
    if origin is list and isinstance(value, list):
        return [_build(arguments[0], item, f"{where}{i}.", problems) for i, item in enumerate(value)]
    if origin is Literal:
        allowed, fits = f"one of {', '.join(map(repr, arguments))}", value in arguments
    else:
        options = arguments if origin is None and arguments else (origin or kind,)
        options = (*options, int) if float in options else options
        allowed = " or ".join(
            getattr(option, "__name__", str(option)).replace("NoneType", "null") for option in options
        )
        fits = kind is Any or isinstance(value, options) and not (isinstance(value, bool) and bool not in options)
    if not fits:
        problems.append(f"{where.rstrip('.')} is {value!r}; it must be {allowed}")
    return value


def _contradictions(recipe: Recipe):
    """What no run could do, each in a sentence that names the keys."""
    data, steps, saving = recipe.data, recipe.optimisation, recipe.checkpointing
    if recipe.initial:
        if recipe.preset or recipe.vocab_size:
            yield "initial brings its own model and tokenizer; leave out preset and vocab_size"
    else:
        if not recipe.preset or not recipe.vocab_size:
            yield "give preset and vocab_size, or initial"
        if recipe.preset and recipe.preset not in PRESETS:
            yield f"preset {recipe.preset!r} is unknown; known are {', '.join(PRESETS)}"
        if recipe.vocab_size is not None and recipe.vocab_size < 258:
            yield f"vocab_size is {recipe.vocab_size}; 256 bytes and two special tokens are the least"
    yield from _model_contradictions(recipe)
    if not data.train:
        yield "data.train is empty"
    for part in ("train", "validation", "test"):
        for i, source in enumerate(getattr(data, part)):
            where = f"data.{part}.{i}"
            if (source.path is None) == (source.dataset is None):
                yield f"{where} needs either path or dataset"
            if source.target_path and not source.path:
                yield f"{where}.target_path needs path"
            if source.target_path and not (source.source_column is source.target_column is source.tag_column is None):
                yield f"{where}: plain text (target_path) has no columns"
            if source.path and (source.config or source.revision or source.split != "train"):
                yield f"{where}: config, split and revision belong to dataset, not to path"
            columns = source.source_column, source.target_column, source.tag_column
            if _is_tab_separated(source) and any(isinstance(column, str) for column in columns):
                yield f"{where}: columns of tab-separated text are numbers, counted from 0"
            if part != "train" and (source.held_out or source.weight != 1 or source.tokenizer_lines is not None):
                yield f"{where}: held_out, weight and tokenizer_lines belong to data.train"
            if source.tokenizer_lines is not None and source.tokenizer_lines < 0:
                yield f"{where}.tokenizer_lines is {source.tokenizer_lines}; it must not be below 0"
            if bool(source.tags) != (source.tag_column is not None):
                yield f"{where}: tags and tag_column need each other"
            if not source.weight > 0:
                yield f"{where}.weight is {source.weight}; leave the source out, or give a number above 0"
            if source.held_out < 0:
                yield f"{where}.held_out is {source.held_out}; it must not be below 0"
            if data.streaming and source.held_out:
                yield f"{where}.held_out cannot be drawn from a stream"
    if data.bpe_dropout >= 1:
        yield f"data.bpe_dropout is {data.bpe_dropout}; it must be below 1"
    if data.streaming and data.joined:
        yield "data.joined cannot be drawn from a stream"
    positive = {
        "data": ("max_length", "max_ratio", "window", "tokenizer_lines"),
        "optimisation": ("max_steps", "batch_tokens", "micro_batches", "warmup_steps", "learning_rate_scale")
        + ("adam_epsilon", "max_grad_norm"),
        "checkpointing": ("save_steps", "average_last", "log_steps", "validation_steps", "bleu_sentences"),
    }
    not_negative = {
        "data": ("joined", "bpe_dropout"),
        "optimisation": ("cooldown_steps", "workers", "adam_beta1", "adam_beta2", "r_drop"),
        "checkpointing": ("bleu_steps", "samples"),
    }
    for part in positive:
        values = {key: value for key, value in vars(getattr(recipe, part)).items() if value is not None}
        for key in positive[part]:
            if key in values and not values[key] > 0:
                yield f"{part}.{key} is {values[key]}; it must be above 0"
        for key in not_negative[part]:
            if not values[key] >= 0:
                yield f"{part}.{key} is {values[key]}; it must not be below 0"
    if recipe.seed < 0:
        yield f"seed is {recipe.seed}; it must not be below 0"
    for key in ("adam_beta1", "adam_beta2"):
        if getattr(steps, key) >= 1:
            yield f"optimisation.{key} is {getattr(steps, key)}; it must be below 1"
    if steps.optimiser == "schedule_free" and steps.cooldown_steps:
        yield "optimisation.cooldown_steps is for a schedule; schedule_free has none"
    if steps.cooldown_steps > steps.max_steps:
        yield "optimisation.cooldown_steps is more than max_steps"
    if steps.batch_tokens < data.max_length:
        yield "optimisation.batch_tokens is less than data.max_length: the longest pairs would fit in no batch"
    if saving.bleu_steps and not (data.validation or any(source.held_out for source in data.train)):
        yield "checkpointing.bleu_steps needs data.validation, or held_out pairs"
    if steps.compile and steps.gradient_checkpointing:
        yield "optimisation.compile and gradient_checkpointing do not go together here; choose one"


def _model_contradictions(recipe: Recipe):
    known = VaswaniConfig().to_dict()
    unknown = [key for key in recipe.model if key not in known]
    given = [key for key in recipe.model if key.endswith("token_id") or key.endswith("vocab_size")]
    yield from (f"model.{key} is no field of VaswaniConfig" for key in unknown)
    yield from (f"model.{key} follows from the tokenizer; leave it out" for key in given)
    if unknown or given or recipe.initial or recipe.preset not in PRESETS or not recipe.vocab_size:
        return
    try:
        config = VaswaniConfig.from_preset(recipe.preset, vocab_size=recipe.vocab_size, **recipe.model)
    except StrictDataclassError as error:
        yield f"model: {' '.join(str(error.__cause__ or error).split())}"
        return
    rows = config.max_position_embeddings
    if config.position_encoding == "learned" and recipe.data.max_length > rows - config.position_offset:
        yield f"data.max_length is {recipe.data.max_length}, more than the {rows} learned positions have room for"


def _is_tab_separated(source: Source) -> bool:
    return source.path is not None and not source.target_path and ".jsonl" not in Path(source.path).suffixes


def _name_columns(source: Source, recipe: Recipe):
    """Fills in the columns that a recipe leaves to the kind of the source."""
    if source.target_path:
        return
    tabs = _is_tab_separated(source)
    for side, number in (("source", 0), ("target", 1)):
        if getattr(source, f"{side}_column") is None:
            language = getattr(recipe, f"{side}_language")
            setattr(source, f"{side}_column", number if tabs else f"translation.{language}")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m training.recipe", description="Checks a recipe and prints it whole."
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a value")
    arguments = parser.parse_args()
    try:
        recipe = load_recipe(arguments.recipe, arguments.set)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    yaml.safe_dump(recipe.to_dict(), sys.stdout, sort_keys=False, allow_unicode=True)


if __name__ == "__main__":
    main()
