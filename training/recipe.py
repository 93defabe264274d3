"""One YAML file says everything about a training run; any value can be overridden on the command line.

python -m training.recipe training/recipes/table3/a-h1.yaml    # the whole recipe, defaults and `extends` included
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from huggingface_hub.errors import StrictDataclassError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from vaswani_transformer.system.console import exit_with_error

from .expressions import GENERATORS, language_problem
from .variations import KINDS


RECIPES = Path(__file__).with_name("recipes")

Count = Annotated[int, Field(gt=0)]
CountOrZero = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0)]


class Part(BaseModel):
    """A part of a recipe: unknown keys, wrong types and values out of bounds are refused, all of them at once."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    def contradictions(self) -> Iterator[str]:
        """What no run could do although each value by itself is in bounds; each in a sentence that names the keys."""
        yield from ()

    @model_validator(mode="after")
    def refuse_contradictions(self):
        if problems := list(self.contradictions()):
            raise ValueError("\n".join(problems))
        return self


def source_title(name: str = "", path: str | None = None, dataset: str | None = None, **_) -> str:
    """What results and cards call a source: its name, else its file or data set."""
    return name or path or dataset or ""


class Source(Part):
    """Parallel text: a file, a pair of files, a data set of the Hub, or generated. Files may be .gz, .xz or .zst.

    `path` alone is tab-separated, or JSON lines where it ends in .jsonl; with `target_path` both are plain text, line
    by line. Columns are numbers in tab-separated text (default 0 and 1), elsewhere names, where a dot looks inside
    (default "translation.en" and the like, by the recipe's languages).

    `generator` makes `pairs` pairs, see expressions/; its columns are the recipe's languages. For "places", `path` is
    its table: tab-separated English name, German or French name, kind.
    """

    path: str | None = None  # relative to the data folder; "shipped:phrases.tsv" comes with the program
    target_path: str | None = None
    dataset: str | None = None  # for `datasets.load_dataset`: an id such as wmt/wmt14, or a folder
    generator: Literal[*GENERATORS] | None = None
    pairs: Count | None = None  # how many the generator makes
    seed: CountOrZero | None = None  # of the generator; default: the recipe's
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    name: str = ""  # what results and cards call it
    licence: str = ""
    source_column: int | str | None = None
    target_column: int | str | None = None
    tag_column: int | str | None = None  # with `tags`: only examples whose tag is one of these
    tags: list[str] = []
    weight: Positive = 1.0  # how often an epoch takes each pair: 0.25 a quarter of them, 2 each twice
    held_out: CountOrZero = 0  # this many pairs validate instead; training pairs that share a side with one are dropped
    tokenizer_lines: CountOrZero | None = None  # the tokenizer learns from this many pairs; default: an equal share
    forms: bool = False  # each pair in every form that people type, see variations.forms; for phrases
    min_words: CountOrZero = 0  # of the longer side, between spaces; shorter pairs are left out
    max_words: Count | None = None  # likewise longer ones
    exclude: str = ""  # a regular expression; pairs in which it matches a side are left out

    @field_validator("exclude")
    @classmethod
    def is_a_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"must be a regular expression: {error}") from error
        return pattern

    def selects(self, pair: tuple[str, str]) -> bool:
        """Whether `min_words`, `max_words` and `exclude` let a pair pass."""
        if self.min_words or self.max_words:
            words = max(len(side.split()) for side in pair)
            if words < self.min_words or words > (self.max_words or words):
                return False
        return not (self.exclude and any(re.search(self.exclude, side) for side in pair))

    @property
    def title(self) -> str:
        return source_title(self.name, self.generator or self.path, self.dataset)

    def files(self, folder: str | Path) -> list[Path]:
        """The files of `path` and `target_path`."""
        here, name = Path(__file__).parent, "shipped:"
        paths = [path for path in (self.path, self.target_path) if path]
        return [here / path.removeprefix(name) if path.startswith(name) else Path(folder, path) for path in paths]

    @property
    def is_tab_separated(self) -> bool:
        return (
            self.path is not None
            and not self.target_path
            and not self.generator
            and ".jsonl" not in Path(self.path).suffixes
        )

    def contradictions(self) -> Iterator[str]:
        columns = self.source_column, self.target_column, self.tag_column
        if self.generator:
            yield from self._generator_contradictions()
        elif self.pairs is not None or self.seed is not None:
            yield "pairs and seed belong to a generator"
        elif (self.path is None) == (self.dataset is None):
            yield "needs either path or dataset"
        if self.target_path and not self.path:
            yield "target_path needs path"
        if self.target_path and any(column is not None for column in columns):
            yield "plain text (target_path) has no columns"
        if self.path and (self.config or self.revision or self.split != "train"):
            yield "config, split and revision belong to dataset, not to path"
        if self.is_tab_separated and any(isinstance(column, str) for column in columns):
            yield "columns of tab-separated text are numbers, counted from 0"
        if self.max_words and self.min_words > self.max_words:
            yield "min_words is more than max_words"
        if bool(self.tags) != (self.tag_column is not None):
            yield "tags and tag_column need each other"

    def _generator_contradictions(self) -> Iterator[str]:
        if self.pairs is None:
            yield "generator needs pairs, the number of pairs to make"
        if self.generator == "places" and self.path is None:
            yield "generator: places needs path, its table of places"
        if self.generator != "places" and self.path is not None:
            yield f"generator: {self.generator} reads no file; leave out path"
        if self.dataset or self.target_path or self.tags:
            yield "dataset, target_path and tags do not go with generator"
        if any(isinstance(column, int) for column in (self.source_column, self.target_column)):
            yield "columns of a generator are languages; leave them out"


