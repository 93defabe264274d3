"""Every command on every kind of checkpoint: a table in the guide, made by running it.

A cell works, or refuses with one error message that says what to do; anything else, such as a traceback, is a fault.
After a change, `python tests/matrix.py` (in a clone, about ten minutes) writes the table into the guide again.
"""

import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from xml.etree import ElementTree

import docx
import pytest
from typer.testing import CliRunner


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent / "conversion")]

from hub_server import Hub
from stand_ins import argos, ask, capitals_of, ctranslate2, fairseq, fsmt, opus_mt, put

from vaswani_transformer import commands
from vaswani_transformer.explorer import server as explorer_server
from vaswani_transformer.serving import server as translation_server
from vaswani_transformer.serving import workers


GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "checkpoints.md"
BEGIN, END = "<!-- written by tests/matrix.py: begin -->\n", "<!-- written by tests/matrix.py: end -->\n"
OPUS, ROMANCE, WMT = "Helsinki-NLP/opus-mt-en-de", "Helsinki-NLP/opus-mt-en-ROMANCE", "facebook/wmt19-en-de"
SENTENCES = ["The house is small.", "Anna reads 12 books."]
GERMAN = {"The house is small.": "Das Haus ist klein.", "Anna reads 12 books.": "Anna liest 12 Bücher."}
# What a user should know about a first use, on standard error; every other warning is a fault.
NOTES = re.compile(
    "Looking for |Converting |Converted |note: .* has no calibration of its own|warning: .*: Texts are tokenized by "
    "Moses: the checkpoint does not record it"
)


class Refusal(Exception):
    """A command refused, with a message that says why."""


# Kinds of checkpoints -------------------------------------------------------------------------------------------------


@dataclass
class Kind:
    """A kind of checkpoint: its title in the table, and how to make one. All but the included one write capitals."""

    title: str
    make: Callable[[Hub, Path], str]  # returns the name for --checkpoint
    target: str = "de"

    def translation(self, text: str) -> str:
        return GERMAN[text] if self.title == "included" else capitals_of(text)


def included(hub: Hub, folder: Path) -> str:
    return "mini-en-de"


def converted(hub: Hub, folder: Path) -> str:
    run("convert", "hf-marian", opus_mt(folder / "opus-mt-en-de", capitals=True), folder / "converted")
    return str(folder / "converted")


def marian(hub: Hub, folder: Path) -> str:
    put(hub, OPUS, opus_mt(folder / "opus", capitals=True))
    return OPUS


def several_targets(hub: Hub, folder: Path) -> str:
    put(hub, ROMANCE, opus_mt(folder / "opus", (">>fra<<", ">>spa<<"), languages=("en", "roa"), capitals=True))
    return f"en-fr={ROMANCE}"


def fsmt_model(hub: Hub, folder: Path) -> str:
    put(hub, WMT, fsmt(folder / "fsmt", capitals=True))
    return WMT


def fairseq_archive(hub: Hub, folder: Path) -> str:
    model = fairseq(folder / "wmt16.en-de.transformer")
    with tarfile.open(folder / "wmt16.en-de.transformer.tar.bz2", "w:bz2") as archive:
        archive.add(model, model.name)
    return str(folder / "wmt16.en-de.transformer.tar.bz2")


def argos_package(hub: Hub, folder: Path) -> str:
    return str(argos(folder / "translate-en_de-1_9.argosmodel", opus_mt(folder / "opus", capitals=True)))


def ctranslate2_folder(hub: Hub, folder: Path) -> str:
    return str(ctranslate2(folder / "ct2-opus-mt-en-de", opus_mt(folder / "opus", capitals=True)))


KINDS = [
    Kind("included", included),
    Kind("converted folder", converted),
    Kind("MarianMT", marian),
    Kind("MarianMT, several targets", several_targets, "fr"),
    Kind("FSMT", fsmt_model),
    Kind("fairseq", fairseq_archive),
    Kind("Argos", argos_package),
    Kind("CTranslate2", ctranslate2_folder),
]


