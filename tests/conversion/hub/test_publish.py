"""Publishing: what is staged and said, and the way to a Hub and back with the real client.

The Hub is `hub_server.Hub`. The client reads where its Hub is when it is imported, so it works in other processes.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
import yaml
from hub_server import READ, WRITE, Hub
from huggingface_hub import EvalResultEntry, ModelCard
from huggingface_hub._eval_results import parse_eval_result_entries
from markdown_it import MarkdownIt
from tiny_checkpoint import PAIRS, tiny_checkpoint
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from conversion.converted import Converted
from conversion.files.folders import check_new
from conversion.hub import publish
from conversion.hub.card import HUB_ID, card_of
from conversion.hub.repository import write
from conversion.options import ConversionError
from conversion.parity.scores import Parity
from conversion.runtimes.exports import load
from vaswani_transformer import catalogue, checkpoint_path


ROOT = Path(__file__).parents[3]
SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())
CHECK = Parity("fairseq 0.12.2", 8, 1152, 2.4e-6, True, 24, 24)
FACTS = {"files": {"model.pt": "ab" * 32}, "arch": "transformer_tiny", "trained_by": "a | b"}


def converted_folder(out: Path, checks=(CHECK,), tokenizer=True, negated=False) -> Path:
    """What a conversion writes, of the model that knows `PAIRS`; or of one that is as far from it as can be."""
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_checkpoint(), dtype=torch.float32)
    if negated:
        model.get_input_embeddings().weight.data.neg_()
    converted = Converted(
        toolkit="fairseq",
        config=model.config,
        weights=model.state_dict(),
        generation=model.generation_config,
        tokenizer=AutoTokenizer.from_pretrained(tiny_checkpoint()) if tokenizer else None,
        facts=FACTS,
    )
    write(converted, model, checks, out)
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return converted_folder(tmp_path_factory.mktemp("converted") / "tiny")


@pytest.fixture
def copy(folder, tmp_path):
    """Of the folder, to be changed."""
    return shutil.copytree(folder, tmp_path / "copy")


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# The card ------------------------------------------------------------------------------------------------------------


def test_card_of_a_checked_conversion_shows_the_figures(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    data = ModelCard(text).data.to_dict()
    assert (data["library_name"], data["pipeline_tag"]) == ("transformers", "translation")
    assert "converted-from-fairseq" in data["tags"]
    assert "| fairseq 0.12.2 | 8 | 1,152 | 2.4e-06 (allowed: 1e-04) | the same | 24 of 24 the same |" in text
    assert "Not checked" not in text
    for said in (
        "ab" * 32, "transformer_tiny", "a \\| b", "1 encoder (post-norm), 2 decoder", "| 300 tokens |",
        "one matrix for source, target and softmax", "| beam 4, ranked by log P / ((5 + length) / 6)^0.6 |",
    ):  # fmt: skip
        assert said in text
    sections = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert sections == [
        "Model Details", "Uses", "Bias, Risks, and Limitations", "How to Get Started", "Training Details",
        "Evaluation", "Environmental Impact", "Technical Specifications", "Citation",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"num_beams": 1, "length_penalty": 1.0}, "| greedy |"),
        ({"num_beams": 6, "length_penalty": 1.0, "length_penalty_offset": 0}, "| beam 6, ranked by log P / length^1 |"),
    ],
)
def test_card_says_how_it_searches(copy, settings, words):
    (copy / "generation_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert words in card_of(copy, "tiny")


def test_card_is_not_made_of_settings_that_are_no_numbers(copy):
    (copy / "generation_config.json").write_text('{"num_beams": 4, "length_penalty": "x"}', encoding="utf-8")
    with pytest.raises(ConversionError, match="not numbers: length_penalty"):
        card_of(copy, "tiny")


def test_card_of_two_vocabularies_and_moses(copy):
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config |= {"share_embeddings": "none", "tie_word_embeddings": False, "decoder_vocab_size": 90, "decoder_d_ff": 65}
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (copy / "tokenizer_config.json").write_text(json.dumps({"moses_source": "en"}), encoding="utf-8")
    text = card_of(copy, "tiny")
    for said in ("300 (encoder), 90 (decoder) tokens", "64 (encoder), 65 (decoder)", "three matrices"):
        assert said in text
    assert "pip install vaswani-transformer sacremoses\n" in text


def test_card_of_an_unchecked_conversion_says_so(tmp_path):
    text = (converted_folder(tmp_path / "out", checks=(), tokenizer=False) / "README.md").read_text(encoding="utf-8")
    assert "**Not checked.**" in text
    assert "It was not compared with the original." in text
    assert "the same" not in text
    assert "vaswani translate" not in text, "there is no tokenizer to translate with"


def test_card_shows_scores_and_languages_that_are_recorded(copy):
    record = json.loads((copy / "conversion.json").read_text(encoding="utf-8"))
    record["facts"] |= {"source_language": "en", "target_language": "de", "licence": "cc-by-4.0"}
    record["facts"]["tokenizer_differences"] = ["Case is lost.", "[sic]"]
    (copy / "conversion.json").write_text(json.dumps(record), encoding="utf-8")
    score = {"value": 27.31, "signature": "nrefs:1|tok:13a"}
    results = [{"dataset": "newstest2014", "sentences": 3003, "sacreBLEU": score, "samples": []}]
    (copy / "scores.json").write_text(json.dumps({"results": results}), encoding="utf-8")
    text = card_of(copy, "tiny")
    data = ModelCard(text).data.to_dict()
    assert (data["language"], data["license"]) == (["en", "de"], "cc-by-4.0")
    assert "| licence | cc-by-4.0 (the original's" in text
    assert "| tokenizer | the original's, but: Case is lost. \\[sic\\] |" in text
    assert data["model-index"][0]["results"][0]["metrics"][0]["value"] == 27.31
    page = MarkdownIt().enable("table").render(text)
    cells = ("newstest2014", "sacreBLEU", "27.31", "<code>nrefs:1|tok:13a</code>")
    assert "\n".join(f"<td>{cell}</td>" for cell in cells) in page


# What is staged ------------------------------------------------------------------------------------------------------


def test_stage_holds_what_was_converted_and_names_the_repository(copy, tmp_path):
    (copy / "optimizer.txt").write_text("not for others")
    (copy / ".git").mkdir()
    (copy / ".git" / "config.json").write_text("{}")
    notes = publish.stage(copy, "ada/tiny-en-de", tmp_path / "tiny-staged")
    staged, before = contents(tmp_path / "tiny-staged"), contents(copy)
    assert before.keys() - staged.keys() == {"optimizer.txt", ".git/config.json"}
    assert "Not sent: optimizer.txt." in notes
    for name, content in staged.items():
        if name != "README.md":
            assert content == before[name]
    config = json.loads(staged["config.json"])
    assert config["auto_map"]["AutoModelForSeq2SeqLM"] and config["custom_pipelines"]["translation"]
    card = staged["README.md"].decode()
    assert 'pipeline("translation", model="ada/tiny-en-de", trust_remote_code=True)' in card
    assert HUB_ID not in card
    publish.stage(copy, "ada/tiny-en-de", tmp_path / "tiny-staged")
    assert contents(tmp_path / "tiny-staged") == staged


def test_a_card_that_its_author_changed_is_kept_and_one_that_is_gone_is_made_anew(copy, tmp_path):
    card = copy / "README.md"
    original = card.read_text(encoding="utf-8")
    card.write_text(original.replace("license: unknown", "license: mit") + "\nMine.\n", encoding="utf-8")
    notes = publish.stage(copy, "ada/copy", tmp_path / "tiny-staged")
    assert (tmp_path / "tiny-staged" / "README.md").read_text(encoding="utf-8").endswith("\nMine.\n")
    assert not any("licence" in note for note in notes)
    card.unlink()
    notes = publish.stage(copy, "ada/tiny", tmp_path / "tiny-staged")
    assert (tmp_path / "tiny-staged" / "README.md").read_text(encoding="utf-8") == original.replace(HUB_ID, "ada/tiny")
    assert any("licence" in note for note in notes)


@pytest.mark.parametrize("about", catalogue.shipped(), ids=lambda about: about.name)
def test_checkpoints_that_ship_are_staged_with_their_cards_and_scores(about, tmp_path):
    publish.stage(Path(checkpoint_path(about.name)), f"ada/{about.name}", tmp_path / "out")
    card = (about.path / "README.md").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == card.replace(HUB_ID, f"ada/{about.name}")
    entries: list[EvalResultEntry] = []
    for file in (tmp_path / "out" / ".eval_results").iterdir():
        entries += parse_eval_result_entries(yaml.safe_load(file.read_text(encoding="utf-8")))
    recorded = {score["value"] for score in about.scores if "Multi30k" in score["dataset"]}
    assert recorded <= {entry.value for entry in entries}
    assert all(
        entry.notes.partition(",")[0] in ("sacreBLEU", "chrF") and "version:" in entry.notes for entry in entries
    )
    assert {entry.task_id for entry in entries} == {f"{about.source_language}-{about.target_language}"}


def test_all_that_a_folder_lacks_is_said_at_once(copy, tmp_path):
    for name in ("README.md", "conversion.json", "generation_config.json", "model.safetensors"):
        (copy / name).unlink()
    (copy / "pytorch_model.bin").write_bytes(b"\x80")
    with pytest.raises(ConversionError) as refused:
        publish.stage(copy, "ada/copy", tmp_path / "out")
    for problem in (
        "README.md is missing", "generation_config.json is missing", "model.safetensors is missing",
        "pytorch_model.bin: pickles",
    ):  # fmt: skip
        assert problem in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name, content, problem",
    [
        ("config.json", None, "config.json is missing"),
        ("config.json", "{", "config.json is not JSON"),
        ("tokenizer_config.json", "[]", "tokenizer_config.json is not a JSON object"),
        ("about.json", "[]", "does not describe a checkpoint|is not a JSON object"),
        ("about.json", '{"scores": [{"value": 1}]}', "does not describe a checkpoint|does not hold scores"),
        ("scores.json", "{}", "does not hold scores"),
        ("config.json", '{"model_type": "marian"}', "config.json is of a 'marian' model: convert it first"),
        ("config.json", '{"model_type": "vaswani", "d_model": -1}', "config.json: "),
        ("model.safetensors", "gone", "model.safetensors is damaged"),
        ("README.md", b"\xff", "README.md is not UTF-8 text"),
        ("training_args.bin", "x", "training_args.bin: pickles"),
        ("README.md", "# No metadata\n", "lacks library_name: transformers, pipeline_tag: translation"),
        ("README.md", "---\na: [\n---\n", "The metadata of README.md cannot be read"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(copy, tmp_path, name, content, problem):
    (copy / name).unlink(missing_ok=True)
    if content is not None:
        (copy / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConversionError, match="(?s)" + problem):
        publish.stage(copy, "ada/copy", tmp_path / "out")


def test_a_tokenizer_with_code_and_two_vocabularies_is_sent_with_it(copy, tmp_path):
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    settings["auto_map"] = {"AutoTokenizer": [None, "tokenization_vaswani.VaswaniTokenizer"]}
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    (copy / "target_tokenizer.json").write_text("{}")
    (copy / "tokenization_vaswani.py").unlink(missing_ok=True)
    publish.stage(copy, "ada/copy", tmp_path / "out")
    assert contents(tmp_path / "out").keys() == contents(copy).keys() | {"tokenization_vaswani.py"}


def test_weights_of_another_model_are_refused(copy, tmp_path):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "d_ff": 128, "encoder_layers": 2}))
    with pytest.raises(ConversionError, match=r"lacks model\.encoder\.layers\.1\.\S+ and \d+ more\n.*another shape"):
        publish.stage(copy, "ada/copy", tmp_path / "out")
    (copy / "config.json").write_text(json.dumps({**config, "decoder_layers": 1}))
    with pytest.raises(
        ConversionError,
        match=r"contains tensors that config.json does not describe: model\.decoder\.layers\.1\.\S+ and \d+ more",
    ):
        publish.stage(copy, "ada/copy", tmp_path / "out")


def test_no_folder_is_replaced_that_holds_something_else(copy, tmp_path):
    for name, file in (("thesis-staged", "chapter.tex"), ("model", "model.safetensors")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("years of work")
    inside = (copy, copy / "tiny-staged", tmp_path, copy / "config.json")
    for out in (tmp_path / "thesis-staged", tmp_path / "model", *inside):
        with pytest.raises(ConversionError, match="--stage"):
            publish.stage(copy, "ada/copy", out)
    assert (tmp_path / "thesis-staged" / "chapter.tex").read_text() == "years of work"
    assert (tmp_path / "model" / "model.safetensors").read_text() == "years of work"


@pytest.mark.parametrize(
    "name", ["tiny", "a/b/c", "ada/", "/tiny", "ada/ti ny", "ada/ti--ny", "https://hub/ada/tiny", ""]
)
def test_what_is_no_name_of_a_repository(name):
    with pytest.raises(ConversionError, match="is not a repository name. It must be user/name"):
        publish.check_repo_id(name)


# There and back ------------------------------------------------------------------------------------------------------

# Runs what it is sent, one JSON line each, and answers with the exit status and all that was printed.
WORKER = """
import contextlib, io, json, os, sys, traceback
answers = sys.stdout
for line in sys.stdin:
    code, arguments, token = json.loads(line)
    os.environ["HF_TOKEN"] = token
    sys.argv, status = ["command", *arguments], 0
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            exec(code, {})
        except SystemExit as leave:
            status = leave.code or 0
        except BaseException:
            status = traceback.print_exc() or 1
    out.flush()
    print(json.dumps([status, out.buffer.getvalue().decode()]), file=answers, flush=True)
