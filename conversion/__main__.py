"""Converts checkpoints from other toolkits to ours, and ours to other runtimes.

vaswani convert TOOLKIT SOURCE OUT           import a checkpoint from another toolkit
vaswani convert to-RUNTIME CHECKPOINT OUT    export a checkpoint to another runtime
vaswani publish FOLDER user/name             publish a checkpoint on the Hugging Face Hub
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vaswani_transformer.system.command_line import stop

from .files.folders import check_new
from .hub.publish import add_command as add_publish
from .options import ConversionError


if TYPE_CHECKING:  # imported lazily: torch and transformers take seconds to import
    from transformers import PreTrainedModel

    from .converted import Converted
    from .parity.scores import Parity

# What each command reads or writes. Its module in toolkits/ or runtimes/ has the same name.
TOOLKITS = {
    "fairseq": "a .pt file of fairseq 0.6 to 0.12, with dict.*.txt and codes",
    "marian": "a model.npz of Marian, with its vocabularies",
    "hf-marian": "a MarianMTModel of transformers, such as Helsinki-NLP's",
    "fsmt": "an FSMT model of transformers",
    "opennmt": "a .pt file of OpenNMT-py 2 or 3",
    "joeynmt": "a .ckpt file of JoeyNMT, with its config.yaml",
    "tensor2tensor": "a TensorFlow checkpoint of tensor2tensor, with hparams.json and vocabulary",
    "torch": "a state dict of torch.nn.Transformer, with a description.json",
    "annotated": "a state dict of the Annotated Transformer, with a description.json",
}
RUNTIMES = {
    "to-ctranslate2": "a model for CTranslate2's Translator, in float32 or quantised",
    "to-marian": "a MarianMTModel of transformers",
    "to-onnx": "encoder and decoders for onnxruntime, with optimum's names",
}


def module(command: str):
    """Imports the module of a command. Some need packages of the extra `convert`."""
    folder = "runtimes" if command in RUNTIMES else "toolkits"
    try:
        return importlib.import_module(f".{folder}.{command.removeprefix('to-').replace('-', '_')}", __package__)
    except ModuleNotFoundError as error:
        sys.exit(f"{command} needs {error.name}, which is not installed: pip install -e '.[convert]'")


def export(arguments: argparse.Namespace, options: dict[str, Any]):
    check_new(arguments.out)
    module(arguments.toolkit).export(arguments.checkpoint, arguments.out, **options)
    print(f"{arguments.out} is ready.")


def convert(arguments: argparse.Namespace, options: dict[str, Any]):
    from .hub.repository import write
    from .parity.scores import check_it_runs

    check_new(arguments.out)  # fail before the work, not after it
    toolkit = module(arguments.toolkit)
    converted = toolkit.convert(arguments.source, unsafe=arguments.unsafe, **options)
    for difference in converted.facts.get("tokenizer_differences", ()):
        print(f"Tokenizer: {difference}")
    model = converted.model()
    check_it_runs(model)
    checks = list(compare_with_original(toolkit, arguments, converted, model))
    for check in checks:
        print(check)
    if failed := [str(check) for check in checks if not check.holds]:
        error = ConversionError.from_problems(
            "The converted model differs from the original; nothing was written", failed
        )
        raise ConversionError(f"{error} {converted.hint}".strip())
    if not checks:
        print("Not compared with the original: pass --reference, or install the toolkit. The card will say so.")
    write(converted, model, checks, arguments.out)
    print(f"{arguments.out} is ready.")


def compare_with_original(
    toolkit: ModuleType, arguments: argparse.Namespace, converted: Converted, model: PreTrainedModel
) -> Iterator[Parity]:
    """Compares with recorded outputs and, if it is installed, with the toolkit."""
    from .parity.recorded import compare_recorded

    folder = arguments.source if arguments.source.is_dir() else arguments.source.parent
    if arguments.reference or (folder / "reference.npz").is_file():
        yield compare_recorded(model, arguments.reference or folder / "reference.npz", tokens=converted.target_tokens)
    live = getattr(toolkit, "compare_live", None)
    if live is not None and (parity := live(arguments.source, converted, model)) is not None:
        yield parity


def add_toolkit(commands, name: str, what: str):
    command = commands.add_parser(name, help=what, description=f"Reads {what}.")
    command.add_argument("source", type=Path, metavar="SOURCE", help="the checkpoint's file or folder")
    command.add_argument("out", type=Path, metavar="OUT", help="a new folder")
    command.add_argument("--reference", type=Path, metavar="FILE.npz", help="logits computed by the toolkit")
    command.add_argument(
        "--unsafe", action="store_true", help="load pickles that can run code; only for files you trust"
    )
    command.set_defaults(run=convert, parser=command)


def add_runtime(commands, name: str, what: str):
    command = commands.add_parser(name, help=what, description=f"Writes {what}.")
    command.add_argument("checkpoint", metavar="CHECKPOINT", help="an included checkpoint, a folder or a Hub id")
    command.add_argument("out", type=Path, metavar="OUT", help="a new folder")
    command.set_defaults(run=export, parser=command)


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser(
        prog="vaswani convert", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="toolkit", required=True, metavar="TOOLKIT")
    for name, what in TOOLKITS.items():
        add_toolkit(commands, name, what)
    for name, what in RUNTIMES.items():
        add_runtime(commands, name, what)
    add_publish(commands)
    arguments = sys.argv[1:] if arguments is None else arguments
    name = next(iter(arguments), "-")
    if not name.startswith("-") and name not in commands.choices:
        close = get_close_matches(name, commands.choices, 1)
        hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(commands.choices)}"
        parser.error(f"unknown toolkit or command: {name!r}; {hint}")
    option_names = add_module_options(commands, name)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        parsed.parser.error(f"unknown options: {' '.join(unknown)}")
    options = (
        [{name: getattr(parsed, name) for name in option_names}] if parsed.toolkit in (*TOOLKITS, *RUNTIMES) else []
    )
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        parsed.run(parsed, *options)
    except (OSError, ConversionError) as error:
        stop(parsed.parser, error)


def add_module_options(commands, name: str) -> list[str]:
    """Adds the options of a command's module and returns their names. No other module is imported."""
    if name not in (*TOOLKITS, *RUNTIMES):
        return []
    source, command = module(name), commands.choices[name]
    # A module's docstring describes its input, including the fields of description.json.
    command.epilog, command.formatter_class = source.__doc__, argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(add_help=False)
    getattr(source, "add_arguments", lambda _: None)(options)
    names = list(vars(options.parse_args([])))
    getattr(source, "add_arguments", lambda _: None)(command)
    return names


if __name__ == "__main__":
    main()