@contextmanager
def checkpoint(kind: Kind, folder: Path) -> Iterator["Use"]:
    """Yields a checkpoint of a kind, with a Hub of its own and an empty cache."""
    with pytest.MonkeyPatch.context() as patch, Hub() as hub:
        patch.setenv("VASWANI_CACHE", str(folder / "cache"))
        patch.setenv("COLUMNS", "400")  # so that messages in frames keep their words together
        ask(patch, hub.url, folder / "home")
        yield Use(kind, kind.make(hub, folder), folder, patch)
        hub.shutdown()


# Commands -------------------------------------------------------------------------------------------------------------


def run(*arguments: object) -> str:
    """Runs a command in this process; returns its output.

    Raises:
        Refusal: it failed with one error message.
        AssertionError: it failed in another way, or printed a warning.
    """
    result = CliRunner().invoke(commands.app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"a traceback of {arguments}") from result.exception
    messages = [line for line in result.stderr.splitlines() if line.strip() and not NOTES.match(line)]
    if result.exit_code:
        assert result.exit_code == 1 and [line.partition(": ")[0] for line in messages] == ["error"], result.stderr
        raise Refusal(messages[0].partition(": ")[2])
    assert not [line for line in messages if line.startswith("warning")], result.stderr
    return result.stdout