class Data(Part):
    train: Annotated[list[Source], Field(min_length=1)]
    validation: list[Source] = []
    test: list[Source] = []
    joined: Share = 0.0  # for this share of the pairs add a text of several: 2 to 6 neighbouring pairs, joined
    variations: dict[Literal[*KINDS], Share] = {}  # likewise typing errors, tags and so on: see variations.py
    bpe_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0  # for small data: undo this share of merges, anew each epoch
    max_length: Count = 128  # tokens of either side, </s> included; longer pairs are dropped
    max_ratio: Positive = 3.0  # of the longer side to the shorter, where either is over 10 tokens
    tokenizer_lines: Count = 10_000_000  # at most this many pairs are read to learn the tokenizer
    streaming: bool = False  # read as training goes, nothing cached: for what does not fit on the disk
    window: Count = 1_000_000  # with streaming: plan batches over this many pairs at a time

    def contradictions(self) -> Iterator[str]:
        defaults = Source.model_fields
        for part in ("validation", "test"):
            for i, source in enumerate(getattr(self, part)):
                if any(
                    getattr(source, key) != defaults[key].default for key in ("held_out", "weight", "tokenizer_lines")
                ):
                    yield f"{part}.{i}: held_out, weight and tokenizer_lines belong to data.train"
        held_out = [source.title for source in self.train if source.held_out]
        if self.streaming and held_out:
            yield f"held_out pairs cannot be drawn from a stream: {', '.join(held_out)}"
        if len(set(held_out)) < len(held_out):
            yield "two sources with held_out have the same name; give each a name of its own"


class Optimisation(Part):
    """Section 5.3; the defaults are the paper's."""

    max_steps: Count = 100_000
    batch_tokens: Count = 25_000  # max(source, target) x sentences, padding included, over all processes
    micro_batches: Count = 1  # gradient accumulation: compute a batch in this many parts
    warmup_steps: Count = 4000
    decay_from: Count | None = None  # the rate stays at its peak until here; default: warmup_steps, as in equation 3
    learning_rate_scale: Positive = 1.0
    cooldown_steps: CountOrZero = 0  # the last steps go linearly to 0 (not in the paper, whose rate never ends)
    # muon: for the matrices between the embeddings, Adam for the rest. schedule_free: AdamW whose weights are averages
    optimiser: Literal["adam", "muon", "schedule_free"] = "adam"
    adam_beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    adam_beta2: Annotated[float, Field(ge=0, lt=1)] = 0.98
    adam_epsilon: Positive = 1e-9
    max_grad_norm: Positive | None = None
    r_drop: Share = 0.0  # alpha of R-Drop, for small data: compute each batch twice and let the two agree
    precision: Literal["float32", "bfloat16"] = "float32"
    attention: Literal["auto", "eager", "sdpa", "flash_attention_2", "flash_attention_3"] = "auto"
    compile: bool = False
    gradient_checkpointing: bool = False
    workers: CountOrZero = 0  # processes that prepare batches

    def contradictions(self) -> Iterator[str]:
        if self.optimiser == "schedule_free" and self.cooldown_steps:
            yield "cooldown_steps needs a schedule; schedule_free has none"
        if self.decay_from is not None and self.decay_from < self.warmup_steps:
            yield "decay_from is less than warmup_steps: the rate cannot fall before it has risen"
        if self.cooldown_steps > self.max_steps:
            yield "cooldown_steps is more than max_steps"
        if self.compile and self.gradient_checkpointing:
            yield "compile and gradient_checkpointing do not work together here; choose one"