"""
PUBLISH = "from conversion.__main__ import main; main()"
VASWANI = "from vaswani_transformer.commands import app; app(prog_name='vaswani')"
TRANSLATE = """
import json, sys
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

repository, *sources = sys.argv[1:]
model = AutoModelForSeq2SeqLM.from_pretrained(repository, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(repository, trust_remote_code=True)
output = model.generate(**tokenizer(sources, padding=True, return_tensors="pt"))
translate = pipeline("translation", model=repository, trust_remote_code=True)
facts = [record["translation_text"] for record in translate(sources)], type(model).__module__
print(json.dumps([tokenizer.batch_decode(output, skip_special_tokens=True), *facts]))
"""
EXPORT = f"""
import json, sys
from pathlib import Path
from conversion.runtimes.exports import exported_folder, load
checkpoint, out = sys.argv[1:]
model, tokenizer = load(checkpoint)
with exported_folder(Path(out), checkpoint, "START", "torch"):
    output = model.generate(**tokenizer({SOURCES[:1]!r}, return_tensors="pt"))
print(json.dumps([*tokenizer.batch_decode(output, skip_special_tokens=True), (Path(out) / "README.md").is_file()]))
"""
WITHOUT_PACKAGE = f"""
import sys

sys.path += [{sysconfig.get_path("purelib")!r}]

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "vaswani_transformer":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""


@pytest.fixture(scope="module")
def hub():
    with Hub() as hub:
        yield hub
        hub.shutdown()


@pytest.fixture(autouse=True)
def quiet(request):
    """Each test sees its own requests only."""
    if "hub" in request.fixturenames:
        hub = request.getfixturevalue("hub")
        hub.log.clear()
        hub.faults.clear()
        hub.upload_mode = "lfs"


def environment(hub, home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    client = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    ours = {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    return {**kept, **client, **ours, **more}


@pytest.fixture(scope="module")
def client(hub, tmp_path_factory):
    """Runs code in one process that has imported the client for this Hub -> exit status and what it printed."""
    home = tmp_path_factory.mktemp("home")
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER], env=environment(hub, home), cwd=home,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
    )  # fmt: skip

    def run(code: str, *arguments: str | Path, token: str = WRITE) -> tuple[int, str]:
        process.stdin.write(json.dumps([code, list(map(str, arguments)), token]) + "\n")
        return tuple(json.loads(process.stdout.readline()))

    run.home = home
    yield run
    process.stdin.close()
    process.wait()


@pytest.fixture
def push(client):
    return lambda folder, repo, *options, **more: client(PUBLISH, "publish", folder, repo, "--push", *options, **more)


@pytest.fixture(scope="module")
def published(client, folder):
    status, said = client(PUBLISH, "publish", folder, "ada/tiny", "--push")
    assert status == 0, said
    return "ada/tiny"


def on_hub(hub, repo: str, branch: str = "main") -> dict[str, bytes]:
    return hub.repos[repo]["commits"][hub.repos[repo]["refs"][branch]]


@pytest.mark.parametrize("mode", ["lfs", "regular"])
def test_one_commit_holds_everything_and_the_same_again_is_none(hub, client, push, copy, mode):
    hub.upload_mode, repo = mode, f"ada/{mode}"
    hub.objects.clear()
    status, said = client(PUBLISH, "publish", copy, repo)
    assert (status, hub.log) == (0, []), "a dry run sends nothing"
    assert "model.safetensors" in said and "LFS" in said and "Nothing was sent" in said
    status, said = push(copy, repo)
    assert (status, said.splitlines()[-1].partition(" (")[0]) == (0, f"Published: {hub.url}/{repo}"), said
    staged = contents(client.home / f"{mode}-staged")
    assert on_hub(hub, repo) == {".gitattributes": on_hub(hub, repo)[".gitattributes"], **staged}
    assert len(hub.repos[repo]["commits"]) == 2
    assert len(hub.asked("PUT")) == (mode == "lfs")
    assert not hub.repos[repo]["private"]

    status, said = push(copy, repo)
    assert (status, said.splitlines()[-1].partition(":")[0]) == (0, "Nothing has changed"), said
    assert len(hub.repos[repo]["commits"]) == 2

    with (copy / "README.md").open("a") as card:
        card.write("\nMore.\n")
    assert push(copy, repo)[0] == 0
    assert on_hub(hub, repo)["README.md"].endswith(b"\nMore.\n")
    assert len(hub.repos[repo]["commits"]) == 3
    assert len(hub.asked("PUT")) == (mode == "lfs")


def test_private_branch_and_pull_request(hub, push, copy):
    assert push(copy, "ada/private", "--private")[0] == 0
    assert hub.repos["ada/private"]["private"]
    before = on_hub(hub, "ada/private")
    (copy / "README.md").write_text((copy / "README.md").read_text(encoding="utf-8") + "\nNew.\n", encoding="utf-8")
    assert push(copy, "ada/private", "--revision", "next")[0] == 0
    assert on_hub(hub, "ada/private", "next")["README.md"].endswith(b"\nNew.\n")
    status, said = push(copy, "ada/private", "--create-pr")
    assert (status, said.splitlines()[-1]) == (0, f"Pull request: {hub.url}/ada/private/discussions/2"), said
    assert on_hub(hub, "ada/private", "refs/pr/2") == on_hub(hub, "ada/private", "next")
    assert on_hub(hub, "ada/private") == before


def test_weights_of_other_names_do_not_stay_beside_the_new_ones(hub, push, folder):
    assert push(folder, "ada/sharded")[0] == 0
    shards = {"model-00001-of-00002.safetensors": b"1", "model.safetensors.index.json": b"{}", "thanks.txt": b"Ada"}
    hub.commit(hub.repos["ada/sharded"], "main", {**on_hub(hub, "ada/sharded"), **shards}, None)
    status, said = push(folder, "ada/sharded")
    assert status == 0, said
    assert on_hub(hub, "ada/sharded").keys() & shards.keys() == {"thanks.txt"}


def test_nothing_private_is_made_public(hub, push, copy, published):
    commits = len(hub.repos[published]["commits"])
    (copy / "README.md").write_text((copy / "README.md").read_text(encoding="utf-8") + "\nNew.\n", encoding="utf-8")
    status, said = push(copy, published, "--private")
    assert (status, "ada/tiny is public" in said) == (1, True), said
    assert len(hub.repos[published]["commits"]) == commits


@pytest.mark.parametrize(
    "options, token, words",
    [
        ([], "", ["No token for the Hub", "hf auth login", "HF_TOKEN", "settings/tokens"]),
        ([], "hf_expired", ["refused the token (401)", "hf auth login", "HF_TOKEN"]),
        ([], READ, ["(403)", "may not write to eve/tiny", "settings/tokens"]),
        (["--create-pr"], WRITE, ["sees no repository eve/tiny", "Without --create-pr it is created"]),
    ],
    ids=["no token", "an expired token", "a token that may only read", "no repository"],
)
def test_what_the_hub_refuses_is_one_line_that_says_what_to_do(hub, push, folder, options, token, words):
    status, said = push(folder, "eve/tiny", *options, token=token)
    assert status == 1
    assert "Traceback" not in said
    assert all(word in said.splitlines()[-1] for word in words), said
    assert "eve/tiny" not in hub.repos


def test_an_upload_that_is_cut_goes_on_and_one_that_ends_is_made_whole_by_the_next(hub, push, folder):
    hub.objects.clear()
    hub.faults += [("PUT", "cut"), ("POST .*/commit/", "cut")]
    status, said = push(folder, "ada/cut")
    assert (status, "Traceback" in said) == (1, False)
    assert "is unchanged" in said.splitlines()[-1] and "Repeat the command" in said.splitlines()[-1]
    assert on_hub(hub, "ada/cut").keys() == {".gitattributes"}
    assert len(hub.asked("PUT")) == 2 and not hub.faults
    assert push(folder, "ada/cut")[0] == 0
    assert on_hub(hub, "ada/cut").keys() > {"README.md", "model.safetensors"}
    assert len(hub.asked("PUT")) == 2, "what had arrived is not sent again"


DOWNLOAD = """
import sys
from huggingface_hub import constants, file_download, snapshot_download
constants.DOWNLOAD_CHUNK_SIZE = 4096  # or a file as small as these comes in one piece
print(snapshot_download(sys.argv[1], cache_dir=sys.argv[2]))
"""


def test_a_download_that_is_cut_goes_on_where_it_was_and_one_that_ends_keeps_its_files(
    hub, client, published, tmp_path
):
    weights = "GET .*/model.safetensors"
    size = len(on_hub(hub, published)["model.safetensors"])
    hub.faults += [(weights, "cut"), (weights, 503)]
    status, said = client(DOWNLOAD, published, tmp_path / "cache")
    assert (status, "503" in said) == (1, True), said
    hub.log.clear()
    hub.faults += [(weights, "cut")]
    status, said = client(DOWNLOAD, published, tmp_path / "cache")
    assert status == 0, said
    assert contents(Path(said.splitlines()[-1])) == on_hub(hub, published)
    assert {line.rpartition("/")[2] for line in hub.asked("GET .*/resolve/")} == {"model.safetensors"}
    [resumed] = [line.split() for line in hub.asked("RANGE model.safetensors")]
    assert 0 < int(resumed[2]) <= size / 2


def test_loads_with_the_package_and_without(hub, client, published, tmp_path):
    status, said = client(TRANSLATE, published, *SOURCES)
    assert status == 0, said
    assert json.loads(said.splitlines()[-1]) == [TARGETS, TARGETS, "vaswani_transformer.modeling_vaswani"]
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", WITHOUT_PACKAGE + TRANSLATE, published, *SOURCES],
        env=environment(hub, tmp_path), cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    *translations, module = json.loads(result.stdout.splitlines()[-1])
    assert translations == [TARGETS, TARGETS]
    assert module.startswith("transformers_modules.ada.tiny.")


def test_command_line_downloads_once_and_then_works_without_a_network(hub, client, push, folder):
    push(folder, "ada/once")
    translate = ["translate", "--checkpoint", "ada/once", *SOURCES]
    status, said = client(VASWANI, *translate)
    assert (status, said.splitlines()[-len(TARGETS) :]) == (0, TARGETS), said
    assert hub.asked("GET /ada/once/resolve/.*/model.safetensors")

    hub.log.clear()
    status, said = client(VASWANI, *translate)
    assert (status, said.splitlines()[-len(TARGETS) :]) == (0, TARGETS), said
    assert hub.log and hub.asked("GET .*/resolve/") == []

    hub.log.clear()
    script = f"""
from typer.testing import CliRunner
from vaswani_transformer.commands import app
for repository in ("ada/once", "ada/never"):
    print(CliRunner().invoke(app, ["translate", "--checkpoint", repository, *{SOURCES!r}]).output.strip())
print(CliRunner().invoke(app, ["info", "ada/once"]).output.strip())
"""
    offline = environment(hub, client.home, HF_HUB_OFFLINE="1")
    result = subprocess.run([sys.executable, "-c", script], env=offline, capture_output=True, encoding="utf-8")
    *known, error, info = result.stdout.split("\n", len(TARGETS) + 1)
    assert (known, hub.log) == (TARGETS, [])
    assert "parameters in F32" in info.splitlines()[-1]
    assert error.startswith("error: Cannot load ada/never: ") and "offline" in error


def test_a_revision_can_be_pinned(hub, client, push, folder, tmp_path):
    push(folder, "ada/pinned")
    first = hub.repos["ada/pinned"]["refs"]["main"]
    assert push(converted_folder(tmp_path / "other", negated=True), "ada/pinned")[0] == 0
    for checkpoint, expected in ((f"ada/pinned@{first}", True), ("ada/pinned@main", False), ("ada/pinned", False)):
        status, said = client(VASWANI, "translate", "--checkpoint", checkpoint, SOURCES[0])
        assert (status, said.splitlines()[-1] == TARGETS[0]) == (0, expected), said
        assert client(VASWANI, "info", checkpoint)[0] == 0
    status, said = client(EXPORT, f"ada/pinned@{first}", tmp_path / "exported")
    assert (status, json.loads(said.splitlines()[-1])) == (0, [TARGETS[0], True]), said
    status, said = client(VASWANI, "translate", "--checkpoint", "ada/pinned@nowhere", SOURCES[0])
    assert (status, "ada/pinned has no revision 'nowhere'" in said) == (1, True), said


def test_a_link_to_a_file_elsewhere_is_not_sent(copy, tmp_path):
    (tmp_path / "secret").write_text("mine")
    (copy / "secret.model").symlink_to(tmp_path / "secret")
    with pytest.raises(ConversionError, match="links to files outside of it.*secret.model"):
        publish.stage(copy, "ada/copy", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_links_of_the_cache_are_followed(copy, tmp_path):
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir(parents=True)
    snapshot = blobs.parent / "snapshots" / "0123"
    snapshot.parent.mkdir()
    copy.rename(snapshot)
    (snapshot / "model.safetensors").rename(blobs / "weights")
    (snapshot / "model.safetensors").symlink_to(blobs / "weights")
    publish.stage(snapshot, "ada/copy", tmp_path / "out")
    staged = tmp_path / "out" / "model.safetensors"
    assert not staged.is_symlink() and staged.read_bytes() == (blobs / "weights").read_bytes()


def test_a_card_that_is_no_text_is_refused(copy, tmp_path):
    (copy / "README.md").write_bytes(b"\xff\xfe")
    with pytest.raises(ConversionError, match="README.md is not UTF-8 text"):
        publish.stage(copy, "ada/copy", tmp_path / "out")


@pytest.mark.parametrize("record", ["[]", "{}"])
def test_a_record_of_no_conversion_makes_no_card(folder, tmp_path, record):
    shutil.copytree(folder, tmp_path / "tiny")
    (tmp_path / "tiny" / "conversion.json").write_text(record)
    with pytest.raises(ConversionError, match="conversion.json"):
        card_of(tmp_path / "tiny", "tiny")


def test_the_folder_where_somebody_is_is_not_made_anew(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConversionError, match="name a new folder"):
        check_new(Path("."))


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("model.safetensors", b"x" * 20, "cannot be loaded"),
        ("config.json", b'{"model_type": "vaswani", "d_model": "x"}', "d_model must be a whole number"),
        ("generation_config.json", b"[]", "cannot be loaded"),
        ("tokenizer_config.json", b"{", "tokenizer of .* cannot be loaded"),
        ("tokenizer.json", b"{}", "tokenizer of .* cannot be loaded"),
    ],
)
def test_damaged_checkpoints_are_not_exported(copy, name, content, said):
    (copy / name).write_bytes(content)
    with pytest.raises(ConversionError, match=said):
        load(str(copy))