@dataclass
class Use:
    """A checkpoint and what its cells need. Each method from `plain` on is a row of the table."""

    kind: Kind
    name: str
    folder: Path
    patch: pytest.MonkeyPatch

    def translate(self, *arguments: object) -> list[str]:
        return run("translate", "--checkpoint", self.name, *arguments).splitlines()

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text, encoding="utf-8")
        return self.folder / name

    @cached_property
    def expected(self) -> list[str]:
        return [self.kind.translation(sentence) for sentence in SENTENCES]

    def plain(self):
        assert self.translate(*SENTENCES) == self.expected

    def n_best(self):
        rows = [line.split("\t") for line in self.translate("--n-best", 2, "--scores", SENTENCES[0])]
        assert [row[0] for row in rows] == ["1", "1"] and rows[0][2] == self.expected[0] != rows[1][2]
        assert float(rows[0][1]) > float(rows[1][1])

    def glossary(self):
        report, terms = self.folder / "terms.tsv", self.write("glossary.tsv", "house\tHEIM\n")
        [line] = self.translate("--glossary", terms, "--glossary-report", report, SENTENCES[0])
        assert "HEIM" in line
        assert report.read_text().splitlines()[1].split("\t")[:2] == ["house", "HEIM"]

    def alignments(self):
        [line] = self.translate("--alignments", SENTENCES[0])
        text, links = line.split("\t")
        assert text == self.expected[0] and {"0-0", "1-1", "2-2"} <= {*links.split()}

    def confidence(self):
        [line] = self.translate("--confidence", "--min-word-confidence", 0, SENTENCES[0])
        value, text = line.split("\t")
        assert text == self.expected[0] and 0.2 < float(value) <= 1

    def int8(self):
        assert self.translate("--dtype", "int8", *SENTENCES) == self.expected

    def document(self):
        document = docx.Document()
        document.add_heading(SENTENCES[0])
        document.add_paragraph(SENTENCES[1])
        document.save(str(self.folder / "report.docx"))
        self.translate(self.folder / "report.docx", "--output", self.folder / "report.de.docx")
        translated = docx.Document(str(self.folder / "report.de.docx"))
        assert [paragraph.text for paragraph in translated.paragraphs] == self.expected

    def processes(self):
        lines = self.write("lines.txt", "".join(f"{sentence}\n" for sentence in SENTENCES * 4))
        assert self.translate("--input", lines, "--processes", 2) == self.expected * 4

    def serve(self):
        from fastapi.testclient import TestClient

        answers = []

        def serve(app, listener, **settings):
            with TestClient(app, base_url="http://127.0.0.1:5000") as client:
                answers.append(client.get("/languages").json())
                request = {"q": SENTENCES[0], "source": "en", "target": self.kind.target}
                answers.append(client.post("/translate", json=request).json())

        self.patch.setattr(translation_server, "serve", serve)
        self.patch.setattr(workers, "ProcessWorker", InThisProcess)
        run("serve", "--checkpoint", self.name, "--port", 0, "--processes", 1)
        languages, answer = answers
        assert [(one["code"], one["targets"]) for one in languages] == [("en", [self.kind.target])]
        assert answer["translatedText"] == self.expected[0]

    def explore(self):
        from fastapi.testclient import TestClient

        def serve(app, listener):
            with TestClient(app, base_url="http://127.0.0.1:8017") as client:
                assert client.get("/api/checkpoints").json()["current"] == client.get("/api/model").json()["name"]
                assert client.get("/api/model/tensors").status_code == 200
                answer = client.post("/api/run", json={"text": SENTENCES[0]}).json()
                assert answer["target"]["text"] == self.expected[0]
                assert client.get(f"/api/run/{answer['id']}/tensors").status_code == 200
                for path in ("heads", "beyond"):
                    assert client.post(f"/api/{path}", json={"text": SENTENCES[0]}).status_code == 200

        self.patch.setattr(explorer_server, "serve", serve)
        run("explore", "--checkpoint", self.name, "--port", 0, "--no-browser")

    def explore_export(self):
        run("explore", "--checkpoint", self.name, "--export", self.folder / "page")
        assert (self.folder / "page" / "index.html").is_file()

    def attention(self):
        figure = self.folder / "attention.svg"
        kind = ("--stack", "decoder", "--kind", "cross")
        printed = run("attention", SENTENCES[0], "--checkpoint", self.name, "--output", figure, *kind)
        assert printed.splitlines() == [self.expected[0]] and ElementTree.parse(figure).getroot().tag.endswith("svg")

    def evaluate(self):
        source = self.write("test.en", "".join(f"{sentence}\n" for sentence in SENTENCES))
        reference = self.write("test.de", "".join(f"{sentence}\n" for sentence in self.expected))
        printed = run("evaluate", self.name, "--source", source, "--reference", reference, "--resamples", 0)
        assert re.search(r"sacreBLEU +100\.00", printed)

    def pairs(self, number: int) -> Path:
        words = "zero one two three four five six seven eight nine".split()
        sources = [f"Anna reads {words[i % 10]} {words[i // 10]} books." for i in range(number)]
        return self.write("pairs.tsv", "".join(f"{source}\t{capitals_of(source)}\n" for source in sources))

    def finetune(self):
        out = self.folder / "tuned"
        steps = ("--max-steps", 1, "--held-out", 2, "--batch-size", 4, "--learning-rate", 1e-9)
        run("finetune", self.pairs(12), "--checkpoint", self.name, "--output", out, *steps)
        assert run("translate", "--checkpoint", out, *SENTENCES).splitlines() == self.expected

    def calibrate(self):
        out = self.folder / "calibrated"
        run("calibrate", self.name, self.pairs(20), "--output", out)
        assert run("translate", "--checkpoint", out, SENTENCES[0]).splitlines() == self.expected[:1]

    def info(self):
        assert "parameters" in run("info", self.name)

    def publish(self):
        assert "Dry run: nothing was uploaded." in run("publish", self.name, "user/name")

    def to_ctranslate2(self):
        self.export("to-ctranslate2", "model.bin")

    def to_marian(self):
        self.export("to-marian", "model.safetensors")

    def to_onnx(self):
        self.export("to-onnx", "encoder_model.onnx")

    def export(self, runtime: str, file: str):
        run("convert", runtime, self.name, self.folder / runtime)
        assert (self.folder / runtime / file).is_file()


