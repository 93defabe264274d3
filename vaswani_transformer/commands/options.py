"""Options that several verbs share, each declared once. A dataclass is a group of options: see `option_groups`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..catalogue import DEFAULT_LANGUAGE
from ..languages import short_code
from ..system.command_line import count, number


DTYPES = "auto", "float32", "int8", "bfloat16", "float16"

INPUT, DOCUMENTS, MODEL, SEARCH = "Input and output", "Documents", "Model", "Search"


def dtype_name(text: str) -> str:
    if text not in DTYPES:
        raise typer.BadParameter(f"must be {', '.join(DTYPES[:-1])} or {DTYPES[-1]}, not {text!r}")
    return text


# Input and output ----------------------------------------------------------------------------------------------------

Texts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT",
        help="Texts to translate, or a document (with --output). Without TEXT and --input, standard input is read line "
        "by line.",
    ),
]
Input = Annotated[
    Path | None,
    typer.Option(
        "--input",
        "-i",
        exists=True,
        dir_okay=False,
        readable=True,
        metavar="FILE",
        rich_help_panel=INPUT,
        help="UTF-8 file to translate line by line, or a document.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        dir_okay=False,
        writable=True,
        metavar="FILE",
        rich_help_panel=INPUT,
        help="File to write instead of standard output. Lines are written as soon as they are translated; after an "
        "interrupt, the file contains only complete lines.",
    ),
]


@dataclass(kw_only=True)
class DocumentOptions:
    """Which parts of a document `vaswani translate` translates."""

    show_texts: Annotated[
        bool,
        typer.Option(
            "--show-texts",
            rich_help_panel=DOCUMENTS,
            help="Translate nothing; print each text of the document with its place, and what would stay as it is.",
        ),
    ] = False
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="KEY",
            rich_help_panel=DOCUMENTS,
            help="In JSON, YAML, .properties, .strings and the front matter of Markdown, translate only this key, such "
            "as title or menu.*.text. Repeat it for more keys.",
        ),
    ] = None
    comments: Annotated[
        bool, typer.Option("--comments", rich_help_panel=DOCUMENTS, help="Translate comments in Word and OpenDocument.")
    ] = False
    keep_anchors: Annotated[
        bool,
        typer.Option(
            "--keep-anchors",
            rich_help_panel=DOCUMENTS,
            help="In Markdown, add the anchor of the original to each heading, such as {#good-morning}, so that links "
            "still lead to it.",
        ),
    ] = False

    def given(self) -> list[str]:
        """Returns the options that were given."""
        values = {
            "--show-texts": self.show_texts,
            "--key": self.keys,
            "--comments": self.comments,
            "--keep-anchors": self.keep_anchors,
        }
        return [name for name, value in values.items() if value]

    def for_reading(self) -> Any:
        from ..documents import Options

        return Options(tuple(self.keys or ()), self.comments, self.keep_anchors)


@dataclass(kw_only=True)
class Results:
    """The columns and warnings that `vaswani translate` prints for each translation."""

    n_best: Annotated[
        int,
        typer.Option(
            "--n-best",
            parser=count,
            metavar="N",
            rich_help_panel=INPUT,
            help="Number of translations for each line, best first. If N is above 1, output lines are LINE <tab> TEXT, "
            "or LINE <tab> SCORE <tab> TEXT with --scores; LINE is the number of the input line, counted from 1.",
        ),
    ] = 1
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            rich_help_panel=INPUT,
            help="Print SCORE <tab> TEXT. The score is log-probability / ((5 + tokens) / 6)^alpha.",
        ),
    ] = False
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence",
            rich_help_panel=INPUT,
            help="Print CONFIDENCE <tab> TEXT: the expected share of correct words, from 0 to 1.",
        ),
    ] = False
    min_confidence: Annotated[
        float | None,
        typer.Option(
            "--min-confidence",
            parser=number,
            metavar="SHARE",
            rich_help_panel=INPUT,
            help="Warn about sentences whose confidence is below this value. In a test, 0.6 found 49 of 110 wrong "
            "sentences, and warned about 2 of 153 good ones.",
        ),
    ] = None
    min_word_confidence: Annotated[
        float | None,
        typer.Option(
            "--min-word-confidence",
            parser=number,
            metavar="SHARE",
            rich_help_panel=INPUT,
            help="Warn about sentences with a word whose confidence is below this value. In the same test, 0.35 found "
            "79 of the 110 wrong sentences, and warned about 14 of the 153 good ones.",
        ),
    ] = None
    alignments: Annotated[
        bool,
        typer.Option(
            "--alignments",
            rich_help_panel=INPUT,
            help="Add a last column of word alignments in Moses format: 0-0 1-2 means that word 0 of the line became "
            "word 0 of the translation, and word 1 became word 2.",
        ),
    ] = False

    def settings(self) -> dict[str, Any]:
        """Returns the arguments of the pipeline's `translate`."""
        chosen = {"return_alignments": self.alignments or None, "return_confidence": self.confidence or None}
        required = {"num_return_sequences": self.n_best, "return_scores": self.scores}
        return required | self.warnings | {name: value for name, value in chosen.items() if value is not None}

    @property
    def warnings(self) -> dict[str, float]:
        """Returns those arguments that ask for warnings, which documents also take."""
        limits = {"min_confidence": self.min_confidence, "min_word_confidence": self.min_word_confidence}
        return {name: value for name, value in limits.items() if value is not None}

    @property
    def columns(self) -> list[str]:
        """Returns the names of the columns before the text."""
        return ["score"] * self.scores + ["confidence"] * self.confidence


