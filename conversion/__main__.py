"""Checkpoints of other toolkits in, ours out to runtimes.

python -m conversion TOOLKIT SOURCE OUT: a checkpoint of another toolkit as a folder for AutoModelForSeq2SeqLM.
python -m conversion to-RUNTIME CHECKPOINT OUT: a checkpoint of ours as a folder for another runtime.
python -m conversion publish FOLDER user/name: such a folder as a repository of the Hugging Face Hub.
"""

import argparse
import importlib
import sys
from pathlib import Path

from transformers.utils import logging

from .core import ConversionError
from .publish import add_command as add_publish
from .verify import check_it_runs, compare_recorded
from .writing import check_new, write


# Command, module, and what it reads.
TOOLKITS = {
    "fairseq": "a .pt of fairseq 0.6 to 0.12, with dict.*.txt and codes",
    "marian": "Marian's own model.npz, with its vocabularies",
    "hf-marian": "a repository of transformers' MarianMTModel, such as Helsinki-NLP's",
    "fsmt": "a repository of transformers' FSMT",
    "opennmt": "a .pt of OpenNMT-py 2 and 3",
    "joeynmt": "a .ckpt of JoeyNMT, with its config.yaml",
    "tensor2tensor": "a TensorFlow checkpoint of tensor2tensor, with hparams.json and vocabulary",
    "torch": "a state dict of torch.nn.Transformer, with a description.json",
    "annotated": "a state dict of the Annotated Transformer, with a description.json",
}

# Command, and what it writes; the modules are called to_*.
EXPORTERS = {
    "to-ctranslate2": "a model for CTranslate2's Translator, in float32 or quantised",
    "to-marian": "a MarianMTModel of transformers",
    "to-onnx": "encoder and decoders for onnxruntime, named as optimum names them",
}


def module(command: str):
    name = command if command in EXPORTERS else f"from_{command}"
    try:
        return importlib.import_module(f".{name.replace('-', '_')}", __package__)
    except ModuleNotFoundError as error:
        sys.exit(f"{command} needs {error.name}, which is not installed: pip install -e '.[convert]'")


def add_own_arguments(command: argparse.ArgumentParser, name: str):
    """The options of a command's own module, which is imported only where that command was asked for."""
    before = {action.dest for action in command._actions}
    if name in sys.argv[1:2]:
        own = module(name)
        # What it reads, and the fields of a description.json, stand at the head of a converter.
        command.epilog, command.formatter_class = own.__doc__, argparse.RawDescriptionHelpFormatter
        getattr(own, "add_arguments", lambda _: None)(command)
    command.set_defaults(own=[action.dest for action in command._actions if action.dest not in before])


def export(arguments: argparse.Namespace):
    check_new(arguments.out)
    options = {name: getattr(arguments, name) for name in arguments.own}
    module(arguments.toolkit).export(arguments.checkpoint, arguments.out, **options)
    print(f"{arguments.out} is ready.")


def convert(arguments: argparse.Namespace):
    check_new(arguments.out)  # before the work
    options = {name: getattr(arguments, name) for name in arguments.own}
    converted = module(arguments.toolkit).convert(arguments.source, unsafe=arguments.unsafe, **options)
    for difference in converted.facts.get("tokenizer_differences", ()):
        print(f"The tokenizer differs from the source's: {difference}")
    model = converted.model()
    check_it_runs(model)
    checks = []
    beside = (arguments.source if arguments.source.is_dir() else arguments.source.parent) / "reference.npz"
    if arguments.reference or beside.is_file():
        checks.append(compare_recorded(model, arguments.reference or beside, tokens=converted.target_tokens))
    live = getattr(module(arguments.toolkit), "compare_live", None)
    if live is not None and (parity := live(arguments.source, converted, model)) is not None:
        checks.append(parity)
    for check in checks:
        print(check)
    if failed := [check for check in checks if not check.holds]:
        raise ConversionError.of("The converted model is not the same; nothing was written", map(str, failed))
    if not checks:
        print("Nothing to compare with: give --reference, or install the toolkit. The card will say so.")
    write(converted, model, checks, arguments.out)
    print(f"{arguments.out} is ready.")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m conversion", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="toolkit", required=True, metavar="TOOLKIT")
    for name, what in TOOLKITS.items():
        command = commands.add_parser(name, help=what, description=f"Reads {what}.")
        command.add_argument("source", type=Path, metavar="SOURCE")
        command.add_argument("out", type=Path, metavar="OUT", help="a new folder")
        command.add_argument("--reference", type=Path, metavar="FILE.npz", help="logits that the toolkit itself gave")
        command.add_argument("--unsafe", action="store_true", help="run what a pickled file asks to be run")
        add_own_arguments(command, name)
        command.set_defaults(run=convert)
    for name, what in EXPORTERS.items():
        command = commands.add_parser(name, help=what, description=f"Writes {what}.")
        command.add_argument("checkpoint", metavar="CHECKPOINT", help="a folder, a shipped name or a Hub id")
        command.add_argument("out", type=Path, metavar="OUT", help="a new folder")
        add_own_arguments(command, name)
        command.set_defaults(run=export)
    add_publish(commands)
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        arguments.run(arguments)
    except (OSError, ConversionError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
