"""Recipes: one YAML file describes a training run, and the command line can override any value.

python -m training.recipe training/recipes/table3/a-h1.yaml    # check it and print it in full
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
    """A part of a recipe. All unknown keys, wrong types and values out of bounds are reported together."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    def contradictions(self) -> Iterator[str]:
        """Yield a sentence for each contradiction between values that are valid by themselves; it names the keys."""
        yield from ()

    @model_validator(mode="after")
    def refuse_contradictions(self):
        if problems := list(self.contradictions()):
            raise ValueError("\n".join(problems))
        return self


def source_title(name: str = "", path: str | None = None, dataset: str | None = None, **_) -> str:
    """Return what results and cards call a source: its name, or else its file or data set."""
    return name or path or dataset or ""


def named_sources(recipe: dict[str, Any], earlier: Iterable[dict[str, Any]] = ()) -> list[dict[str, str]]:
    """Return the name and licence of every source of a recipe, and of the earlier runs its weights come from."""
    sources = [{"name": source_title(**source), "licence": source["licence"]} for source in recipe["data"]["train"]]
    for run in earlier:
        sources += [source for source in run.get("sources", []) if source not in sources]
    return sources


def describe(facts: dict[str, Any], parameters: int, size: int) -> dict[str, Any]:
    """Return about.json for weights of `size` bytes; see `catalogue.Checkpoint`. `facts` are those of training.json."""
    recipe = facts["recipe"]
    sources = [(source["name"], source["licence"]) for source in named_sources(recipe, facts.get("earlier", []))]
    return {
        **{key: recipe[key] for key in ("name", "source_language", "target_language", "licence", "notice")},
        "parameters": parameters,
        "bytes": size,
        "domain": recipe.get("domain", ""),
        "trained_on": [f"{title} ({licence})" if licence else title for title, licence in sources],
        "max_length": recipe["data"]["max_length"],
    }


Column = Annotated[int, Field(strict=False)]  # a key of a table, which JSON turns into text


