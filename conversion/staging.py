"""Makes a checkpoint's folder into what a model repository of the Hugging Face Hub holds, in a folder."""

import re
import shutil
from fnmatch import fnmatch
from pathlib import Path

import torch
import yaml
from huggingface_hub import EvalResultEntry, ModelCard, eval_result_entries_to_yaml
from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from safetensors import SafetensorError, safe_open
from transformers.dynamic_module_utils import get_relative_imports

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration, catalogue
from vaswani_transformer.files import whole_folder

from .card import HUB_ID, card_of, read_json, read_scores
from .core import ConversionError


WEIGHTS = ("model*.safetensors", "model.safetensors.index.json")
# What a repository holds; nothing else of a folder is sent.
PUBLISHED = (
    *WEIGHTS, "README.md", "LICENSE*", "NOTICE*", "config.json", "generation_config.json", "*.py",
    "*tokenizer*", "*vocab*", "special_tokens_map.json", "added_tokens.json", "merges.txt", "*.spm", "*.model", "*.bpe",
    "about.json", "conversion.json", "scores.json", "training.json", ".eval_results/*.yaml",
)  # fmt: skip
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
STAGED = "-staged"
# Of what we publish, the Hub keeps these outside of git (its .gitattributes); the last word is the Hub's.
LARGE_KINDS, LARGE = (".safetensors", ".model"), 10_000_000
# Test sets that are data sets of the Hub; scores on others are in the card alone.
DATASETS = {"multi30k test_2016_flickr": "bentrevett/multi30k", "newstest2014": "wmt/wmt14"}

SAVE_IT = "model.save_pretrained(FOLDER), with vaswani_transformer imported, writes configuration, code and weights"


def stage(folder: Path, repo_id: str, out: Path) -> list[str]:
    """Makes the folder `out` hold what the repository `repo_id` will; one called NAME-staged may be there already.

    Returns:
        What whoever publishes it should know.

    Raises:
        ConversionError: something that a repository needs is missing or wrong (the message names all of it), or `out`
            holds what no repository does.
    """
    check(folder)
    files = {path for path in folder.rglob("*") if path.is_file() and is_published(path.relative_to(folder))}
    if leading_out := sorted(path.name for path in files if not is_inside(folder, path)):
        raise ConversionError.of(f"{folder} has links to files outside of it, which would be sent", leading_out)
    check_stage(folder, out)
    made = not (folder / "README.md").is_file()
    name = repo_id.partition("/")[2]
    try:
        card = card_of(folder, name) if made else (folder / "README.md").read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConversionError(f"{folder / 'README.md'} is no text in UTF-8.") from None
    card = card.replace(HUB_ID, repo_id)
    notes = check_card(card)
    results, left = eval_result_files(folder)
    with whole_folder(out) as repository:
        for path in files:
            target = repository / path.relative_to(folder)
            target.parent.mkdir(exist_ok=True)
            shutil.copy(path, target)
        (repository / "README.md").write_text(card, encoding="utf-8")
        for name, text in results.items():
            (repository / ".eval_results").mkdir(exist_ok=True)
            (repository / ".eval_results" / name).write_text(text, encoding="utf-8")
    if left:
        notes.append(f"In the card only, as no data set of the Hub is known for them: scores on {', '.join(left)}.")
    if not (folder / "tokenizer_config.json").is_file():
        notes.append("There is no tokenizer: AutoTokenizer and pipeline will not work with this repository.")
    others = sorted(path.name for path in folder.iterdir() if path.is_file() and path not in files)
    if others:
        notes.append(f"Not sent: {', '.join(others)}.")
    return notes


def is_published(path: Path) -> bool:
    return any(fnmatch(path.as_posix(), pattern) for pattern in PUBLISHED if pattern.count("/") == len(path.parts) - 1)


def is_inside(folder: Path, path: Path) -> bool:
    """Whether a file of `folder` is no link that leads out; in the cache of the Hub files are links to `blobs`."""
    root, target = folder.resolve(), path.resolve()
    cached = root.parent.name == "snapshots" and target.parent == root.parent.parent / "blobs"
    return cached or target.is_relative_to(root)