class InThisProcess:
    """The server's worker, without a process of its own."""

    def __init__(self, load: Callable, *arguments: object, **settings: object):
        self.pipelines = load(*arguments)

    def configs(self) -> dict:
        return {pair: pipeline.model.generation_config for pair, pipeline in self.pipelines.items()}

    def translate(self, pair, texts, settings) -> list:
        return self.pipelines[pair].translate(texts, **settings)

    def stop(self):
        pass

    def close(self):
        pass


# The table ------------------------------------------------------------------------------------------------------------

# Title, cell, and whether it takes long.
ROWS: dict[str, tuple[Callable[[Use], None], bool]] = {
    "`translate`": (Use.plain, False),
    "`translate --n-best`": (Use.n_best, False),
    "`translate --glossary`, with its report": (Use.glossary, False),
    "`translate --alignments`": (Use.alignments, False),
    "`translate --confidence`": (Use.confidence, False),
    "`translate --dtype int8`": (Use.int8, False),
    "`translate report.docx`": (Use.document, False),
    "`translate --processes 2`": (Use.processes, True),
    "`serve`": (Use.serve, False),
    "`explore`": (Use.explore, False),
    "`explore --export`": (Use.explore_export, False),
    "`attention`": (Use.attention, False),
    "`info`": (Use.info, False),
    "`evaluate`": (Use.evaluate, False),
    "`calibrate --output`": (Use.calibrate, True),
    "`finetune`": (Use.finetune, True),
    "`convert to-ctranslate2`": (Use.to_ctranslate2, False),
    "`convert to-marian`": (Use.to_marian, False),
    "`convert to-onnx`": (Use.to_onnx, True),
    "`publish` (dry run)": (Use.publish, False),
}


def fill(kind: Kind, folder: Path, slow: bool | None = None) -> dict[str, str]:
    """Returns the cells of a column by the titles of their rows: "" if it works, or why it is refused.

    `slow` selects cells that take long or the others; None selects all.
    """
    cells = {}
    with checkpoint(kind, folder) as use:
        for title, (cell, is_slow) in ROWS.items():
            if slow in (None, is_slow):
                try:
                    cell(use)
                    cells[title] = ""
                except Refusal as refusal:
                    cells[title] = general(str(refusal), use)
    return cells


def general(message: str, use: Use) -> str:
    """Returns a message without the name of the test's checkpoint, and without a list of details."""
    short = Path(use.name).name
    for name in (use.name, use.name.rpartition("=")[2], f"{short}-fra", short):
        message = message.replace(name, "NAME")
    return re.sub(r": .*?\. (?=[A-Z])", ": ... ", message, count=1)


def table(columns: dict[str, dict[str, str]]) -> str:
    """Returns the table of the cells by kind and row, in Markdown, with the refusals below it."""
    cells = (columns[kind][title] for title in ROWS for kind in columns)
    reasons = list(dict.fromkeys(cell for cell in cells if cell))
    lines = [["", *columns], ["---"] * (1 + len(columns))]
    for title in ROWS:
        cells = [columns[kind][title] for kind in columns]
        lines.append([title, *("yes" if not cell else f"no ({reasons.index(cell) + 1})" for cell in cells)])
    rows = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return rows + "\n" + "".join(f"{number}. {reason}\n" for number, reason in enumerate(reasons, 1))


def recorded() -> dict[str, dict[str, str]]:
    """Returns the cells of the table in the guide, by kind and row."""
    text = GUIDE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    reasons = {match[1]: match[2] for match in re.finditer(r"^(\d+)\. (.+)$", text, re.MULTILINE)}
    _, *kinds = rows[0]
    return {
        kind: {row[0]: reasons.get(row[column].strip("no ()"), "") for row in rows[2:]}
        for column, kind in enumerate(kinds, 1)
    }


def main():
    columns = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            columns[kind.title] = fill(kind, Path(folder))
        print(kind.title, columns[kind.title])
    write(columns)


def write(columns: dict[str, dict[str, str]]):
    """Writes the table into the guide."""
    before, _, rest = GUIDE.read_text(encoding="utf-8").partition(BEGIN)
    GUIDE.write_text(f"{before}{BEGIN}\n{table(columns)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
