"""`vaswani cache`: the checkpoints that were converted on their first use."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.filesize import decimal
from rich.table import Table

from .. import cache as converted
from ..system import console
from ..system.console import Failure, errors_as_messages
from ..targets import short_or_own, target_codes


MAX_NAME = 40  # characters; longer names are folded

Clear = Annotated[
    list[str] | None,
    typer.Option("--clear", metavar="NAME", help="Remove this checkpoint, in all its versions; repeat it for more."),
]
All = Annotated[bool, typer.Option("--all", help="Remove all converted checkpoints.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print all details as JSON.")]


def cache(clear: Clear = None, clear_all: All = False, as_json: AsJson = False):
    """List the checkpoints that were converted on their first use, or remove them.

    They are in the folder `vaswani` of HF_HOME, or in VASWANI_CACHE. Downloaded originals stay in the
    cache of the Hub, which `hf cache` manages.

    [dim]$[/] vaswani cache
    [dim]$[/] vaswani cache --clear Helsinki-NLP/opus-mt-en-de
    """
    if clear and clear_all:
        raise typer.BadParameter("Use either --clear or --all, not both.")
    with errors_as_messages(OSError):
        records = [converted.read_record(entry) for entry in converted.entries()]
        if clear or clear_all:
            remove(records, clear)
        elif as_json:
            print(json.dumps(records, indent=2, ensure_ascii=False))
        elif not records:
            print(f"No converted checkpoints in {converted.cache_folder()}.")
        else:
            console.out.print(table(records))
            total = decimal(sum(record["bytes"] for record in records))
            console.out.print(f"{total} in {converted.cache_folder()}", highlight=False, soft_wrap=True)


def remove(records: list[dict[str, Any]], names: list[str] | None):
    """Removes the entries with these names, or all, and what interrupted conversions left behind.

    Raises:
        Failure: no entry has a name; the message lists them.
    """
    available = sorted({record["name"] for record in records})
    if unknown := [name for name in names or () if name not in available]:
        raise Failure(f"Not in the cache: {', '.join(unknown)}. It has {', '.join(available) or 'no checkpoints'}.")
    chosen = [record for record in records if names is None or record["name"] in names]
    for record in chosen:
        converted.clear(Path(record["path"]))
    leftovers = converted.clear_leftovers()
    freed = decimal(sum(record["bytes"] for record in chosen) + leftovers)
    print(f"Removed {len(chosen)} converted checkpoint{'s' * (len(chosen) != 1)}: {freed}.")


def table(records: list[dict[str, Any]]) -> Table:
    """Returns a table with a row for each entry."""
    rows = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    width = min(MAX_NAME, max(len(record["name"]) for record in records))
    rows.add_column("Checkpoint", overflow="fold", min_width=width)  # in one piece, to be copied
    rows.add_column("Languages")
    rows.add_column("Parameters", justify="right", no_wrap=True)
    rows.add_column("Size", justify="right", no_wrap=True)
    rows.add_column("Difference", justify="right")
    for record in records:
        rows.add_row(
            record["name"],
            languages(record),
            converted.millions(record["parameters"]) if "parameters" in record else "",
            decimal(record["bytes"]),
            comparison(record.get("checks") or []),
        )
    return rows


def languages(record: dict[str, Any]) -> str:
    facts = record.get("facts") or {}
    source, target = (record.get(f"{side}_language") or facts.get(f"{side}_language") for side in ("source", "target"))
    codes = short_or_own(target_codes(Path(record["path"])))
    return f"{source or '?'} → {', '.join(codes) or target or '?'}"


def comparison(checks: list[dict[str, Any]]) -> str:
    """Returns the largest difference from the original's logits; --json says what computed them."""
    return f"{max(check['max_difference'] for check in checks):.0e}" if checks else "not compared"
