"""Turn a finished run into a checkpoint for release, step by step.

python -m training.release weights RUN CHECKPOINT                 # half-precision weights, tokenizer, curves
python -m training.release shortlist CHECKPOINT --recipe RECIPE --data DATA --output CHECKPOINT          # optional
vaswani evaluate CHECKPOINT --recipe RECIPE --data DATA --output FACTS/scores.json
python -m training.release growth RUN FACTS --limited-by "..."    # how the scores grew
python -m training.release confidence CHECKPOINT NAME=FILE --output FACTS --write
python -m training.release card CHECKPOINT FACTS                  # README.md and about.json, from all of these
"""

import argparse
import re
import shutil
from pathlib import Path

# The names of 99 languages, from a library that is a dependency anyway.
from transformers.models.whisper.tokenization_whisper import LANGUAGES

from vaswani_transformer.cards import HUB_ID, card_metadata, render_card
from vaswani_transformer.system.command_line import describe_program
from vaswani_transformer.system.console import exit_with_error
from vaswani_transformer.system.files import read_json, write_json

from . import confidence, shortlist
from .curve import curve_from_growth, curve_from_log, growth_from_log
from .files import atomic_file, atomic_folder
from .recipe import describe, named_sources, source_title
from .scores import CHRF, SACREBLEU


CURVES, CURVE = "curves.png", "curve.json"


def release_weights(run: Path, checkpoint: Path, average_with: Path | None = None, share: float = 0.5):
    """Write the run's averaged model to `checkpoint`, in half precision; it loads as float32.

    `average_with` is the checkpoint that the run started from. It gets this `share` of a weighted mean, which is often
    better than either model (Izmailov et al. 2018, arXiv 1803.05407).

    Raises:
        ValueError: The run is not finished, the two models differ in their tensors, or the share is not from 0 to 1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"--share must be from 0 to 1, not {share:g}.")
    if not (run / "model" / "config.json").is_file():
        raise ValueError(f"{run} is not a finished run: {run / 'model'} is missing.")
    import torch
    from transformers import AutoTokenizer

    from vaswani_transformer import VaswaniForConditionalGeneration
    from vaswani_transformer.remote_code import remove_code

    from .average import check_tensors, load_weights
    from .checkpoint import checkpoints, step_of
    from .data import remove_padding

    facts = read_json(run / "model" / "training.json")
    finished, saved = facts.get("steps"), checkpoints(run)
    if finished and saved and step_of(saved[-1]) > finished:
        raise ValueError(
            f"{run / 'model'} is from step {finished:,}, but training reached {step_of(saved[-1]):,}. "
            "Rerun the training command to finish and rewrite the model."
        )
    model = VaswaniForConditionalGeneration.from_pretrained(run / "model")
    if average_with is not None:
        new, initial = load_weights(run / "model"), load_weights(average_with)
        check_tensors(average_with, initial, new)
        mean = {name: torch.lerp(tensor.float(), initial[name].float(), share) for name, tensor in new.items()}
        model.load_state_dict(mean, strict=False)
        facts["averaged_with"] = {"name": read_json(average_with / "training.json")["recipe"]["name"], "share": share}
        facts.pop("validation", None)  # it was measured before averaging
    start = facts.get("recipe", {}).get("initial")
    if start and facts.get("earlier") and Path(start).is_dir():
        facts["recipe"]["initial"] = facts["earlier"][-1]["name"]  # a local folder means nothing on other machines
    with atomic_folder(checkpoint) as folder:
        model.to(torch.float16).save_pretrained(folder)
        remove_code(folder)  # the package contains it, and publishing adds it
        settings = read_json(folder / "config.json")
        settings["dtype"] = "float32"  # half precision only saves disk space; its matrix products are slow on CPUs
        write_json(folder / "config.json", settings)
        if average_with and (head := read_json(average_with / "generation_config.json").get("alignment_head")):
            generation = read_json(folder / "generation_config.json")
            write_json(folder / "generation_config.json", generation | {"alignment_head": head})  # the run has none
        tokenizer = AutoTokenizer.from_pretrained(run / "model", trust_remote_code=False)
        remove_padding(tokenizer)
        tokenizer.save_pretrained(folder)
        write_json(folder / "training.json", facts)
        if (run / CURVES).exists():
            shutil.copy(run / CURVES, folder)
        if (run / "log.jsonl").exists():
            write_json(folder / CURVE, curve_from_log(run / "log.jsonl"), indent=None)


def write_card(checkpoint: Path, facts: Path):
    """Write README.md and about.json of a checkpoint from what training and evaluation recorded.

    The folder `facts` has scores.json (from `vaswani evaluate`) and optionally growth.json (see `read_growth`) and
    limits.md, a text about what the checkpoint is bad at. published.json, in its parent folder, has the scores that
    others publish.

    Raises:
        FileNotFoundError: A record is missing.
        ValueError: The data restrict the use of the weights but the notice does not say so, or growth.json is invalid.
    """
    from vaswani_transformer import VaswaniForConditionalGeneration

    training = read_json(checkpoint / "training.json")
    scores = read_json(facts / "scores.json")
    growth = read_growth(facts / "growth.json")
    limits = facts / "limits.md"
    recipe = training["recipe"]
    sources = named_sources(recipe, training.get("earlier", []))
    check_notice(recipe["notice"], sources)
    if growth and not (checkpoint / CURVE).exists():  # the run's log was not kept
        write_json(checkpoint / CURVE, curve_from_growth(growth["runs"]), indent=None)
    model = VaswaniForConditionalGeneration.from_pretrained(checkpoint, device_map="meta")
    parameters = sum(p.numel() for p in model.parameters())
    # Without the two files written here, whose sizes would change with this figure.
    size = sum(file.stat().st_size for file in checkpoint.iterdir() if file.name not in ("README.md", "about.json"))
    results = scores["results"]
    metrics = dict.fromkeys(name for result in results for name, value in result.items() if is_score(value))

    languages = recipe["source_language"], recipe["target_language"]
    source_language, target_language = (LANGUAGES.get(code, code).title() for code in languages)
    in_wheel = "-nc-" not in recipe["licence"]
    sample = results[0]["samples"][-1]["source"]
    text = render_card(
        card_metadata(
            recipe["name"],
            languages,
            recipe["licence"],
            metrics=["sacrebleu", "chrf"],
            scores=[{"dataset": r["dataset"], "metric": SACREBLEU, "value": r[SACREBLEU]["value"]} for r in results],
        ),
        title=f"{recipe['name']}: {source_language} to {target_language}",
        source_language=source_language,
        target_language=target_language,
        notice=recipe["notice"],
        checkpoint=recipe["name"] if in_wheel else f'"{HUB_ID}"',
        example=sample.replace("\\", "\\\\").replace('"', '\\"'),
        tokenizer=True,
        training=training,
        recipe=recipe,
        earlier_sources=sources[len(recipe["data"]["train"]) :],
        scores=scores,
        signatures={name: next(r[name]["signature"] for r in results if name in r) for name in metrics},
        confidence=any("confidence_95" in r[name] for r in results for name in metrics if name in r),
        hardware=hardware(training),
        growth=growth,
        published=published_beside(results, recipe, facts.parent / "published.json"),
        curves=CURVES if (checkpoint / CURVES).exists() else "",
        limits=limits.read_text(encoding="utf-8").strip() if limits.is_file() else "",
        parameters=parameters,
        size=size,
        config=model.config,
        source_title=source_title,
        figure=figure,
    )
    scored = [{"dataset": r["dataset"], "metric": metric, **r[metric]} for r in results for metric in (SACREBLEU, CHRF)]
    write_json(checkpoint / "about.json", {**describe(training, parameters, size), "scores": scored})
    with atomic_file(checkpoint / "README.md") as file:
        file.write_text(text, encoding="utf-8")


def write_growth(run: Path, facts: Path, limited_by: str):
    """Write growth.json from the run's log and a sentence about what limited the run; see `read_growth`."""
    growth = {"runs": growth_from_log(run / "log.jsonl"), "limited_by": limited_by}
    write_json(facts / "growth.json", growth)


