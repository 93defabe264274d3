"""The sentence about a package that is not installed, and the command that installs it."""

from pathlib import Path


PACKAGE = Path(__file__).parents[1]


def missing_package(user: str, package: str | None, extra: str) -> str:
    """Returns the sentence for a package that a verb, a format or a step (the `user`) needs from an extra."""
    return f"{user} needs {package}, which is not installed: {install_command(extra)}"


def install_command(extra: str) -> str:
    """Returns the command that installs an extra: from the clone if there is one, else from the package index."""
    if (PACKAGE.parent / "pyproject.toml").is_file():
        return f"pip install -e '.[{extra}]' in the folder of the clone"
    return f"pip install 'vaswani-transformer[{extra}]'"
