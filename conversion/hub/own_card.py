"""The card (README.md) of a model that was trained here or with transformers' Trainer, from its record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vaswani_transformer.cards import card_metadata, render_card

from ..files.text import read_json_object
from ..options import ConversionError
from .card import START, count_parameters, describe_search, read_scores


TEMPLATE = Path(__file__).with_name("own_card.md")
TRAINER_FILES = ("trainer_state.json", "training_args.bin")


class Record(NamedTuple):
    """What a card says about a training."""

    origin: str  # continues "a Transformer with N parameters, "
    facts: dict[str, Any]
    scores: list[dict[str, Any]]  # each with "dataset", "metric", "value" and "signature"
    languages: tuple[str | None, str | None] = (None, None)
    licence: str | None = None


def own_card(folder: Path, name: str, languages: Sequence[str] = (), licence: str | None = None) -> str:
    """Returns the text of README.md for a trained or fine-tuned checkpoint.

    `languages` (source, target) and `licence` take the place of those in the record.

    Raises:
        ConversionError: a record, config.json or the weights are damaged.
    """
    from vaswani_transformer import VaswaniConfig  # imports torch, which --help does not need

    record = read_record(folder)
    known = [language for language in languages or record.languages if language]
    licence = licence or record.licence
    scores = read_scores(folder) or record.scores
    return render_card(
        card_metadata(name, known, licence or "unknown"),
        template=TEMPLATE,
        title=name,
        origin=record.origin,
        languages=" → ".join(known) or "not recorded",
        licence=licence or "not recorded",
        facts={key: value for key, value in record.facts.items() if value not in (None, "", [])},
        scores=scores,
        start=START,
        config=VaswaniConfig.from_pretrained(folder),
        search=describe_search(read_json_object(folder / "generation_config.json")),
        parameters=sum(count_parameters(file) for file in sorted(folder.glob("model*.safetensors"))),
    )


def has_record(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("fine_tuning.json", "training.json", *TRAINER_FILES))


def read_record(folder: Path) -> Record:
    """Reads the record of the last training.

    Raises:
        ConversionError: it is damaged.
    """
    readers = {"fine_tuning.json": fine_tuning, "training.json": training, "trainer_state.json": trainer}
    for name, reader in readers.items():
        if (folder / name).is_file():
            try:
                return reader(read_json_object(folder / name), folder)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise ConversionError(f"{folder / name} is not a record of a training: {error!r}.") from None
    return Record("trained with transformers", {}, [])


def training(record: dict, folder: Path) -> Record:
    """The record of `vaswani train`."""
    recipe = record["recipe"]
    sources = [source.get("name") or source.get("dataset") or source.get("path") for source in recipe["data"]["train"]]
    facts = {
        "recipe": recipe["name"],
        "data": ", ".join(Path(str(source)).name for source in sources if source),
        "sentence pairs": record.get("training_pairs"),
        "initialised from": Path(recipe.get("initial") or "").name,
        "steps": record["steps"],
        "hours": round(record["hours"], 2),
        "device": record.get("device"),
        "notice": recipe.get("notice"),
    }
    scores = [
        {"dataset": Path(name).name, "metric": "bits per character", "value": value, "signature": ""}
        for name, value in (record.get("validation") or {}).items()
    ]
    languages = recipe.get("source_language"), recipe.get("target_language")
    return Record("trained with `vaswani train`", facts, scores, languages, recipe.get("licence"))


def fine_tuning(record: dict, folder: Path) -> Record:
    """The record of `vaswani finetune`."""
    about = read_json_object(folder / "about.json") if (folder / "about.json").is_file() else {}
    pairs, options = record["pairs"], record["options"]
    facts = {
        "translations": Path(options["memory"]).name,
        "sentence pairs": pairs["training"],
        "trained weights": record["trained_weights"],
        "minutes": record["minutes"],
    }
    scores = [
        {"dataset": f"{name} ({pairs['held_out']} pairs)" if name == "held out" else name, "metric": metric}
        | {"value": figures["after"], "signature": figures["signature"]}
        for name, gains in record["gains"].items()
        for metric, figures in gains.items()
        if "signature" in figures
    ]
    origin = f"fine-tuned from {Path(record['checkpoint']).name} with `vaswani finetune`"
    languages = about.get("source_language"), about.get("target_language")
    return Record(origin, facts, scores, languages, about.get("licence"))


def trainer(record: dict, folder: Path) -> Record:
    """The state of transformers' Trainer."""
    losses = [entry for entry in record["log_history"] if "loss" in entry]
    facts = {
        "steps": record["global_step"],
        "epochs": round(record["epoch"] or 0, 2),
        "last training loss": losses[-1]["loss"] if losses else None,
    }
    evaluations = [entry for entry in record["log_history"] if "eval_loss" in entry]
    hidden = ("runtime", "per_second", "steps")  # about the machine
    scores = [
        {"dataset": "evaluation set", "metric": name.removeprefix("eval_"), "value": value, "signature": ""}
        for name, value in (evaluations[-1] if evaluations else {}).items()
        if name.startswith("eval_") and isinstance(value, int | float) and not name.endswith(hidden)
    ]
    return Record("trained with transformers' Trainer", facts, scores)
