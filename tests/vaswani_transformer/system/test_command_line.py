"""What typer's commands share: groups of options, and options that take several values."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from vaswani_transformer.system.command_line import ManyValues, count, make_app, option_groups, repeat_options, run_app


@dataclass(kw_only=True)
class Group:
    number: Annotated[int, typer.Option("--number", parser=count, metavar="N", help="A number.")] = 1
    words: Annotated[list[str] | None, typer.Option("--words", "-w", metavar="WORD...")] = None


@pytest.fixture
def calls():
    return []


@pytest.fixture
def app(calls):
    app = make_app()

    @app.command(cls=ManyValues)
    @option_groups
    def command(*, text: str, group: Group, flag: bool = False):
        """A command with a group of options."""
        calls.append((text, group, flag))

    return app


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("a", ("a", Group(), False)),
        ("a --number 3 --flag", ("a", Group(number=3), True)),
        ("a --words b c", ("a", Group(words=["b", "c"]), False)),
        ("--words b c --flag a", ("a", Group(words=["b", "c"]), True)),
        ("-w b -w c --flag -- a", ("a", Group(words=["b", "c"]), True)),
    ],
)
def test_a_group_is_an_object_with_the_values_of_its_options(app, calls, arguments, expected):
    result = CliRunner().invoke(app, arguments.split())
    assert (result.exit_code, calls) == (0, [expected]), result.output


def test_wrong_values_are_errors_of_usage(app, calls):
    result = CliRunner().invoke(app, ["a", "--number", "0"])
    assert result.exit_code == 2 and "must be 1 or more, not 0" in result.stderr and not calls


def test_the_help_lists_the_options_of_a_group(app):
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert all(word in text for word in ("--number", "--words", "--flag", "A number.", "default: 1"))


def test_a_program_returns_if_it_succeeds_and_ends_with_its_status_if_not(app, capsys):
    assert run_app(app, "vaswani test", ["a"]) is None
    with pytest.raises(SystemExit, match="2"):
        run_app(app, "vaswani test", [])
    assert "Usage: vaswani test" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("x --many a b c", "x --many a --many b --many c"),
        ("--many a --one b c --many d e", "--many a --one b c --many d --many e"),
        ("--many a -- b c", "--many a -- b c"),
        ("--many=a b", "--many=a b"),
        ("--many --one a", "--many --one a"),
    ],
)
def test_options_are_repeated_before_each_of_their_values(arguments, expected):
    assert list(repeat_options(arguments.split(), {"--many"})) == expected.split()
