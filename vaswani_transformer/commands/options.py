"""The options of `vaswani translate`, each declared once."""

import math
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Annotated

import typer

from ..catalogue import DEFAULT_LANGUAGE
from ..system import command_line


LONGEST_LINE = 1024  # tokens: ten times what the shipped models were trained on, and little enough for any machine

DTYPES = "auto", "float32", "int8", "bfloat16", "float16"

INPUT, MODEL, SEARCH = "Input and output", "Model", "Search"


def whole_number(text: str | int) -> int:
    """A number from 1 on. Defaults pass through it, too."""
    try:
        return command_line.whole_number(text)
    except ArgumentTypeError as error:
        raise typer.BadParameter(str(error)) from error


def number(text: str | float) -> float:
    """A number from 0 on."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise typer.BadParameter(f"must be a number, 0 or more, not {text!r}")
    return value


def dtype_name(text: str) -> str:
    if text not in DTYPES:
        raise typer.BadParameter(f"must be {', '.join(DTYPES[:-1])} or {DTYPES[-1]}, not {text!r}")
    return text


Texts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT",
        help="Texts to translate, or a document (with --output). Without any, and without --input: standard input.",
    ),
]
Input = Annotated[
    Path | None,
    typer.Option(
        "--input", "-i", exists=True, dir_okay=False, readable=True, metavar="FILE", rich_help_panel=INPUT,
        help="UTF-8 file to translate line by line, or a document.",
    ),
]  # fmt: skip
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="KEY", rich_help_panel=INPUT,
        help="Of a JSON or YAML file: translate the texts of this key only, such as title or menu.*.text. May be given "
        "more than once.",
    ),
]  # fmt: skip
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", dir_okay=False, writable=True, metavar="FILE", rich_help_panel=INPUT,
        help="File to write instead of standard output. Translations are written as soon as they are ready: after an "
        "interrupt the file holds whole lines.",
    ),
]  # fmt: skip
NBest = Annotated[
    int,
    typer.Option(
        "--n-best", parser=whole_number, metavar="N", rich_help_panel=INPUT,
        help="Translations of each line, best first. With more than 1 an output line is LINE <tab> TEXT, or LINE "
        "<tab> SCORE <tab> TEXT with --scores; LINE is the number of the input line, counted from 1.",
    ),
]  # fmt: skip
Scores = Annotated[
    bool,
    typer.Option(
        "--scores", rich_help_panel=INPUT,
        help="Write SCORE <tab> TEXT. The score is log-probability / ((5 + tokens) / 6)^alpha.",
    ),
]  # fmt: skip
Confidence = Annotated[
    bool,
    typer.Option(
        "--confidence", rich_help_panel=INPUT,
        help="Write CONFIDENCE <tab> TEXT: the share of its words that is likely to be right, from 0 to 1.",
    ),
]  # fmt: skip
MinConfidence = Annotated[
    float | None,
    typer.Option(
        "--min-confidence", parser=number, metavar="SHARE", rich_help_panel=INPUT,
        help="Say which sentences are less sure than this.",
    ),
]  # fmt: skip
Alignments = Annotated[
    bool,
    typer.Option(
        "--alignments", rich_help_panel=INPUT,
        help="Add a last column: which word of the line each word of the translation translates, as Moses writes it "
        "(0-0 1-2; words between spaces, counted from 0).",
    ),
]  # fmt: skip
Split = Annotated[
    bool,
    typer.Option(
        "--split/--no-split", rich_help_panel=INPUT,
        help="Translate a line by its sentences, and look at each translation. With --no-split a line is given to the "
        "model as it is.",
    ),
]  # fmt: skip
Longest = Annotated[
    int | None,
    typer.Option(
        "--max-source-length", parser=whole_number, metavar="N", rich_help_panel=INPUT,
        help="Tokens in the longest sentence that is not split at a clause; by default what the checkpoint has learned "
        f"from. With --no-split: tokens in the longest line to translate, by default {LONGEST_LINE:,}; a longer one "
        "gives an empty line, an error message and exit status 1.",
    ),
]  # fmt: skip
GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary", exists=True, dir_okay=False, readable=True, metavar="FILE", rich_help_panel=SEARCH,
        help="Words that must be translated in a given way: lines of TERM <tab> TRANSLATION, with | between forms of "
        "which one will do; without a second column a term stays as it is.",
    ),
]  # fmt: skip
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="LANGUAGE", rich_help_panel=MODEL, show_default=False,
        help="Language to translate from, where checkpoints for several ship: --from fr --to en.",
    ),
]  # fmt: skip
To = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="LANGUAGE", rich_help_panel=MODEL, show_default=False,
        help="Language to translate into: picks a checkpoint that ships with this package. "
        f"[dim]\\[default: {DEFAULT_LANGUAGE}][/]",
    ),
]  # fmt: skip
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint", metavar="MODEL", rich_help_panel=MODEL,
        help="A name listed by `vaswani checkpoints`, a folder, or a Hub id: owner/name, or owner/name@REVISION for "
        "a branch, a tag or a commit.",
    ),
]  # fmt: skip
Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="DEVICE", rich_help_panel=MODEL,
        help="cpu, cuda, cuda:1, mps, ... [dim]\\[default: an accelerator if there is one][/]",
    ),
]  # fmt: skip
DType = Annotated[
    str,
    typer.Option(
        "--dtype", parser=dtype_name, metavar="DTYPE", rich_help_panel=MODEL,
        help="float32, int8 (on a CPU, faster), bfloat16, float16, or auto: the checkpoint's int8 or else float32 on a "
        "CPU, the checkpoint's own elsewhere.",
    ),
]  # fmt: skip
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size", parser=whole_number, metavar="N", rich_help_panel=MODEL,
        help="Lines translated at once. [dim]\\[default: up to 64 of similar length, fewer where they are long][/]",
    ),
]  # fmt: skip
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", parser=whole_number, metavar="N", rich_help_panel=MODEL,
        help="CPU threads of each process. Give fewer than there are cores if other programs are busy. "
        "[dim]\\[default: all cores, shared out][/]",
    ),
]  # fmt: skip
Processes = Annotated[
    int,
    typer.Option(
        "--processes", parser=whole_number, metavar="N", rich_help_panel=MODEL,
        help="Processes that share the lines of --input, each with a model of its own and its share of the cores. "
        "[dim]\\[default: 1][/]",
        show_default=False,
    ),
]  # fmt: skip
ShortlistUsed = Annotated[
    bool,
    typer.Option(
        "--shortlist", rich_help_panel=SEARCH,
        help="Consider only words that the source's may become, by the checkpoint's shortlist.safetensors: faster.",
    ),
]  # fmt: skip
Beams = Annotated[
    int | None,
    typer.Option(
        "--beams", parser=whole_number, metavar="N", rich_help_panel=SEARCH,
        help="Beam size. [dim]\\[default: the checkpoint's; 4 in the paper][/]",
    ),
]  # fmt: skip
Alpha = Annotated[
    float | None,
    typer.Option(
        "--alpha", parser=number, metavar="ALPHA", rich_help_panel=SEARCH,
        help="Length penalty; a higher value gives longer translations. "
        "[dim]\\[default: the checkpoint's; 0.6 in the paper][/]",
    ),
]  # fmt: skip