class Checkpointing(Part):
    save_steps: Count = 1000
    average_last: Count = 5  # the final model is the mean of this many checkpoints (section 6.1)
    log_steps: Count = 50
    validation_steps: Count = 1000
    bleu_steps: CountOrZero = 0  # translate and score validation pairs every so many steps; 0: never
    bleu_sentences: Count = 200  # the first of each validation set
    samples: CountOrZero = 3  # translations shown each time
    trackers: list[str] = []  # accelerate's, such as tensorboard or wandb


class Recipe(Part):
    name: str
    source_language: str
    target_language: str
    data: Data
    preset: str | None = None
    vocab_size: Annotated[int, Field(ge=258)] | None = None  # 256 bytes and two special tokens are the least
    domain: str = ""  # the kind of text that it is for, such as captions; empty: text of all kinds
    initial: str | None = None  # start from this checkpoint's weights and tokenizer, not from a preset
    licence: str = ""  # of the weights
    notice: str = ""  # what whoever takes the weights must know, in a sentence
    model: dict[str, Any] = {}  # fields of VaswaniConfig that differ from the preset
    seed: CountOrZero = 2017
    optimisation: Optimisation = Optimisation()
    checkpointing: Checkpointing = Checkpointing()

    @field_validator("preset")
    @classmethod
    def is_a_preset(cls, preset: str | None) -> str | None:
        from vaswani_transformer import PRESETS

        if preset is not None and preset not in PRESETS:
            raise ValueError(f"known are {', '.join(PRESETS)}")
        return preset

    def contradictions(self) -> Iterator[str]:
        data = self.data
        if self.initial and (self.preset or self.vocab_size):
            yield "initial brings its own model and tokenizer; leave out preset and vocab_size"
        if not self.initial and not (self.preset and self.vocab_size):
            yield "give preset and vocab_size, or initial"
        if self.optimisation.batch_tokens < data.max_length:
            yield "optimisation.batch_tokens is less than data.max_length: the longest pairs would fit in no batch"
        if self.checkpointing.bleu_steps and not (data.validation or any(source.held_out for source in data.train)):
            yield "checkpointing.bleu_steps needs data.validation, or held_out pairs"
        yield from self._generator_contradictions()
        yield from self._model_contradictions()

    def _generator_contradictions(self) -> Iterator[str]:
        languages = self.source_language, self.target_language
        for part in ("train", "validation", "test"):
            for i, source in enumerate(getattr(self.data, part)):
                if source.generator and (problem := language_problem(*languages)):
                    yield f"data.{part}.{i}: {problem}"
                elif source.generator == "places" and "en" not in languages:
                    yield f"data.{part}.{i}: generator: places needs English on one side, the first column of its table"

    def _model_contradictions(self) -> Iterator[str]:
        from vaswani_transformer import VaswaniConfig
        from vaswani_transformer.loading import config_problem

        fields = VaswaniConfig().to_dict()
        unknown = [key for key in self.model if key not in fields]
        from_tokenizer = [key for key in self.model if key.endswith(("token_id", "vocab_size"))]
        yield from (f"model.{key} is not a field of VaswaniConfig{_did_you_mean(key, fields)}" for key in unknown)
        yield from (f"model.{key} follows from the tokenizer; leave it out" for key in from_tokenizer)
        if unknown or from_tokenizer or self.initial or not self.preset or not self.vocab_size:
            return
        try:
            config = VaswaniConfig.from_preset(self.preset, vocab_size=self.vocab_size, **self.model)
        except StrictDataclassError as error:
            yield f"model: {config_problem(error)}"
            return
        rows = config.max_position_embeddings
        if config.position_encoding == "learned" and self.data.max_length > rows - config.position_offset:
            yield f"data.max_length is {self.data.max_length}, more than the {rows} learned positions have room for"

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump()


