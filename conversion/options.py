"""What a toolkit recorded about a model, read as a table: our field, the toolkit's option, the toolkit's default.

    d_model              encoder_embed_dim = decoder_embed_dim
    d_ff                 encoder_ffn_embed_dim
    activation_dropout   activation_dropout | relu_dropout         0.0
    norm_position        encoder_normalize_before                  False
    layer_norm_eps       = 1e-5

Columns are separated by two spaces or more.

- `a = b`: both options must have the same value.
- `a | b`: the first one that is set, and not to zero.
- `= value`: the toolkit has no option for it; this is what it always does.
- `encoder.ff_size`: an option inside a group of options.
- Several fields of ours, separated by commas, may take the same option.

Where the toolkit has its own word for a value (`swish` for `silu`), `choices` translates it.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from reprlib import Repr
from typing import TYPE_CHECKING, Any

from huggingface_hub.errors import StrictDataclassError


if TYPE_CHECKING:  # torch and transformers take seconds to import: they wait until the command line is read
    from vaswani_transformer import VaswaniConfig

# Choices that several toolkits have.
NORM_FIRST = {False: "post", True: "pre"}
NOT = {False: True, True: False}

SHORT = Repr()
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = 12
SHORT.maxstring = SHORT.maxother = 200


class ConversionError(ValueError):
    """A checkpoint cannot be converted as it is. The message says everything that is wrong, and what to do."""

    @classmethod
    def from_problems(cls, what: str, problems: Iterable[str], shown: int = 12) -> ConversionError:
        problems = list(problems)
        more = [f"and {len(problems) - shown} more"] if len(problems) > shown else []
        return cls(f"{what}: {'; '.join([*problems[:shown], *more])}.")


class Options:
    """The options that a toolkit recorded with a checkpoint, and the problems with them, to be reported all at once."""

    def __init__(self, values: Mapping[str, Any], toolkit: str):
        self.values, self.toolkit = values, toolkit
        self.model = f"This {toolkit}" if toolkit.endswith("Model") else f"This {toolkit} model"
        self.problems: list[str] = []

    def take(self, name: str, default: Any = None) -> Any:
        """The value of an option, `default` where it is unset. `group.name` is an option inside a group."""
        value = self.values.get(name)
        if value is None and "." in name:
            value = self.values
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
        return default if value is None else value

    def refuse(self, problem: str):
        self.problems.append(problem)

    def only(self, name: str, *allowed: Any, default: Any = None):
        """Refuses a value of `name` that is not among `allowed`. `default` is the toolkit's own where it is unset."""
        value = self.take(name, default)
        if value not in allowed:
            self.refuse(f"{name}={shown(value)} (supported: {', '.join(map(repr, allowed))})")

    def must_be(self, table: Mapping[str, tuple]):
        """`only` for each option of `table`. The first of its allowed values is the toolkit's default."""
        for name, allowed in table.items():
            self.only(name, *allowed, default=allowed[0])

    def off(self, *names: str):
        """Refuses each of these options that is set."""
        for name in names:
            if self.take(name):
                self.refuse(f"{name}={shown(self.take(name))} (supported: unset)")

    def choice(self, name: str, table: Mapping[Any, Any], default: Any = None) -> Any:
        """Our word for the toolkit's value of `name`. A value that is not in `table` is refused."""
        value = self.take(name, default)
        if set(table) == {True, False}:
            value = bool(value)
        if value not in list(table):  # a list: a file may hold a value that cannot be hashed
            self.refuse(f"{name}={shown(value)} (supported: {', '.join(map(repr, table))})")
            return next(iter(table.values()))
        return table[value]

    def number(self, name: str, default: int = 0) -> int:
        """A whole number from 0 on. Anything else is refused."""
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.refuse(f"{name}={shown(value)} (supported: a number)")
            return default
        return value

    def real(self, name: str, default: float) -> float:
        """A number, however it is written.

        Raises:
            ConversionError: it is something else, or infinite.
        """
        value = self.take(name, default)
        try:
            if math.isfinite(number := float(value)):
                return number
        except (TypeError, ValueError, OverflowError):
            pass
        raise ConversionError(f"{name} is {shown(value)}, which is not a number.")

    def version(self, name: str, parts: int) -> tuple[int, ...] | None:
        """The first `parts` numbers of a version such as "v1.12.42"; None if it does not have as many."""
        numbers = re.match("v?" + r"\.".join([r"(\d{1,4})"] * parts), str(self.take(name)))
        return tuple(map(int, numbers.groups())) if numbers else None

    def finish(self):
        """Ends here if anything was refused.

        Raises:
            ConversionError: the message names all that was refused.
        """
        if self.problems:
            raise ConversionError.from_problems(f"{self.model} uses options without support here", self.problems, 99)

    def config(self, **settings) -> VaswaniConfig:
        """The configuration of our model.

        Raises:
            ConversionError: an option was refused, or the settings contradict each other.
        """
        from vaswani_transformer import VaswaniConfig
        from vaswani_transformer.loading import config_problem

        self.finish()
        try:
            config = VaswaniConfig(**settings)
            for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
                if not isinstance(i := getattr(config, name), int) or not 0 <= i < config.decoder_vocab_size:
                    raise ValueError(f"{name} is {shown(i)}, not the id of a token")
        except StrictDataclassError as error:
            reason = config_problem(error)
            raise ConversionError(f"These {self.toolkit} options do not describe a valid model: {reason}") from None
        except (ValueError, TypeError, OverflowError) as error:
            reason = " ".join(str(error).split())
            raise ConversionError(f"These {self.toolkit} options do not describe a valid model: {reason}") from None
        return config


class Fields:
    """A table of the configuration's fields; see the module."""

    def __init__(self, text: str, choices: Mapping[str, Mapping] | None = None):
        self.rows = [re.split(r"\s{2,}", line.strip()) for line in text.strip().splitlines() if line.strip()]
        self.choices = choices or {}
        if wrong := [row for row in self.rows if len(row) not in (2, 3)]:
            raise ValueError(f"A row has a field, an option and perhaps a default: {wrong}")

    def read(self, options: Options) -> dict[str, Any]:
        """The fields of our configuration. What is not supported is refused in `options`."""
        settings = {}
        for fields, option, *default in self.rows:
            default = literal(default[0]) if default else None
            for field in fields.split(", "):
                settings[field] = self._value(options, field, option, default)
        return settings

    def _value(self, options: Options, field: str, option: str, default: Any) -> Any:
        if option.startswith("= "):
            return literal(option.removeprefix("= "))
        name, *alternatives = re.split(r" [=|] ", option)
        if " = " in option:
            refuse_if_different(options, name, alternatives, default)
        if " | " in option:
            name = next((n for n in (name, *alternatives) if options.take(n)), name)
        if field in self.choices:
            return options.choice(name, self.choices[field], default)
        return options.take(name, default)


def refuse_if_different(options: Options, name: str, names: Iterable[str], default: Any = None):
    value = options.take(name, default)
    for other in names:
        if options.take(other, default) != value:
            options.refuse(
                f"{name}={shown(value)} with {other}={shown(options.take(other, default))} (supported: the same)"
            )


def literal(text: str) -> Any:
    """`0.1`, `None` and `False` as Python reads them; any other text is itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def sharing(all_three: Any, target_and_softmax: Any) -> str:
    """`share_embeddings` of our configuration (section 3.4), from a toolkit's two switches."""
    return "all" if all_three else "target" if target_and_softmax else "none"


def shown(value: Any) -> str:
    """A value as an error message quotes it: a file may hold one of any length, or nested without end."""
    return SHORT.repr(value)