def is_weights(name: str) -> bool:
    return "/" not in name and any(fnmatch(name, pattern) for pattern in WEIGHTS)


def check_stage(folder: Path, out: Path):
    """Raises:
    ConversionError: making `out` anew would lose something.
    """
    if out.resolve() in (folder.resolve(), *folder.resolve().parents) or folder.resolve() in out.resolve().parents:
        raise ConversionError(f"--stage {out}: name a folder outside of {folder}.")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir() or not out.name.endswith(STAGED):
        raise ConversionError(f"--stage {out} is no empty folder; only one whose name ends in {STAGED} is made anew.")
    foreign = [p.name for p in out.rglob("*") if p.is_file() and not is_published(p.relative_to(out))]
    if foreign:
        raise ConversionError(f"--stage {out} would be made anew, but it holds {foreign[0]}: name another folder.")


def check(folder: Path):
    """Raises:
    ConversionError: `folder` cannot become a repository; the message says all that is missing or wrong.
    """
    if not folder.is_dir():
        raise ConversionError(f"There is no folder {folder}.")
    problems = []
    config = check_config(folder, problems)
    if not (folder / "generation_config.json").is_file():
        problems.append("generation_config.json is missing")
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLED)
    if pickled:
        problems.append(f"{', '.join(pickled)}: pickled, so that loading it can run code; remove it")
    check_weights(folder, config, problems)
    if not (folder / "README.md").is_file() and not (folder / "conversion.json").is_file():
        problems.append("README.md is missing, and there is no conversion.json to make it of")
    if problems:
        raise ConversionError.of(f"{folder} cannot be published", [*problems, SAVE_IT], 99)


def check_config(folder: Path, problems: list[str]) -> VaswaniConfig | None:
    """The configuration, if there is one; what is wrong with it, and with the code that it names, joins `problems`."""
    try:
        settings = read_json(folder / "config.json")
        classes, pipelines = (settings.get(name) or {} for name in ("auto_map", "custom_pipelines"))
        translation = pipelines.get("translation") or {}
        named = {**classes, "pipeline": translation.get("impl")}
        if strange := [name for name in named.values() if name is not None and not isinstance(name, str)]:
            raise TypeError(f"{strange[0]!r} is no name of a class")
        if settings.get("model_type") != VaswaniConfig.model_type:
            problems.append(f"config.json is of a {settings.get('model_type')!r} model: convert it first")
            return None
        config = VaswaniConfig.from_pretrained(folder)
    except ConversionError as error:
        problems.append("config.json is missing" if "There is no" in str(error) else str(error).rstrip("."))
        return None
    except Exception as error:  # each field has a check of its own, with its own kind of error
        problems.append(f"config.json: {' '.join(str(error).split())}")
        return None
    wanted = {
        "auto_map: AutoConfig": "AutoConfig",
        "auto_map: AutoModelForSeq2SeqLM": "AutoModelForSeq2SeqLM",
        "custom_pipelines: translation": "pipeline",
    }
    if lacking := [what for what, key in wanted.items() if not named.get(key)]:
        problems.append(f"config.json lacks {', '.join(lacking)}")
    references = [*named.values(), *tokenizer_code(folder, problems)]
    try:
        if missing := missing_code(folder, [reference.partition(".")[0] for reference in references if reference]):
            problems.append(f"code is missing: {', '.join(missing)}")
    except UnicodeDecodeError:
        problems.append("code (*.py) is no text in UTF-8")
    return config


def tokenizer_code(folder: Path, problems: list[str]) -> list[str | None]:
    """The tokenizer's classes that come as code, such as "tokenization_vaswani.VaswaniTokenizer"; most have none."""
    if not (folder / "tokenizer_config.json").is_file():
        return []
    try:
        named = (read_json(folder / "tokenizer_config.json").get("auto_map") or {}).get("AutoTokenizer") or []
    except ConversionError as error:
        problems.append(str(error).rstrip("."))
        return []
    return [named] if isinstance(named, str) else list(named)


