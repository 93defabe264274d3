"""Models with several target languages: a token such as `>>fra<<` before the source chooses one.

For one of them, the cache gets a checkpoint whose tokenizer writes this token before each source. Everything else is
that of the model: the weights are the same file, so that this costs little space. All that takes a checkpoint then
takes it like one for a single pair of languages, and no text ever contains the token.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import cache, catalogue
from .languages import is_language, match_code, short_code
from .system.files import read_json, write_json


TOKEN = re.compile(r">>([A-Za-z]{2,3}(?:[-_]\w+)*)<<")
REWRITTEN = "tokenizer.json", "tokenizer_config.json", "target_tokenizer.json", "about.json", cache.CACHED


def target_codes(folder: Path) -> list[str]:
    """Returns the codes of a model's target languages, as the model writes them; [] if no token chooses among them."""
    if not (folder / "conversion.json").is_file() or is_for_one_language(folder):
        return []
    try:
        tokens = [token["content"] for token in read_json(folder / "tokenizer.json")["added_tokens"]]
    except (OSError, ValueError, TypeError, LookupError):
        return []
    codes = [match[1] for token in tokens if (match := TOKEN.fullmatch(token))]
    return codes if len(codes) > 1 else []


def is_for_one_language(folder: Path) -> bool:
    try:
        return "target" in read_json(folder / cache.CACHED)
    except (OSError, ValueError, TypeError):
        return False


def for_target(folder: Path, target: str | None, name: str) -> Path:
    """Returns the checkpoint for one of a model's target languages; the folder itself if it does not choose by a token.

    Args:
        folder: A converted checkpoint.
        target: A language code, such as "fr", "fra", "pt-BR" or "zh-Hant".
        name: The name of the checkpoint for messages.

    Raises:
        ValueError: the model does not have the language, or it has several and `target` is None; the message lists
            them.
    """
    codes = target_codes(folder)
    if not codes:
        return folder
    listed = ", ".join(short_or_own(codes))
    if target is None:
        raise ValueError(
            f"{name} translates into several languages: {listed}. Choose one: --to {short_or_own(codes)[0]}, or where "
            f"there is no --to, write the languages before the name, as in en-{short_code(codes[0])}={name}"
        )
    try:
        code = match_code(target, codes)
    except LookupError as error:
        raise ValueError(
            f"{name} has several codes for {target}: {', '.join(error.args)}. Choose one of them."
        ) from None
    if code is None:
        raise ValueError(f"{name} does not translate into {target!r}. It has {listed}.")
    return cache.keep(
        f"{key_of(folder)}--{code}",
        lambda out: ("", write(folder, out, code)),
        {"name": catalogue.display_name(str(folder))},
    )


def short_or_own(codes: Sequence[str]) -> list[str]:
    """Returns ISO 639-1 codes for plain codes, and codes with a script or region as they are."""
    return list(dict.fromkeys(short_code(code) if is_language(code) else code for code in codes))


def key_of(folder: Path) -> str:
    if folder.parent == cache.cache_folder() / "checkpoints":
        return folder.name
    version = cache.digest(folder, folder.glob("*"))
    return cache.Original(str(folder), version, lambda _: ("", folder)).key


def write(folder: Path, out: Path, code: str) -> dict[str, Any]:
    """Fills `out` with the checkpoint for one language; returns fields for its record."""
    for file in folder.iterdir():
        if file.is_file() and file.name not in REWRITTEN:
            link_or_copy(file, out / file.name)
    write_tokenizer(folder, out, f">>{code}<<")
    about = read_json(folder / "about.json") if (folder / "about.json").is_file() else {}
    facts = read_json(folder / "conversion.json").get("facts") or {}
    parameters = read_json(folder / cache.CACHED).get("parameters", 0) if (folder / cache.CACHED).is_file() else 0
    defaults = {
        "name": catalogue.display_name(str(folder)).rpartition("/")[2],
        "source_language": facts.get("source_language") or "",
        "parameters": parameters,
        "bytes": cache.size(folder),
        "licence": facts.get("licence") or "",
    }
    about = {**defaults, **about, "target_language": short_code(code)}
    write_json(out / "about.json", {**about, "name": f"{about['name']}-{code}"})  # two languages are two names
    return {"target": code, "parameters": parameters}


def link_or_copy(file: Path, target: Path):
    """Makes `target` the same file, or a copy where the file system has no links."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def write_tokenizer(folder: Path, out: Path, token: str):
    """Writes a tokenizer that begins each source with `token`; targets are encoded as before."""
    original = folder / "tokenizer.json"
    content = json.loads(original.read_text(encoding="utf-8"))
    number = next(added["id"] for added in content["added_tokens"] if added["content"] == token)
    template = content["post_processor"]
    template["special_tokens"][token] = {"id": token, "ids": [number], "tokens": [token]}
    for side, names in (("single", "A"), ("pair", "AB")):
        template[side] = [part for piece in template[side] for part in with_token(piece, token, names)]
    write_json(out / "tokenizer.json", content)
    # Without a tokenizer for targets, sources and targets would begin alike.
    target = folder / "target_tokenizer.json"
    shutil.copyfile(target if target.is_file() else original, out / "target_tokenizer.json")
    settings = read_json(folder / "tokenizer_config.json")
    write_json(out / "tokenizer_config.json", {**settings, "tokenizer_class": "VaswaniTokenizer"})


def with_token(piece: dict[str, Any], token: str, names: str) -> list[dict[str, Any]]:
    """Returns a piece of a template, with the token before it if it is a text."""
    text = piece.get("Sequence")
    if not text or text["id"] not in names:
        return [piece]
    return [{"SpecialToken": {"id": token, "type_id": text["type_id"]}}, piece]
