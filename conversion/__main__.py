"""Converts checkpoints from other toolkits to ours, and ours to other runtimes.

vaswani convert TOOLKIT SOURCE OUT           import a checkpoint from another toolkit
vaswani convert to-RUNTIME CHECKPOINT OUT    export a checkpoint to another runtime
vaswani publish FOLDER user/name             publish a checkpoint on the Hugging Face Hub
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from vaswani_transformer.system.command_line import (
    ManyValues,
    add_lazy_command,
    annotated_parameters,
    make_app,
    run_app,
    set_parameters,
)
from vaswani_transformer.system.console import Failure, exit_with_error
from vaswani_transformer.system.extras import missing_package

from .files.folders import check_new
from .messages import quiet
from .options import ConversionError


if TYPE_CHECKING:  # imported lazily: torch and transformers take seconds to import
    from transformers import PreTrainedModel

    from .converted import Converted
    from .parity.scores import Parity

# What each command reads or writes. Its module in toolkits/ or runtimes/ has the same name.
TOOLKITS = {
    "fairseq": "a .pt file of fairseq 0.6 to 0.12, with dict.*.txt and BPE codes",
    "marian": "a model.npz from Marian, with its vocabularies",
    "hf-marian": "a MarianMTModel from transformers, such as Helsinki-NLP's",
    "fsmt": "an FSMT model from transformers",
    "opennmt": "a .pt file of OpenNMT-py 2 or 3",
    "joeynmt": "a .ckpt file of JoeyNMT, with its config.yaml",
    "tensor2tensor": "a TensorFlow checkpoint from tensor2tensor, with hparams.json and vocabulary",
    "torch": "a state dict of torch.nn.Transformer, with a description.json",
    "annotated": "a state dict of the Annotated Transformer, with a description.json",
}
RUNTIMES = {
    "to-ctranslate2": "a model for CTranslate2's Translator, in float32 or quantised",
    "to-marian": "a MarianMTModel for transformers",
    "to-onnx": "an encoder and decoders for onnxruntime, named as in optimum",
}


Source = Annotated[Path, typer.Argument(metavar="SOURCE", help="The checkpoint's file or folder.")]
Checkpoint = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="Name of an included checkpoint, a folder or a Hub id.")
]
Out = Annotated[Path, typer.Argument(metavar="OUT", help="New folder for the result.")]
Reference = Annotated[Path | None, typer.Option(metavar="FILE.npz", help="Logits computed by the toolkit.")]
Unsafe = Annotated[
    bool, typer.Option("--unsafe", help="Load pickles that can run code; only for files that you trust.")
]

app = make_app(no_args_is_help=True)


@app.callback()
def vaswani_convert():
    """Convert a checkpoint from another toolkit, or export one to another runtime.

    [dim]$[/] vaswani convert fairseq checkpoint.pt OUT
    [dim]$[/] vaswani convert to-onnx mini-en-de OUT

    `vaswani convert TOOLKIT --help` lists the options of a toolkit.
    """


def load_command(name: str) -> typer.Typer:
    """Returns the command of a toolkit or runtime; imports no other one."""
    module = load_module(name)
    command, verb, what = (
        (export_command(module), "Write", RUNTIMES[name])
        if name in RUNTIMES
        else (convert_command(module), "Read", TOOLKITS[name])
    )
    # A module's docstring describes its input, including the fields of description.json.
    single = make_app(rich_markup_mode="markdown")
    single.command(name, cls=ManyValues, help=f"{verb} {what}.\n\n{getattr(module, 'HELP', module.__doc__)}")(command)
    return single


def load_publish() -> typer.Typer:
    from .hub.publish import app

    return app


def load_module(name: str) -> ModuleType:
    """Imports the module of a command. Some need packages of the extra `convert`."""
    folder = "runtimes" if name in RUNTIMES else "toolkits"
    try:
        return importlib.import_module(f".{folder}.{name.removeprefix('to-').replace('-', '_')}", __package__)
    except ModuleNotFoundError as error:
        exit_with_error(Failure(missing_package(name, error.name, "convert")))


for name, what in TOOLKITS.items():
    add_lazy_command(app, name, f"Read {what}.", partial(load_command, name))
for name, what in RUNTIMES.items():
    add_lazy_command(app, name, f"Write {what}.", partial(load_command, name))
add_lazy_command(app, "publish", "Publish a checkpoint on the Hugging Face Hub.", load_publish)


def main(arguments: Sequence[str] | None = None):
    run_app(app, "vaswani convert", arguments)


# The commands --------------------------------------------------------------------------------------------------------


def export_command(runtime: ModuleType) -> Callable[..., None]:
    """Returns the command of a runtime; its options are the parameters of the runtime's `export`."""

    def command(checkpoint: Checkpoint, out: Out, **options: Any):
        with quiet():
            check_new(out)
            runtime.export(checkpoint, out, **options)
            print(f"{out} is ready.")

    return with_options_of(runtime.export, command)