@dataclass(kw_only=True)
class Splitting:
    """How `vaswani translate` splits lines into sentences."""

    split: Annotated[
        bool,
        typer.Option(
            "--split/--no-split",
            rich_help_panel=INPUT,
            help="Split lines into sentences and check each translation. With --no-split, the model gets each line as "
            "it is; a line that is too long produces an empty line, an error message and exit status 1.",
        ),
    ] = True
    max_sentence: Annotated[
        int | None,
        typer.Option(
            "--max-sentence",
            parser=count,
            metavar="N",
            rich_help_panel=INPUT,
            help="Split sentences longer than N tokens between clauses. "
            "[dim]\\[default: the checkpoint's maximum training length][/]",
        ),
    ] = None
    max_source_length: Annotated[  # the former name of --max-sentence
        int | None, typer.Option("--max-source-length", parser=count, metavar="N", hidden=True)
    ] = None

    def settings(self) -> dict[str, Any]:
        """Returns the arguments of the pipeline's `translate`.

        Raises:
            BadParameter: --max-sentence with --no-split.
        """
        longest = self.max_sentence or self.max_source_length
        if self.split:
            return {"longest_sentence": longest}
        if longest:
            raise typer.BadParameter(
                "It has no effect with --no-split. Leave out one of them.", param_hint="--max-sentence"
            )
        return {"split_sentences": False}


# Model ---------------------------------------------------------------------------------------------------------------

Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="MODEL",
        rich_help_panel=MODEL,
        help="A name listed by `vaswani checkpoints`; a Hub id: owner/name, or owner/name@REVISION; a folder; or a "
        "folder or archive of another toolkit. Models of OPUS-MT, FSMT and other toolkits are converted on their first "
        "use.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        rich_help_panel=MODEL,
        help="cpu, cuda, cuda:1, mps, ... [dim]\\[default: an accelerator if there is one][/]",
    ),
]
DType = Annotated[
    str,
    typer.Option(
        "--dtype",
        parser=dtype_name,
        metavar="DTYPE",
        rich_help_panel=MODEL,
        help="float32, int8 (CPU only, faster), bfloat16, float16, or auto: on a CPU the checkpoint's int8 weights if "
        "it has them, else float32; on an accelerator the dtype of its weights.",
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        parser=count,
        metavar="N",
        rich_help_panel=MODEL,
        help="Lines in a batch. [dim]\\[default: up to 64 of similar length, fewer if they are long][/]",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        parser=count,
        metavar="N",
        rich_help_panel=MODEL,
        help="CPU threads of each process. Use fewer than the cores if other programs are busy. "
        "[dim]\\[default: all cores, divided among the processes][/]",
    ),
]
Processes = Annotated[
    int,
    typer.Option(
        "--processes",
        parser=count,
        metavar="N",
        rich_help_panel=MODEL,
        help="Number of processes that share the lines of --input, each with its own copy of the model.",
    ),
]


@dataclass(kw_only=True)
class ModelChoice:
    """The checkpoint, by its name or its languages."""

    source_language: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="LANGUAGE",
            rich_help_panel=MODEL,
            show_default=False,
            help="Source language. Needed if several included checkpoints match (--from fr --to en), "
            "and for the checks if the checkpoint does not record it.",
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="LANGUAGE",
            rich_help_panel=MODEL,
            show_default=False,
            help="Target language: selects an included or cached checkpoint, or one of a model's languages. "
            f"[dim]\\[default: {DEFAULT_LANGUAGE}][/]",
        ),
    ] = None
    checkpoint: Checkpoint = None
    download: Annotated[
        bool,
        typer.Option(
            "--download",
            rich_help_panel=MODEL,
            help="If neither the package nor the cache has a checkpoint for --from and --to, download OPUS-MT's.",
        ),
    ] = False

    def languages(self) -> dict[str, str]:
        """Returns the languages of the command line as arguments of the pipeline; a checkpoint may not record them."""
        languages = {"source_language": self.source_language, "target_language": self.to}
        return {name: short_code(language) for name, language in languages.items() if language}


# Search --------------------------------------------------------------------------------------------------------------

GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary",
        exists=True,
        dir_okay=False,
        readable=True,
        metavar="FILE",
        rich_help_panel=SEARCH,
        help="File with required translations: one TERM <tab> TRANSLATION per line. Separate acceptable forms with |. "
        "A term without a translation is kept unchanged.",
    ),
]
GlossaryReport = Annotated[
    Path | None,
    typer.Option(
        "--glossary-report",
        dir_okay=False,
        writable=True,
        metavar="FILE",
        rich_help_panel=SEARCH,
        help="Write a table (TSV) of the glossary's terms: how often each was in the source, and how often its "
        "translation was kept and missed.",
    ),
]
Beams = Annotated[
    int | None,
    typer.Option(
        "--beams",
        parser=count,
        metavar="N",
        rich_help_panel=SEARCH,
        help="Beam size. [dim]\\[default: the checkpoint's; 4 in the paper][/]",
    ),
]


@dataclass(kw_only=True)
class Search:
    """The settings of the search."""

    beams: Beams = None
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            parser=number,
            metavar="ALPHA",
            rich_help_panel=SEARCH,
            help="Length penalty; higher values give longer translations. "
            "[dim]\\[default: the checkpoint's; 0.6 in the paper][/]",
        ),
    ] = None
    shortlist: Annotated[
        bool,
        typer.Option(
            "--shortlist",
            rich_help_panel=SEARCH,
            help="Consider only likely translations of the source words, which is faster. The checkpoint needs a "
            "shortlist.safetensors.",
        ),
    ] = False

    def settings(self) -> dict[str, Any]:
        """Returns the arguments of the pipeline's `translate`."""
        chosen = {"num_beams": self.beams, "length_penalty": self.alpha, "shortlist": self.shortlist or None}
        return {name: value for name, value in chosen.items() if value is not None}