# Reading -------------------------------------------------------------------------------------------------------------


def load_recipe(path: str | Path, overrides: list[str] = ()) -> Recipe:
    """Reads a recipe, by its path or the name of one that ships; `overrides` are `key.of.value=yaml`.

    A trained model's training.json holds its recipe and can be given, too.

    Raises:
        FileNotFoundError: the file, or one that it extends, does not exist.
        ValueError: it is not YAML, or a key is unknown, missing, of the wrong type or contradicts another; all are
            named at once.
    """
    given, path = path, _shipped(Path(path))
    if not path.is_file():
        names = sorted(shipped.stem for shipped in RECIPES.glob("*.yaml"))
        hint = _did_you_mean(str(given), names).replace("; did", " Did")
        raise FileNotFoundError(f"There is no recipe {given}.{hint} Included are {', '.join(names)} and table3/*.")
    values = _read(path)
    for override in overrides:
        _override(values, override)
    try:
        recipe = Recipe.model_validate(values)
    except ValidationError as error:
        raise ValueError(f"{given}:\n" + "\n".join(f"  - {line}" for line in _problems(error))) from None
    for source in (*recipe.data.train, *recipe.data.validation, *recipe.data.test):
        _complete_columns(source, recipe)
    return recipe


def _shipped(path: Path) -> Path:
    """The path itself, or that of the recipe of this name in recipes/: "mini-en-de", "table3/c-n2"."""
    shipped = RECIPES / path.parent / f"{path.name}.yaml"
    return shipped if not path.exists() and not path.suffix and shipped.exists() else path


# What pydantic checks, in plain words.
RULES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a number that is not infinite",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "keys and values",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "too_short": "a list with at least one entry",
    "literal_error": "{expected}",
}


def _problems(error: ValidationError) -> list[str]:
    """Each problem in a line that begins with its key."""
    lines = []
    for problem in error.errors():
        place = [part for part in problem["loc"] if part not in ("int", "str")]  # which of `int | str` was tried
        key, kind = ".".join(map(str, place)), problem["type"]
        if kind == "missing":
            lines.append(f"{key} is missing")
        elif kind == "extra_forbidden":
            known = list(_part_at(place[:-1]).model_fields)
            hint = _did_you_mean(str(place[-1]), known) or f"; known are {', '.join(known)}"
            lines.append(f"{key} is unknown{hint}")
        elif kind == "model_type":
            lines.append(f"{key or 'the recipe'} must hold keys and values")
        elif kind == "value_error" and isinstance(problem["input"], dict):  # the contradictions of a part
            lines += [f"{key}: {line}".removeprefix(": ") for line in str(problem["ctx"]["error"]).split("\n")]
        elif kind in RULES:
            lines.append(f"{key} is {problem['input']!r}; it must be {RULES[kind].format(**problem.get('ctx', {}))}")
        else:
            message = re.sub("^(Input|Value error,) ", "", problem["msg"])
            lines.append(f"{key} is {problem['input']!r}; it {message}".replace("; it known", "; known"))
    return list(dict.fromkeys(lines))


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _part_at(place: list[str | int]) -> type[Part]:
    """The part of a recipe that holds the keys at `place`, such as data.train.0."""
    part = Recipe
    for key in place:
        if isinstance(key, str):
            annotation = part.model_fields[key].annotation
            part = next(kind for kind in (annotation, *get_args(annotation)) if issubclass(kind, Part))
    return part


