"""`vaswani translate --glossary FILE --glossary-report FILE`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from ..system.console import Failure
from .lines import check_output


COLUMNS = "term", "translation", "times_seen", "times_kept", "times_missed"


class TermCounter:
    """Counts what became of a glossary's terms, to report it."""

    def __init__(self, glossary: Any = None, report: Path | None = None):
        self.glossary, self.report = glossary, report
        self.uses: Counter[tuple[str, bool]] = Counter()

    @classmethod
    @contextmanager
    def open(cls, glossary: Path | None, report: Path | None) -> Iterator["TermCounter"]:
        """Reads the glossary, and writes the report at the end of the block, also after an error or interrupt in it.

        Raises:
            BadParameter: there is a report without a glossary.
            Failure: the glossary cannot be read, or the report cannot be written.
        """
        if report and not glossary:
            raise typer.BadParameter("It needs a glossary. Pass it with --glossary.", param_hint="--glossary-report")
        check_output(report)
        counter = cls(read_glossary(glossary) if glossary else None, report)
        try:
            yield counter
        finally:
            counter.write()

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the pipeline's `translate`."""
        return {"glossary": self.glossary, "return_terms": self.report is not None} if self.glossary else {}

    def count(self, terms: Iterable[Mapping[str, Any]]):
        """Counts the "terms" of a record."""
        self.uses.update((term["term"], term["is_kept"]) for term in terms)

    def write(self):
        """Writes the report, if there is one: a line of column names, and a line for each term."""
        if self.report is None:
            return
        rows = [COLUMNS, *self.glossary.sum_up(self.uses)]
        try:
            self.report.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
        except OSError as error:
            raise Failure(f"Cannot write {self.report}: {error.strerror}.") from error


def read_glossary(file: Path) -> Any:
    from ..model.glossary_vaswani import Glossary

    try:
        return Glossary.from_file(file)
    except (OSError, ValueError) as error:
        raise Failure(f"Cannot read the glossary: {error}") from error