class Source(Part):
    """Parallel text: a file, two files, a data set of the Hub, or a generator.

    - `path`: tab-separated columns, or JSON lines if it ends in .jsonl. Files may be .gz, .bz2, .xz or .zst.
    - `path` and `target_path`: two plain text files, line by line.
    - `dataset`: a data set of the Hub, or a folder.
    - `generator`: makes `pairs` pairs in the recipe's languages, see expressions/. For "places", `path` is its table:
      tab-separated English name, German or French name, kind.

    Columns of tab-separated text are numbers (default: 0 and 1). Other columns are names, and a dot reaches a nested
    field (default: "translation.en" and so on, with the recipe's languages).
    """

    path: str | None = None  # relative to the data folder; "shipped:phrases.tsv" is included in the package
    target_path: str | None = None
    dataset: str | None = None  # for `datasets.load_dataset`: an id such as wmt/wmt14, or a folder
    generator: Literal[*GENERATORS] | None = None
    pairs: Count | None = None  # the number that the generator makes
    seed: CountOrZero | None = None  # of the generator; default: the recipe's
    config: str | None = None
    split: str = "train"
    revision: str | None = None
    name: str = ""  # in results and cards
    licence: str = ""
    source_column: int | str | None = None
    target_column: int | str | None = None
    tag_column: int | str | None = None  # with `tags`: only examples with one of these tags
    tags: list[str] = []
    weight: Positive = 1.0  # how often an epoch uses each pair; 0.25: a quarter of them, 2: each twice
    held_out: CountOrZero = 0  # pairs for validation; training pairs that share a side with one are dropped
    tokenizer_lines: CountOrZero | None = None  # pairs that the tokenizer learns from; default: an equal share
    forms: bool = False  # each pair in every form that users type, without variations; for phrases
    min_words: CountOrZero = 0  # words of the longer side; shorter pairs are left out
    max_words: Count | None = None  # longer pairs are left out
    exclude: str = ""  # a regular expression; pairs with a side that it matches are left out
    replace: dict[Column, dict[str, str]] = {}  # by column: regular expressions and their replacements, in order

    @field_validator("exclude")
    @classmethod
    def is_a_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"must be a regular expression: {error}") from error
        return pattern

    @field_validator("replace")
    @classmethod
    def replaces_patterns(cls, replace: dict[int, dict[str, str]]) -> dict[int, dict[str, str]]:
        for pattern, replacement in (item for column in replace.values() for item in column.items()):
            try:
                re.sub(pattern, replacement, "")
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"must be regular expressions and their replacements: {error}") from error
        return replace

    def edit(self, text: str, column: int) -> str:
        """Return a text of a column with the replacements of `replace`."""
        for pattern, replacement in self.replace.get(column, {}).items():
            text = re.sub(pattern, replacement, text)
        return text

    def selects(self, pair: tuple[str, str]) -> bool:
        """Return True if a pair passes `min_words`, `max_words` and `exclude`."""
        if self.min_words or self.max_words:
            words = max(len(side.split()) for side in pair)
            if words < self.min_words or words > (self.max_words or words):
                return False
        return not (self.exclude and any(re.search(self.exclude, side) for side in pair))

    @property
    def title(self) -> str:
        return source_title(self.name, self.generator or self.path, self.dataset)

    def files(self, folder: str | Path) -> list[Path]:
        """Return the files of `path` and `target_path`."""
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
        if self.replace and not (self.is_tab_separated or self.target_path):
            yield "replace needs numbered columns, or plain text"
        if self.target_path and self.replace.keys() - {0, 1}:
            yield "replace in plain text has the columns 0, path, and 1, target_path"
        if self.max_words and self.min_words > self.max_words:
            yield "min_words is more than max_words"
        if bool(self.tags) != (self.tag_column is not None):
            yield "tags and tag_column must be used together"

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
    joined: Share = 0.0  # share of pairs to follow with a text of 2 to 6 neighbouring pairs
    variations: dict[Literal[*KINDS], Share] = {}  # likewise with typing errors, tags and so on: variations.py
    bpe_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0  # for small data: undo this share of merges at random
    max_length: Count = 128  # tokens of either side, </s> included; longer pairs are dropped
    max_ratio: Positive = 3.0  # of the longer side to the shorter, if the longer has over 10 tokens
    tokenizer_lines: Count = 10_000_000  # learn the tokenizer from at most this many pairs
    streaming: bool = False  # read during training without a cache, for data too big for the disk
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
            yield "two sources with held_out have the same name; give each its own name"


class Optimisation(Part):
    """Settings of section 5.3. The defaults are the paper's."""

    max_steps: Count = 100_000
    batch_tokens: Count = 25_000  # max(source, target) x sentences, padding included, over all processes
    micro_batches: Count = 1  # gradient accumulation: compute a batch in this many parts
    warmup_steps: Count = 4000
    decay_from: Count | None = None  # the rate stays at its peak until here; default: warmup_steps, as in equation 3
    learning_rate_scale: Positive = 1.0
    cooldown_steps: CountOrZero = 0  # in the last steps, the rate falls linearly to 0 (not in the paper)
    # muon: Muon for the matrices inside the layers, Adam for the rest. schedule_free: AdamW with averaged weights
    optimiser: Literal["adam", "muon", "schedule_free"] = "adam"
    adam_beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    adam_beta2: Annotated[float, Field(ge=0, lt=1)] = 0.98
    adam_epsilon: Positive = 1e-9
    max_grad_norm: Positive | None = None
    r_drop: Share = 0.0  # alpha of R-Drop, for small data: compute each batch twice and penalise differences
    precision: Literal["float32", "bfloat16", "auto"] = "float32"  # auto: bfloat16 if it is fast on the device
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
    bleu_steps: CountOrZero = 0  # translate and score validation pairs every N steps; 0: never
    bleu_sentences: Count = 200  # from the start of each validation set
    samples: CountOrZero = 3  # translations shown each time
    trackers: list[str] = []  # accelerate's, such as tensorboard or wandb


