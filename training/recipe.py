"""One YAML file says everything about a training run; any value can be overridden on the command line."""

from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml


@dataclass
class Source:
    """A parallel file (one example a line, columns separated by tabs, .xz and .gz read as they are)."""

    path: str  # relative to the data folder
    name: str = ""  # what it is called where results and cards speak of it
    licence: str = ""
    source_column: int = 0
    target_column: int = 1
    tag_column: int | None = None  # with `tags`: only lines whose tag is one of these
    tags: list[str] = field(default_factory=list)
    held_out: int = 0  # so many pairs are set apart before training, with all that share a side with them


@dataclass
class Data:
    train: list[Source]
    validation: list[Source]
    test: list[Source] = field(default_factory=list)  # beside the held-out pairs
    joined: float = 0.0  # this share of the pairs is given again, each joined to another: texts of two sentences
    max_length: int = 128  # tokens of either side, </s> included; longer pairs are dropped
    max_ratio: float = 3.0  # of the longer side to the shorter, where either is over 10 tokens


@dataclass
class Optimisation:
    """Section 5.3; the defaults are the paper's."""

    max_steps: int = 100_000
    batch_tokens: int = 25_000  # max(source, target) x sentences, padding included, over all processes
    micro_batches: int = 1  # a batch is computed in so many parts
    warmup_steps: int = 4000
    learning_rate_scale: float = 1.0
    cooldown_steps: int = 0  # so many last steps go linearly to 0 (not in the paper, whose rate never ends)
    adam_beta1: float = 0.9
    adam_beta2: float = 0.98
    adam_epsilon: float = 1e-9
    max_grad_norm: float | None = None
    precision: Literal["float32", "bfloat16"] = "float32"


@dataclass
class Checkpointing:
    save_steps: int = 1000
    average_last: int = 5  # checkpoints whose mean is the final model (section 6.1)
    log_steps: int = 50
    validation_steps: int = 1000


@dataclass
class Recipe:
    name: str
    source_language: str
    target_language: str
    preset: str
    data: Data
    vocab_size: int
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
        FileNotFoundError: there is no such file.
        ValueError: it is not YAML, or a key is unknown, missing or of the wrong type; all are named at once.
    """
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator:
            raise ValueError(f"--set wants key=value, not {override!r}.")
        *parents, last = key.split(".")
        target = values
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = yaml.safe_load(text)
    problems: list[str] = []
    recipe = _build(Recipe, values, "", problems)
    if problems:
        raise ValueError(f"{path}:\n" + "\n".join(f"  - {problem}" for problem in problems))
    return recipe


def _build(kind: Any, value: Any, where: str, problems: list[str]) -> Any:
    """`value`, as read from YAML, as the type `kind`; what does not fit is added to `problems`."""
    if is_dataclass(kind):
        if not isinstance(value, dict):
            problems.append(f"{where or 'the recipe'} must hold keys and values")
            return None
        hints, known = get_type_hints(kind), {f.name: f for f in fields(kind)}
        problems += [f"{where}{key} is unknown; known are {', '.join(known)}" for key in value if key not in known]
        required = {n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
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
        allowed = " or ".join(getattr(option, "__name__", str(option)) for option in options)
        fits = kind is Any or isinstance(value, options) and not (isinstance(value, bool) and bool not in options)
    if not fits:
        problems.append(f"{where.rstrip('.')} is {value!r}; it must be {allowed}")
    return value