def missing_code(folder: Path, modules: list[str]) -> list[str]:
    """The files of the modules, and of those that they import from beside them, that are not there."""
    seen, missing = set(), []
    while modules:
        name = modules.pop()
        if name not in seen:
            seen.add(name)
            file = folder / f"{name}.py"
            if file.is_file():
                modules += get_relative_imports(file)
            else:
                missing.append(file.name)
    return sorted(missing)


def check_weights(folder: Path, config: VaswaniConfig | None, problems: list[str]):
    """What is wrong with the names and shapes in model*.safetensors joins `problems`. Only headers are read."""
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        problems.append("model.safetensors is missing")
        return
    shapes = {}
    for file in files:
        try:
            with safe_open(file, framework="numpy") as tensors:
                shapes |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}
        except (SafetensorError, OSError) as error:
            problems.append(f"{file.name} is damaged ({error})")
            return
    if config is None:
        return
    with torch.device("meta"):
        model = VaswaniForConditionalGeneration(config)
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    missing = [name for name in expected if name not in shapes and name not in model.all_tied_weights_keys]
    wrong = [name for name in expected if name in shapes and shapes[name] != expected[name]]
    extra = [name for name in shapes if name not in expected]
    found = {
        "lacks": missing,
        "has another shape than config.json says for": wrong,
        "holds what config.json has no place for:": extra,
    }
    for what, names in found.items():
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            problems.append(f"model.safetensors {what} {names[0]}{more}")


def check_card(text: str) -> list[str]:
    """What is missing in it but not needed.

    Raises:
        ConversionError: its metadata cannot be read, or do not say what the model is for.
    """
    try:
        data = ModelCard(text, ignore_metadata_errors=False).data
    except (ValueError, TypeError, yaml.YAMLError) as error:
        raise ConversionError(f"The metadata of README.md cannot be read: {' '.join(str(error).split())}") from None
    wanted = {"library_name": "transformers", "pipeline_tag": "translation"}
    if wrong := [f"{key}: {value}" for key, value in wanted.items() if data.get(key) != value]:
        raise ConversionError(f"The metadata of README.md (between the --- at its top) lack {', '.join(wrong)}.")
    notes = []
    if data.get("license") in (None, "unknown"):
        notes.append("The card names no licence: write it into README.md (license: ...) if you know it.")
    if not data.get("language"):
        notes.append("The card names no languages: write them into README.md (language: [en, de]).")
    return notes


def eval_result_files(folder: Path) -> tuple[dict[str, str], list[str]]:
    """The files of .eval_results by name, one for each score, and the test sets that are no data sets of the Hub."""
    try:
        about = catalogue.read_about(folder)
    except ValueError as error:
        raise ConversionError(str(error)) from None
    task = f"{about.source_language}-{about.target_language}" if about else "translation"
    files, left = {}, []
    for score in read_scores(folder):
        dataset = next((hub for name, hub in DATASETS.items() if name in score["dataset"].lower()), None)
        if dataset is None:
            left.append(score["dataset"])
            continue
        notes = f"{score['metric']}, {score['dataset']}: {score['signature']}"
        entry = EvalResultEntry(dataset_id=dataset, task_id=task, value=score["value"], notes=notes)
        name = re.sub(r"[\W_]+", "-", f"{score['dataset']} {score['metric']}".lower())
        files[f"{name}.yaml"] = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, width=1000)
    return files, list(dict.fromkeys(left))


def staged_files(folder: Path) -> dict[str, Path]:
    """Path in the repository -> file."""
    return {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}


def show(folder: Path):
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("File", overflow="fold")
    table.add_column("Size", justify="right")
    table.add_column("Sent as")
    files = staged_files(folder)
    for name, path in files.items():
        size = path.stat().st_size
        large = path.suffix in LARGE_KINDS or size > LARGE
        table.add_row(name, decimal(size), "LFS" if large else "regular")
    Console().print(table)
    print(f"{len(files)} files, {decimal(sum(path.stat().st_size for path in files.values()))} in {folder}")