class Recipe(Part):
    name: str
    source_language: str
    target_language: str
    data: Data
    preset: str | None = None
    vocab_size: Annotated[int, Field(ge=258)] | None = None  # at least 256 bytes and two special tokens
    domain: str = ""  # the kind of text it is for, such as captions; empty: any
    initial: str | None = None  # start from this checkpoint's weights and tokenizer instead of a preset
    licence: str = ""  # of the weights
    notice: str = ""  # a sentence that users of the weights must know
    model: dict[str, Any] = {}  # fields of VaswaniConfig that differ from the preset
    seed: CountOrZero = 2017
    optimisation: Optimisation = Optimisation()
    checkpointing: Checkpointing = Checkpointing()

    @field_validator("preset")
    @classmethod
    def is_a_preset(cls, preset: str | None) -> str | None:
        from vaswani_transformer import PRESETS

        if preset is not None and preset not in PRESETS:
            raise ValueError(f"must be one of {', '.join(PRESETS)}")
        return preset

    def contradictions(self) -> Iterator[str]:
        data = self.data
        if self.initial and (self.preset or self.vocab_size):
            yield "initial has its own model and tokenizer; leave out preset and vocab_size"
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
            room = rows - config.position_offset
            yield f"data.max_length is {self.data.max_length}, but the {rows} learned positions fit only {room} tokens"

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump()


# Reading -------------------------------------------------------------------------------------------------------------


def load_recipe(path: str | Path, overrides: list[str] = ()) -> Recipe:
    """Read a recipe, by its path or the name of an included one.

    Args:
        path: A recipe, or the training.json of a trained model, which contains its recipe.
        overrides: Values to change, as `key.of.value=yaml`.

    Raises:
        FileNotFoundError: The file, or a file that it extends, does not exist.
        ValueError: The file is not YAML, or keys are unknown, missing, of the wrong type, or contradict each other. The
            message names them all.
    """
    given, path = path, _included(Path(path))
    if not path.is_file():
        names = sorted(recipe.stem for recipe in RECIPES.glob("*.yaml"))
        hint = _did_you_mean(str(given), names).replace("; did", " Did")
        raise FileNotFoundError(
            f"No such recipe: {given}.{hint} The included recipes are {', '.join(names)} and table3/*."
        )
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


def _included(path: Path) -> Path:
    """Return the path of the recipe of this name in recipes/, such as "table3/c-n2", or else the path itself."""
    included = RECIPES / path.parent / f"{path.name}.yaml"
    return included if not path.exists() and not path.suffix and included.exists() else path


# The kinds of errors that pydantic reports, in plain words.
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
    """Return a line for each problem, which starts with the key."""
    lines = []
    for problem in error.errors():
        location = [part for part in problem["loc"] if part not in ("int", "str")]  # the branches of `int | str`
        key, kind = ".".join(map(str, location)), problem["type"]
        if kind == "missing":
            lines.append(f"{key} is missing")
        elif kind == "extra_forbidden":
            known = list(_part_at(location[:-1]).model_fields)
            hint = _did_you_mean(str(location[-1]), known) or f"; known keys: {', '.join(known)}"
            lines.append(f"{key} is unknown{hint}")
        elif kind == "model_type":
            lines.append(f"{key or 'the recipe'} must have keys and values")
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


def _part_at(location: list[str | int]) -> type[Part]:
    """Return the part of a recipe at a location, such as data.train.0."""
    part = Recipe
    for key in location:
        if isinstance(key, str):
            annotation = part.model_fields[key].annotation
            part = next(kind for kind in (annotation, *get_args(annotation)) if issubclass(kind, Part))
    return part


def _complete_columns(source: Source, recipe: Recipe):
    """Fill in the default columns of a source and the default seed of a generator."""
    if source.target_path:
        return
    if source.generator and source.seed is None:
        source.seed = recipe.seed
    for side, number in (("source", 0), ("target", 1)):
        if getattr(source, f"{side}_column") is None:
            language = getattr(recipe, f"{side}_language")
            name = language if source.generator else f"translation.{language}"
            setattr(source, f"{side}_column", number if source.is_tab_separated else name)