def _complete_columns(source: Source, recipe: Recipe):
    """Fills in the columns that a recipe leaves to the kind of the source, and a generator's seed."""
    if source.target_path:
        return
    if source.generator and source.seed is None:
        source.seed = recipe.seed
    for side, number in (("source", 0), ("target", 1)):
        if getattr(source, f"{side}_column") is None:
            language = getattr(recipe, f"{side}_language")
            name = language if source.generator else f"translation.{language}"
            setattr(source, f"{side}_column", number if source.is_tab_separated else name)


# The file, what it extends, and what the command line overrides ------------------------------------------------------


def _override(values: dict, override: str):
    key, separator, text = override.partition("=")
    if not separator:
        raise ValueError(f"--set expects KEY=VALUE, for example optimisation.max_steps=100; not {override!r}.")
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
        raise ValueError(f"--set {override} is not valid YAML{_yaml_problem(error)}") from error


class _Loader(yaml.SafeLoader):
    """Rejects duplicate keys (YAML silently keeps the last) and reads 1e-9 as a float, as YAML 1.2 does."""

    def compose_mapping_node(self, anchor):
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"duplicate key {key.value!r}", problem_mark=key.start_mark)
            seen.add(key.value)
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _parse(text: str) -> Any:
    return yaml.load(text, _Loader)


def _yaml_problem(error: yaml.YAMLError) -> str:
    """Where a YAML error is and what it is, without the excerpt that the library shows."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return (f" (line {mark.line + 1}, column {mark.column + 1})" if mark else "") + f": {problem or error}."


def _read(path: Path, above: tuple[Path, ...] = ()) -> dict:
    """The YAML's values on top of those of the recipe that it `extends`, if any; `above` are those that extend it.

    With `reversed: true` the recipe below is taken for the other direction.
    """
    if path.resolve() in above:
        raise ValueError(f"{path} extends itself: {' -> '.join(p.name for p in (*above, path))}.")
    try:
        values = _parse(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML{_yaml_problem(error)}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}).") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} is not a recipe: keys and values are expected.")
    if isinstance(values.get("recipe"), dict):  # a checkpoint's training.json
        values = values["recipe"]
    extended, is_reversed = values.pop("extends", None), values.pop("reversed", False)
    if extended is None and not is_reversed:
        return values
    if not isinstance(extended, str):
        raise ValueError(f"{path}: extends is {extended!r}; it must be the path of one recipe.")
    below = _read(path.parent / extended, (*above, path.resolve()))
    return _merge(_reverse(below) if is_reversed else below, values)


def _reverse(values: dict) -> dict:
    """A recipe's values for the other direction: languages exchanged, and the two sides of every source."""
    values["source_language"], values["target_language"] = values["target_language"], values["source_language"]
    for source in (source for part in ("train", "validation", "test") for source in values["data"].get(part, ())):
        if "target_path" in source:
            source["path"], source["target_path"] = source["target_path"], source["path"]
        elif {"source_column", "target_column"} & source.keys() or (
            not source.get("generator") and Source(path=source.get("path")).is_tab_separated
        ):
            # Columns with names that are not given follow the languages.
            columns = source.get("target_column", 1), source.get("source_column", 0)
            source["source_column"], source["target_column"] = columns
    return values


def _merge(below: Any, above: Any) -> Any:
    """`above` on top of `below`: keys are merged, lists replaced, and `train+` adds to the list `train`."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    merged = dict(below)
    for key, value in above.items():
        name = key.removesuffix("+") if isinstance(key, str) else key
        if name != key and isinstance(below.get(name), list) and isinstance(value, list):
            merged[name] = below[name] + value
        else:
            merged[key] = _merge(below.get(key), value)
    return merged


# The command ----------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="python -m training.recipe", description="Checks a recipe and prints it with all defaults filled in."
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a value")
    arguments = parser.parse_args(arguments)
    try:
        recipe = load_recipe(arguments.recipe, arguments.set)
    except (OSError, ValueError) as error:
        exit_with_error(error)
    yaml.safe_dump(recipe.to_dict(), sys.stdout, sort_keys=False, allow_unicode=True)


if __name__ == "__main__":
    main()
