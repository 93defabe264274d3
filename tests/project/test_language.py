"""The language of the project: names that say what they hold, and no phrase that readers stumble over."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
FOLDERS = ["vaswani_transformer", "training", "conversion", "experiments", "benchmarks", "docs"]
CODE = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PROSE = {".md", ".html", ".js", ".toml", ".yaml", ".yml"}
TEXTS = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in PROSE]
TEXTS += [path for path in ROOT.iterdir() if path.suffix in PROSE]
TEXTS += sorted((ROOT / "model_cards").rglob("*.md"))

# They say where a value comes from instead of what it is.
VAGUE_NAMES = {"of", "found", "one", "own", "others", "some", "kept", "theirs", "mine"}
VAGUE_PREFIXES = ("MOST_", "LEAST_", "LONGEST_", "SHORTEST_")  # MAX_ and MIN_

PHRASES = re.compile(
    r"\b(?:is no [a-z]+"
    r"|goes on|anew|one's own|looked at|it is said|as many as may|is at hand)\b",
    re.IGNORECASE,
)

# Settings are changed by options and by the Python API, not by editing a model's files.
EDIT_JSON = re.compile(r"\b(?:edit|set|add|correct|change|write|put)\b[^.]{0,60}(?:config|about)\.json", re.IGNORECASE)


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the line and the name of all variables, attributes, parameters, functions and classes that are defined."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name) | ast.alias(asname=str(name)):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name


def vague_names(code: str) -> list[tuple[int, str]]:
    names = bound_names(ast.parse(code))
    return [(line, name) for line, name in names if name in VAGUE_NAMES or name.startswith(VAGUE_PREFIXES)]


def banned_phrases(text: str) -> list[str]:
    """Phrases may be broken over lines of prose, comments and adjacent strings."""
    whole = re.sub(r'["\']?\s*\n\s*(?:# |// |f?["\'])?', " ", text)
    return PHRASES.findall(re.sub(r"\s+", " ", whole))


def messages(code: str) -> Iterator[str]:
    """Yields the strings in the code, apart from docstrings."""
    tree = ast.parse(code)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_say_what_they_hold(folder):
    paths = [path for path in CODE if path.is_relative_to(ROOT / folder)]
    vague = [(path, *name) for path in paths for name in vague_names(path.read_text(encoding="utf-8"))]
    assert [f"{path.relative_to(ROOT)}:{line}: {name}" for path, line, name in vague] == []


QUOTED = re.compile(r"^\| \d+\.\d \|.*$", re.M)  # samples in model cards: chrF, then sentences of test sets


@pytest.mark.parametrize("folder", [*FOLDERS, "model_cards", "."])
def test_texts_and_code_have_none_of_the_banned_phrases(folder):
    """When a phrase on the list is right, rewrite the sentence anyway: there is always another."""
    paths = [p for p in [*CODE, *TEXTS] if folder in (p.relative_to(ROOT).parts[0], "." if p.parent == ROOT else None)]
    used = {path: banned_phrases(QUOTED.sub("", path.read_text(encoding="utf-8"))) for path in paths}
    assert [f"{path.relative_to(ROOT)}: {phrase}" for path, phrases in used.items() for phrase in phrases] == []


@pytest.mark.parametrize(
    "code",
    [
        "of = 1",
        "for one in rows: pass",
        "self.own = 1",
        "def of(cls): pass",
        "lambda kept: 1",
        "MOST_TOKENS = 2",
        "def f(*, some): pass",
        "[a for a, *others in rows]",
        "if found := 1: pass",
        "import a as theirs",
        "with a as mine: pass",
        "match a:\n    case [*kept]: pass",
    ],
)
def test_every_way_to_define_a_name_is_seen(code):
    assert len(vague_names(code)) == 1


def test_other_names_pass():
    assert vague_names("offset = founder = ones = MAX_TOKENS = most_likely = own(of=theirs)") == []


@pytest.mark.parametrize(
    "text",
    [
        "It is no Word document",
        "There is no\nfile.",
        "is no\n    # checkpoint",
        'f"{a} is no "\n        f"folder"',
        "training goes on",
        "written anew.",
        "ONE'S OWN memory",
        "It is said that",
        "each is looked at",
        "as many as may wait",
    ],
)
def test_phrases_are_seen(text):
    assert len(banned_phrases(text)) == 1


@pytest.mark.parametrize("text", ["It is nothing.", "It is not a folder."])
def test_good_sentences_pass(text):
    assert banned_phrases(text) == []


@pytest.mark.parametrize("folder", ["vaswani_transformer", "training", "conversion"])
def test_no_message_asks_to_edit_the_files_of_a_model(folder):
    paths = [path for path in CODE if path.is_relative_to(ROOT / folder)]
    texts = [(path, text) for path in paths for text in messages(path.read_text(encoding="utf-8"))]
    assert [f"{path.relative_to(ROOT)}: {text}" for path, text in texts if EDIT_JSON.search(text)] == []


def test_advice_to_edit_files_is_seen():
    code = '''raise ValueError(f"{a} is 0. Correct it in " "generation_config.json")\n"""Write config.json."""'''
    advice = [text for text in messages(code) if EDIT_JSON.search(text)]
    assert "... is 0. Correct it in generation_config.json" in advice and not any("Write" in text for text in advice)