# Files, `extends`, and overrides on the command line -----------------------------------------------------------------


def _override(values: dict, override: str):
    key, separator, text = override.partition("=")
    if not separator:
        raise ValueError(f"--set expects KEY=VALUE, for example optimisation.max_steps=100; not {override!r}.")
    target, name = values, "the recipe"
    for part in key.split("."):
        if isinstance(target, list):
            if not part.isdecimal() or int(part) >= len(target):
                raise ValueError(f"--set {override}: {name} has {len(target)} entries, counted from 0; not {part!r}.")
            part = int(part)
        elif not isinstance(target, dict):
            raise ValueError(f"--set {override}: {name} is a single value and has no keys.")
        elif part not in target:
            target[part] = {}
        parent, target, name = target, target[part], f"{name}.{part}".removeprefix("the recipe.")
    try:
        parent[part] = _parse(text)
    except yaml.YAMLError as error:
        raise ValueError(f"--set {override} is not valid YAML{_yaml_problem(error)}") from error


class _Loader(yaml.SafeLoader):
    """A loader that rejects duplicate keys (YAML silently keeps the last) and, like YAML 1.2, reads 1e-9 as a float."""

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
    """Describe a YAML error and its position, without the library's excerpt."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return (f" (line {mark.line + 1}, column {mark.column + 1})" if mark else "") + f": {problem or error}."


def _read(path: Path, extended_by: tuple[Path, ...] = ()) -> dict:
    """Read a file's values, merged into those of the recipe that it `extends`, if any.

    `reversed: true` swaps the two languages of the extended recipe.
    """
    if path.resolve() in extended_by:
        raise ValueError(f"{path} extends itself: {' -> '.join(p.name for p in (*extended_by, path))}.")
    try:
        values = _parse(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML{_yaml_problem(error)}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}).") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} is not a recipe: it must have keys and values.")
    if isinstance(values.get("recipe"), dict):  # a checkpoint's training.json
        values = values["recipe"]
    extended, is_reversed = values.pop("extends", None), values.pop("reversed", False)
    if extended is None and not is_reversed:
        return values
    if not isinstance(extended, str):
        raise ValueError(f"{path}: extends is {extended!r}; it must be the path of one recipe.")
    base = _read(path.parent / extended, (*extended_by, path.resolve()))
    return _merge(_reverse(base) if is_reversed else base, values)


def _reverse(values: dict) -> dict:
    """Return a recipe's values for the other direction: swap the languages and the two sides of every source."""
    values["source_language"], values["target_language"] = values["target_language"], values["source_language"]
    for source in (source for part in ("train", "validation", "test") for source in values["data"].get(part, ())):
        if "target_path" in source:
            source["path"], source["target_path"] = source["target_path"], source["path"]
            source["replace"] = {1 - column: edits for column, edits in source.get("replace", {}).items()}
        elif {"source_column", "target_column"} & source.keys() or (
            not source.get("generator") and Source(path=source.get("path")).is_tab_separated
        ):
            # Default column names follow from the languages, so only given columns and numbers are swapped.
            columns = source.get("target_column", 1), source.get("source_column", 0)
            source["source_column"], source["target_column"] = columns
    return values


def _merge(base: Any, changes: Any) -> Any:
    """Merge changes into a base: keys are merged, lists are replaced, and `train+` adds to the list `train`."""
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    merged = dict(base)
    for key, value in changes.items():
        name = key.removesuffix("+") if isinstance(key, str) else key
        if name != key and isinstance(base.get(name), list) and isinstance(value, list):
            merged[name] = base[name] + value
        else:
            merged[key] = _merge(base.get(key), value)
    return merged


# The command ----------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog=f"python -m {__spec__.name}", description="Check a recipe and print it with all defaults filled in."
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
