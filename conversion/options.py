"""Tables that map the options recorded by a toolkit to our configuration: our field, its option, its default.

    d_model              encoder_embed_dim = decoder_embed_dim
    d_ff                 encoder_ffn_embed_dim
    activation_dropout   activation_dropout | relu_dropout         0.0
    norm_position        encoder_normalize_before                  False
    layer_norm_eps       = 1e-5

Columns are separated by two spaces or more.

- `a = b`: both options must have the same value.
- `a | b`: the first option that is set and not zero.
- `= value`: the toolkit has no such option and always uses this value.
- `encoder.ff_size`: an option inside a group of options.
- Several fields of ours, separated by commas, may take the same option.

`choices` translates the toolkit's names of values (`swish` for `silu`).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from reprlib import Repr
from typing import TYPE_CHECKING, Any

from huggingface_hub.errors import StrictDataclassError


if TYPE_CHECKING:  # imported lazily: torch and transformers take seconds to import
    from vaswani_transformer import VaswaniConfig

# Choices that several toolkits have.
NORM_FIRST = {False: "post", True: "pre"}
NOT = {False: True, True: False}

SHORT = Repr()
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = 12
SHORT.maxstring = SHORT.maxother = 200


class ConversionError(ValueError):
    """A checkpoint cannot be converted. The message names every problem and says what to do."""

    @classmethod
    def from_problems(cls, what: str, problems: Iterable[str], shown: int = 12) -> ConversionError:
        problems = list(problems)
        more = [f"and {len(problems) - shown} more"] if len(problems) > shown else []
        return cls(f"{what}: {'; '.join([*problems[:shown], *more])}.")


class Options:
    """The options recorded with a checkpoint, and the problems with them, which are reported together."""

    def __init__(self, values: Mapping[str, Any], toolkit: str):
        self.values, self.toolkit = values, toolkit
        self.model = f"This {toolkit}" if toolkit.endswith("Model") else f"This {toolkit} model"
        self.problems: list[str] = []

    def take(self, name: str, default: Any = None) -> Any:
        """Returns the value of an option, or `default` if it is unset. `group.name` is an option inside a group."""
        value = self.values.get(name)
        if value is None and "." in name:
            value = self.values
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
        return default if value is None else value

    def refuse(self, problem: str):
        self.problems.append(problem)

    def only(self, name: str, *allowed: Any, default: Any = None):
        """Refuses a value of `name` that is not among `allowed`. `default` is the toolkit's default."""
        value = self.take(name, default)
        if value not in allowed:
            self.refuse(f"{name}={shown(value)} (supported: {', '.join(map(repr, allowed))})")

    def must_be(self, table: Mapping[str, tuple]):
        """Calls `only` for each option of `table`, whose first allowed value is the toolkit's default."""
        for name, allowed in table.items():
            self.only(name, *allowed, default=allowed[0])

    def off(self, *names: str):
        """Refuses each of these options that is set."""
        for name in names:
            if self.take(name):
                self.refuse(f"{name}={shown(self.take(name))} (supported: unset)")

    def choice(self, name: str, table: Mapping[Any, Any], default: Any = None) -> Any:
        """Translates the toolkit's value of `name` by `table`. A value that is not in `table` is refused."""
        value = self.take(name, default)
        if set(table) == {True, False}:
            value = bool(value)
        if value not in list(table):  # a list: the value may not be hashable
            self.refuse(f"{name}={shown(value)} (supported: {', '.join(map(repr, table))})")
            return next(iter(table.values()))
        return table[value]

    def number(self, name: str, default: int = 0) -> int:
        """Returns a non-negative integer. Any other value is refused."""
        value = self.take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.refuse(f"{name}={shown(value)} (supported: a non-negative integer)")
            return default
        return value

    def real(self, name: str, default: float) -> float:
        """Returns a finite number, which may be recorded as text.

        Raises:
            ConversionError: the value is not a finite number.
        """
        value = self.take(name, default)
        try:
            if math.isfinite(number := float(value)):
                return number
        except (TypeError, ValueError, OverflowError):
            pass
        raise ConversionError(f"{name} is not a finite number: {shown(value)}.")

    def version(self, name: str, parts: int) -> tuple[int, ...] | None:
        """The first `parts` numbers of a version such as "v1.12.42"; None if it has fewer."""
        numbers = re.match("v?" + r"\.".join([r"(\d{1,4})"] * parts), str(self.take(name)))
        return tuple(map(int, numbers.groups())) if numbers else None

    def finish(self):
        """Raises the collected problems, if any.

        Raises:
            ConversionError: an option was refused; the message names all.
        """
        if self.problems:
            raise ConversionError.from_problems(f"{self.model} uses unsupported options", self.problems, 99)

    def config(self, **settings) -> VaswaniConfig:
        """Returns the configuration of our model.

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
                    raise ValueError(f"{name} is {shown(i)}, which is not a token id")
        except StrictDataclassError as error:
            reason = config_problem(error)
            raise ConversionError(f"These {self.toolkit} options do not describe a valid model: {reason}") from None
        except (ValueError, TypeError, OverflowError) as error:
            reason = " ".join(str(error).split())
            raise ConversionError(f"These {self.toolkit} options do not describe a valid model: {reason}") from None
        return config


class Fields:
    """A table of the configuration's fields; see the module's docstring."""

    def __init__(self, text: str, choices: Mapping[str, Mapping] | None = None):
        self.rows = [re.split(r"\s{2,}", line.strip()) for line in text.strip().splitlines() if line.strip()]
        self.choices = choices or {}
        if wrong := [row for row in self.rows if len(row) not in (2, 3)]:
            raise ValueError(f"Each row of a table needs a field, an option and optionally a default: {wrong}")

    def read(self, options: Options) -> dict[str, Any]:
        """Returns the fields of our configuration. Unsupported values are refused in `options`."""
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
    """Parses Python literals such as `0.1`, `None` and `False`; any other text is returned as it is."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def sharing(all_three: Any, target_and_softmax: Any) -> str:
    """`share_embeddings` of our configuration (section 3.4), from a toolkit's two options."""
    return "all" if all_three else "target" if target_and_softmax else "none"


def shown(value: Any) -> str:
    """Shortens a value for an error message: a file may hold values of any length or depth."""
    return SHORT.repr(value)