def convert_command(toolkit: ModuleType) -> Callable[..., None]:
    """Returns the command of a toolkit; its options are the parameters of the toolkit's `convert`."""

    def command(source: Source, out: Out, reference: Reference = None, unsafe: Unsafe = False, **options: Any):
        with quiet():
            convert(toolkit, source, out, reference, unsafe, options)

    return with_options_of(toolkit.convert, command)


def with_options_of(function: Callable[..., Any], command: Callable[..., None]) -> Callable[..., None]:
    """Replaces the `**options` of a command by those parameters of a function that the command does not have."""
    parameters = {parameter.name: parameter for parameter in annotated_parameters(command)}
    del parameters["options"]
    for parameter in annotated_parameters(function):
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:  # **given: Unpack[a TypedDict]
            [given] = get_args(parameter.annotation)
            for name, hint in get_type_hints(given, include_extras=True).items():
                parameters[name] = parameter.replace(
                    name=name, kind=inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint
                )
        else:
            parameters.setdefault(parameter.name, parameter)
    set_parameters(command, parameters.values())
    return command


def convert(
    toolkit: ModuleType, source: Path, out: Path, reference: Path | None, unsafe: bool, options: dict[str, Any]
):
    """Converts a checkpoint, compares it with the original, and writes it.

    Raises:
        ConversionError: it cannot be converted, or it differs from the original; then nothing is written.
    """
    from .hub.repository import write
    from .parity.scores import check_it_runs

    check_new(out)  # fail before the work, not after it
    converted = toolkit.convert(source, unsafe=unsafe, **options)
    for difference in converted.facts.get("tokenizer_differences", ()):
        print(f"Tokenizer: {difference}")
    model = converted.model()
    check_it_runs(model)
    checks = list(compare_with_original(toolkit, source, reference, converted, model))
    for check in checks:
        print(check)
    if failed := [str(check) for check in checks if not check.holds]:
        error = ConversionError.from_problems(
            "The converted model differs from the original; nothing was written", failed
        )
        raise ConversionError(f"{error} {converted.hint}".strip())
    if not checks:
        print("Not compared with the original: pass --reference, or install the toolkit. The card will say so.")
    write(converted, model, checks, out)
    if "word_alignments" in converted.facts:
        print(f"Word alignments: {converted.facts['word_alignments']}")
    print(f"{out} is ready.")


def compare_with_original(
    toolkit: ModuleType, source: Path, reference: Path | None, converted: Converted, model: PreTrainedModel
) -> Iterator[Parity]:
    """Compares with recorded outputs and, if it is installed, with the toolkit."""
    from .parity.recorded import compare_recorded

    recorded = (source if source.is_dir() else source.parent) / "reference.npz"
    if reference or recorded.is_file():
        yield compare_recorded(model, reference or recorded, tokens=converted.target_tokens)
    live = getattr(toolkit, "compare_live", None)
    if live is not None and (parity := live(source, converted, model)) is not None:
        yield parity


if __name__ == "__main__":
    main()
