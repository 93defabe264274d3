"""Shared parts of all command lines: settings of typer, groups of options, lazy commands, and number parsers."""

import argparse
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib.machinery import ModuleSpec
from itertools import chain
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand


# Programs ------------------------------------------------------------------------------------------------------------


def make_app(**settings: Any) -> typer.Typer:
    """Returns a typer application with the settings that all commands share."""
    common: dict[str, Any] = {
        "add_completion": False,
        "pretty_exceptions_enable": False,
        "rich_markup_mode": "rich",
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    return typer.Typer(**common | settings)


def run_app(app: typer.Typer, name: str, arguments: Sequence[str] | None = None):
    """Runs an application under a name. Returns if it succeeds. By default the arguments are those of the process.

    Raises:
        SystemExit: the application failed.
    """
    try:
        app(arguments, prog_name=name)
    except SystemExit as end:
        if end.code:
            raise


def describe_program(spec: ModuleSpec, doc: str) -> dict[str, str]:
    """Returns the name and the description of a module's parser, for argparse.

    `training.average` of a clone is `vaswani_transformer.training.average` of a wheel: `doc` is changed accordingly.
    """
    package = spec.name.rpartition(".")[0]
    return {"prog": f"python -m {spec.name}", "description": re.sub(r"(?<=python -m )training\b", package, doc)}


def add_lazy_command(app: typer.Typer, name: str, help: str, load: Callable[[], typer.Typer]):
    """Adds another application as a command. It is loaded when the command runs, so `--help` of `app` stays fast."""

    class LazyCommand(TyperCommand):
        def make_context(self, info_name, args, parent=None, **extra):
            # The loaded command makes its own context, which then parses the arguments and runs it.
            return typer.main.get_command(load()).make_context(info_name, args, parent, **extra)

    app.command(name, cls=LazyCommand, help=help)(lambda: None)


class ManyValues(TyperCommand):
    """A command whose list options take several values at once: `--tag a b` means `--tag a --tag b`."""

    def parse_args(self, ctx, args):
        names = {name for parameter in self.params if getattr(parameter, "multiple", False) for name in parameter.opts}
        return super().parse_args(ctx, list(repeat_options(args, names)))


def repeat_options(arguments: Iterable[str], names: set[str]) -> Iterator[str]:
    """Yields the arguments, with an option of `names` before each of its values."""
    option, is_first = None, False
    for argument in arguments:
        if argument.startswith("-"):
            option, is_first = argument if argument in names else None, True
        elif option:
            if not is_first:
                yield option
            is_first = False
        yield argument


# Groups of options ---------------------------------------------------------------------------------------------------


def option_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a typer command take groups of options: each field of a dataclass parameter becomes an option."""
    parameters = annotated_parameters(function)
    groups = {parameter.name: parameter.annotation for parameter in parameters if is_dataclass(parameter.annotation)}

    @wraps(function)
    def command(**values: Any):
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return function(**values)

    set_parameters(
        command,
        chain.from_iterable(
            annotated_parameters(groups[parameter.name]) if parameter.name in groups else [parameter]
            for parameter in parameters
        ),
    )
    return command


def annotated_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Returns the parameters of a function or a dataclass, with names of types resolved to types."""
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    return [parameter.replace(annotation=hints.get(name)) for name, parameter in signature.parameters.items()]


def set_parameters(command: Callable[..., Any], parameters: Iterable[inspect.Parameter]):
    """Sets the signature from which typer makes the options of a function that takes any keywords."""
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = inspect.Signature(named)  # ty: ignore[missing-attribute]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in named}


# Numbers -------------------------------------------------------------------------------------------------------------


def whole_number(text: str | int, minimum: int = 1) -> int:
    """Parses a whole number of at least `minimum`, for argparse."""
    if not re.fullmatch(r"[+-]?\d+", str(text).strip()):
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}")
    if int(text) < minimum:
        raise argparse.ArgumentTypeError(f"must be {minimum} or more, not {text}")
    return int(text)


def whole_number_or_zero(text: str | int) -> int:
    """Parses a whole number of at least 0, for argparse."""
    return whole_number(text, minimum=0)


def count(text: str | int) -> int:
    """Parses a whole number of at least 1, for typer, which also passes defaults through parsers."""
    try:
        return whole_number(text)
    except argparse.ArgumentTypeError as error:
        raise typer.BadParameter(str(error)) from error


def count_or_zero(text: str | int) -> int:
    """Parses a whole number of at least 0, for typer."""
    try:
        return whole_number_or_zero(text)
    except argparse.ArgumentTypeError as error:
        raise typer.BadParameter(str(error)) from error


def number(text: str | float) -> float:
    """Parses a finite number of at least 0, for typer."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise typer.BadParameter(f"must be a number, 0 or more, not {text!r}")
    return value
