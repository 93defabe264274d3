"""`vaswani attention`: a figure of who attends to whom, like the paper's Figures 3 to 5."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from . import options, translate
from .console import Failure, failures_are_messages


WHICH = "Which attention"
Output = Annotated[
    Path,
    typer.Option("--output", "-o", dir_okay=False, writable=True, metavar="FILE", help="SVG file to write."),
]
Stack = Annotated[
    Literal["encoder", "decoder"], typer.Option("--stack", rich_help_panel=WHICH, help="Encoder or decoder.")
]
Kind = Annotated[
    Literal["self", "cross"],
    typer.Option("--kind", rich_help_panel=WHICH, help="Self-attention, or the decoder's to the source."),
]
Layer = Annotated[
    int, typer.Option("--layer", metavar="N", rich_help_panel=WHICH, help="Counted from 0; -1 is the last.")
]
Heads = Annotated[
    list[int] | None,
    typer.Option(
        "--head", metavar="N", rich_help_panel=WHICH, help="Counted from 0; repeat it for more. All if unset."
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Option(
        "--word", metavar="WORD", rich_help_panel=WHICH, help="Only the lines of this word; repeat it for more."
    ),
]


def attention(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence to translate.")],
    output: Output,
    stack: Stack = "encoder",
    kind: Kind = "self",
    layer: Layer = -1,
    head: Heads = None,
    word: Words = None,
    source_language: options.From = None,
    to: options.To = None,
    checkpoint: options.Checkpoint = None,
):
    """Draw which words attend to which while a sentence is translated, as an SVG.

    [dim]$[/] vaswani attention "The law will never be perfect." -o law.svg --layer 3
    [dim]$[/] vaswani attention "A man is riding a bicycle." -o alignment.svg --stack decoder --kind cross
    """
    if kind == "cross" and stack == "encoder":
        raise typer.BadParameter("Only the decoder has cross-attention: add --stack decoder.", param_hint="--kind")
    source = translate.choose(checkpoint, source_language, to)
    with failures_are_messages():
        pipeline = translate.load_pipeline(source, "cpu", "float32")
        from ..inspection.attention_figure import attention_figure
        from ..inspection.inspection import inspect_translation
        from ..system.files import whole_file

        try:
            inspection = inspect_translation(pipeline.model, pipeline.tokenizer, text)
            figure = attention_figure(inspection, stack, f"{kind}_attn", layer, head or (), word or ())
        except ValueError as error:
            raise Failure(str(error)) from error
        with whole_file(output) as file:
            file.write_text(figure, encoding="utf-8")
        print(inspection.translation)