def published_beside(results: list[dict], recipe: dict, path: Path) -> dict | None:
    """Return a table of our sacreBLEU and published scores, or None if none are published on these sets."""
    published = read_json(path) if path.is_file() else {"sacreBLEU": {}}
    by_set = published["sacreBLEU"].get(f"{recipe['source_language']}-{recipe['target_language']}", {})
    rows = [
        {"dataset": result["dataset"], "ours": result[SACREBLEU]["value"], "others": systems}
        for result in results
        for dataset, systems in by_set.items()
        if result["dataset"].startswith(dataset)
    ]
    names = [name for name in published.get("sources", ()) if any(name in row["others"] for row in rows)]
    return {"rows": rows, "names": names, "sources": published["sources"]} if rows else None


def hardware(training: dict) -> str:
    processes, threads = training["processes"], training["threads"]
    return (
        f"{training['device']}, {processes} process{'es' if processes > 1 else ''} "
        f"of {threads} thread{'s' if threads > 1 else ''}"
    )


def is_score(value: object) -> bool:
    return isinstance(value, dict) and "signature" in value


def check_notice(notice: str, sources: list[dict[str, str]]):
    """Check that the notice names restrictions of the data to non-commercial use.

    Raises:
        ValueError: It does not.
    """
    restricted = [
        source["name"]
        for source in sources
        if re.search(r"non-?commercial|research|\bnc\b", source["licence"], re.IGNORECASE)
    ]
    if restricted and not re.search("non-?commercial", notice, re.IGNORECASE):
        raise ValueError(
            "These sources are for non-commercial use only, and the recipe's notice must say so: "
            f"{', '.join(dict.fromkeys(restricted))}."
        )