# Code and paths ------------------------------------------------------------------------------------------------------


def test_a_folder_without_code_is_staged_with_it_and_loads_where_the_package_is_not_installed(copy, tmp_path):
    for file in copy.glob("*.py"):
        file.unlink()
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config.pop("auto_map"), config.pop("custom_pipelines")
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    publish.stage(copy, "ada/tiny", tmp_path / "tiny-staged")
    assert not list(copy.glob("*.py")), "the checkpoint itself stays as it is"
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", WITHOUT_PACKAGE + TRANSLATE, str(tmp_path / "tiny-staged"), *SOURCES],
        cwd=tmp_path,
        env={"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    *translations, module = json.loads(result.stdout.splitlines()[-1])
    assert translations == [TARGETS, TARGETS] and module.startswith("transformers_modules.")


HOME = "/ho" + "me/ada lovelace"  # (in one piece, a test of the project would take it for a path of this machine)


def test_paths_of_the_machine_are_not_sent(copy, tmp_path):
    recipe = {
        "data": {"train": [{"source": f"{HOME}/data/train.en.gz", "url": "https://host.org/a/b.tgz"}]},
        "command": "train /ro" + "ot/recipes/base.yaml --output ~ada/runs/first and/or",
        "windows": "C:\\Users\\ada\\run",
        "weights": 0.25,
    }
    (copy / "training.json").write_text(json.dumps({"recipe": recipe}), encoding="utf-8")
    card = (copy / "README.md").read_text(encoding="utf-8")
    (copy / "README.md").write_text(f"{card}\nFrom `/ho" + "me/ada/run` by https://a.org/b/c.\n", encoding="utf-8")
    notes = publish.stage(copy, "ada/tiny", tmp_path / "tiny-staged")
    staged = json.loads((tmp_path / "tiny-staged" / "training.json").read_text(encoding="utf-8"))["recipe"]
    assert staged == {
        "data": {"train": [{"source": "train.en.gz", "url": "https://host.org/a/b.tgz"}]},
        "command": "train base.yaml --output first and/or",
        "windows": "run",
        "weights": 0.25,
    }
    text = (tmp_path / "tiny-staged" / "README.md").read_text(encoding="utf-8")
    assert "From `run` by https://a.org/b/c." in text
    assert not any(b"ada lovelace" in content for content in contents(tmp_path / "tiny-staged").values())
    assert "Paths of this machine were shortened to file names in README.md, training.json." in notes


def test_a_connection_that_stays_silent_ends_with_a_clear_message(folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        home = {"HF_HOME": str(tmp_path), "HF_TOKEN": WRITE, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        result = subprocess.run(
            [sys.executable, "-m", "conversion", "publish", folder, "ada/silent", "--push", "--timeout", "1"],
            cwd=tmp_path,
            env={**os.environ, **home, "HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=200,
        )
    assert result.returncode == 1, result.stderr
    assert "The Hub did not answer within 1 seconds" in result.stderr and "--timeout" in result.stderr
    assert "Traceback" not in result.stderr
