"""`vaswani attention`: a figure of which words attend to which, like the paper's Figures 3 to 5."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..system.command_line import option_groups
from ..system.console import Failure, errors_as_messages
from . import models, options


SELECTION = "Which attention"

Sentence = Annotated[str, typer.Argument(metavar="TEXT", help="Sentence to translate.")]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", dir_okay=False, writable=True, metavar="FILE", help="SVG file to write."),
]
Stack = Annotated[
    Literal["encoder", "decoder"], typer.Option("--stack", rich_help_panel=SELECTION, help="Encoder or decoder.")
]
Kind = Annotated[
    Literal["self", "cross"],
    typer.Option("--kind", rich_help_panel=SELECTION, help="Self-attention, or the decoder's attention to the source."),
]
Layer = Annotated[
    int, typer.Option("--layer", metavar="N", rich_help_panel=SELECTION, help="Layer, counted from 0; -1 is the last.")
]
Heads = Annotated[
    list[int] | None,
    typer.Option(
        "--head",
        metavar="N",
        rich_help_panel=SELECTION,
        help="Head, counted from 0; repeat it for more heads. [dim]\\[default: all][/]",
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Option(
        "--word",
        metavar="WORD",
        rich_help_panel=SELECTION,
        help="Draw only the lines from this word; repeat it for more words. [dim]\\[default: all][/]",
    ),
]


@option_groups
def attention(
    *,
    text: Sentence,
    output: Output,
    stack: Stack = "encoder",
    kind: Kind = "self",
    layer: Layer = -1,
    head: Heads = None,
    word: Words = None,
    choice: options.ModelChoice,
):
    """Draw an SVG of which words attend to which while a sentence is translated.

    [dim]$[/] vaswani attention "The law will never be perfect." -o law.svg --layer 3
    [dim]$[/] vaswani attention "A man rides a bicycle." -o a.svg --stack decoder --kind cross
    """
    if kind == "cross" and stack == "encoder":
        raise typer.BadParameter("Only the decoder has cross-attention: add --stack decoder.", param_hint="--kind")
    with errors_as_messages(OSError):
        pipeline = models.load_pipeline(models.choose(choice), "cpu", "float32")
        from ..inspection.attention_figure import attention_figure
        from ..inspection.inspection import inspect_translation
        from ..system.files import atomic_file, check_writable

        try:
            check_writable(output)
            inspection = inspect_translation(pipeline.model, pipeline.tokenizer, text)
            figure = attention_figure(inspection, stack, f"{kind}_attn", layer, head or (), word or ())
        except ValueError as error:
            raise Failure(str(error)) from error
        with atomic_file(output) as file:
            file.write_text(figure, encoding="utf-8")
        print(inspection.translation)