RUN_FACTS = {"what": str, "parameters": int, "pairs": int, "steps": int, "hours": float, "scores": dict}


def read_growth(path: Path) -> dict | None:
    """Read growth.json, which tells how the scores grew with data, size and steps; None if the file does not exist.

    {"runs": [{"what": "half the data", "steps": 3000, "hours": 1.0, "scores": {"sacreBLEU, Multi30k": 30.1}}, ...],
    "limited_by": "..."}. A run may also have "parameters" and training "pairs"; each name in "scores" is a column.

    Raises:
        ValueError: The file has another structure; the message names every problem.
    """
    if not path.is_file():
        return None
    growth = read_json(path)
    problems = [f"{key!r} is missing" for key in ("runs", "limited_by") if not growth.get(key)]
    problems += [f"{key!r} is unknown" for key in growth if key not in ("runs", "limited_by")]
    for number, run in enumerate(growth.get("runs", []), start=1):
        problems += [f"run {number}: {key!r} is missing" for key in ("what", "scores") if not run.get(key)]
        problems += [f"run {number}: {key!r} is unknown" for key in run if key not in RUN_FACTS]
        wrong = [key for key, kind in RUN_FACTS.items() if key in run and not fits(run[key], kind)]
        wrong += [key for key, value in dict(run.get("scores") or {}).items() if not fits(value, float)]
        problems += [f"run {number}: {key!r} has a value of the wrong type" for key in wrong]
    if problems:
        raise ValueError(f"{path}: {'; '.join(problems)}.")
    runs = growth["runs"]
    return {
        "facts": [key for key in RUN_FACTS if key not in ("what", "scores") and any(key in run for run in runs)],
        "scores": list(dict.fromkeys(name for run in runs for name in run["scores"])),
        **growth,
    }


def fits(value: object, kind: type) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float) if kind is float else kind)


def figure(value: object) -> str:
    """Format a number, or a score with its confidence interval; "" for None."""
    if isinstance(value, dict):
        confidence = f" ± {value['confidence_95']:.2f}" if "confidence_95" in value else ""
        return f"{value['value']:.2f}{confidence}"
    return f"{value:,}" if isinstance(value, int | float) else ""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        **describe_program(__spec__, __doc__), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    weights = steps.add_parser("weights", help="RUN/model -> CHECKPOINT")
    weights.add_argument("run", metavar="RUN", type=Path, help="a finished run")
    weights.add_argument("checkpoint", metavar="CHECKPOINT", type=Path, help="folder to write")
    weights.add_argument(
        "--average-with",
        type=Path,
        metavar="CHECKPOINT",
        help="average with the checkpoint that the run started from",
    )
    weights.add_argument(
        "--share", type=float, default=0.5, help="weight of that checkpoint in the mean (default: %(default)s)"
    )
    growth = steps.add_parser("growth", help="RUN/log.jsonl -> FACTS/growth.json")
    growth.add_argument("run", metavar="RUN", type=Path, help="a finished run")
    growth.add_argument("facts", metavar="FACTS", type=Path, help="folder for growth.json")
    growth.add_argument("--limited-by", required=True, metavar="TEXT", help="why the scores stopped growing")
    card = steps.add_parser("card", help="recorded facts -> README.md and about.json")
    card.add_argument("checkpoint", metavar="CHECKPOINT", type=Path, help="folder of the released weights")
    card.add_argument("facts", metavar="FACTS", type=Path, help="folder with scores.json, growth.json and limits.md")
    as_written = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    confidence.add_options(
        steps.add_parser(
            "confidence",
            help="pairs -> FACTS/confidence.json, and the calibration in the checkpoint",
            description=confidence.__doc__,
            **as_written,
        )
    )
    shortlist.add_options(
        steps.add_parser(
            "shortlist", help="pairs -> shortlist.safetensors", description=shortlist.__doc__, **as_written
        )
    )
    return parser


def run_step(options: argparse.Namespace):
    """Run the step that the command line names."""
    match options.step:
        case "weights":
            release_weights(options.run, options.checkpoint, options.average_with, options.share)
        case "growth":
            write_growth(options.run, options.facts, options.limited_by)
        case "card":
            write_card(options.checkpoint, options.facts)
        case "confidence":
            confidence.run(options)
        case "shortlist":
            shortlist.run(options)


def main(arguments: list[str] | None = None):
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        run_step(options)
    except (OSError, ValueError) as error:
        exit_with_error(error)


if __name__ == "__main__":
    main()
