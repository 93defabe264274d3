"""The way to a Hub and back with the real client.

The Hub is `hub_server.Hub`. The client reads where its Hub is when it is imported, so it works in other processes.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hub_examples import ROOT, SOURCES, TARGETS, TRANSLATE, WITHOUT_PACKAGE, contents, converted_folder
from hub_server import READ, WRITE, Hub
from tiny_checkpoint import tiny_checkpoint
from waiting import TIMEOUT


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
EXPORT = f"""
import json, sys
from pathlib import Path
from conversion.runtimes.exports import exported_folder, load
checkpoint, out = sys.argv[1:]
model, tokenizer = load(checkpoint)
with exported_folder(Path(out), model, "START", "torch"):
    output = model.generate(**tokenizer({SOURCES[:1]!r}, return_tensors="pt"))
print(json.dumps([*tokenizer.batch_decode(output, skip_special_tokens=True), (Path(out) / "README.md").is_file()]))
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
        hub.later_faults.clear()
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


# Sending --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["lfs", "regular"])
def test_everything_is_one_commit_and_publishing_it_again_makes_none(hub, client, push, copy, mode):
    hub.upload_mode, repo = mode, f"ada/{mode}"
    hub.objects.clear()
    status, said = client(PUBLISH, "publish", copy, repo, "--stage", f"{mode}-staged")
    assert (status, hub.log) == (0, []), "a dry run sends nothing"
    assert "model.safetensors" in said and "LFS" in said and "nothing was uploaded" in said
    status, said = push(copy, repo)
    assert (status, said.splitlines()[-1].partition(" (")[0]) == (0, f"Published: {hub.url}/{repo}"), said
    staged = contents(client.home / f"{mode}-staged")
    assert on_hub(hub, repo) == {".gitattributes": on_hub(hub, repo)[".gitattributes"], **staged}
    assert len(hub.repos[repo]["commits"]) == 2
    assert len(hub.asked("PUT")) == (mode == "lfs")
    assert not hub.repos[repo]["private"]

    status, said = push(copy, repo)
    assert (status, said.splitlines()[-1].partition(":")[0]) == (0, "No changes"), said
    assert len(hub.repos[repo]["commits"]) == 2

    with (copy / "README.md").open("a") as card:
        card.write("\nMore.\n")
    assert push(copy, repo)[0] == 0
    assert on_hub(hub, repo)["README.md"].endswith(b"\nMore.\n")
    assert len(hub.repos[repo]["commits"]) == 3
    assert len(hub.asked("PUT")) == (mode == "lfs")


def test_the_explorers_page_becomes_a_static_space_in_one_commit(hub, client):
    arguments = ["publish-page", "ada/page", "--checkpoint", tiny_checkpoint(), "--stage", "page-staged"]
    status, said = client(VASWANI, *arguments)
    assert (status, hub.log) == (0, []), said
    status, said = client(VASWANI, *arguments, "--push")
    assert status == 0 and f"Published: {hub.url}/spaces/ada/page (commit " in said, said
    assert len(hub.asked("POST /api/spaces/ada/page/commit/main")) == 1
    assert hub.repos["ada/page"]["sdk"] == "static"
    files = on_hub(hub, "ada/page")
    del files[".gitattributes"]  # the Hub's own
    assert files == contents(client.home / "page-staged")


def test_without_a_folder_to_stage_in_nothing_stays(client, copy, push):
    before = sorted(client.home.iterdir())
    assert client(PUBLISH, "publish", copy, "ada/nothing")[0] == 0
    assert push(copy, "ada/nothing", token="")[0] == 1
    assert push(copy, "ada/nothing", "--stage", "nothing-staged", token="")[0] == 1
    assert sorted(path for path in client.home.iterdir() if path not in before) == []


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
        ([], "hf_expired", ["rejected the token (401)", "hf auth login", "HF_TOKEN"]),
        ([], READ, ["(403)", "cannot write to eve/tiny", "settings/tokens"]),
        (["--create-pr"], WRITE, ["Repository not found", "eve/tiny", "without --create-pr"]),
    ],
    ids=["no token", "an expired token", "a token that may only read", "no repository"],
)
def test_a_refusal_of_the_hub_is_one_line_that_says_what_to_do(hub, push, folder, options, token, words):
    status, said = push(folder, "eve/tiny", *options, token=token)
    assert status == 1
    assert "Traceback" not in said
    assert all(word in said.splitlines()[-1] for word in words), said
    assert "eve/tiny" not in hub.repos


def test_an_interrupted_upload_is_completed_by_the_next(hub, push, folder):
    hub.objects.clear()
    hub.faults += [("PUT", "cut"), ("POST .*/commit/", "cut")]
    status, said = push(folder, "ada/cut")
    assert (status, "Traceback" in said) == (1, False)
    assert "is unchanged" in said.splitlines()[-1] and "Rerun the command" in said.splitlines()[-1]
    assert on_hub(hub, "ada/cut").keys() == {".gitattributes"}
    assert len(hub.asked("PUT")) == 2 and not hub.faults
    assert push(folder, "ada/cut")[0] == 0
    assert on_hub(hub, "ada/cut").keys() > {"README.md", "model.safetensors"}
    assert len(hub.asked("PUT")) == 2, "what had arrived is not sent again"


@pytest.mark.parametrize(
    "options, further, words",
    [
        ([], [], ["ada/lost has a new commit, ", "Rerun the command"]),
        ([], [("GET /api/models/ada/lost", 503)], ["ada/lost may have changed"]),
        (["--create-pr"], [], ["ada/lost may have a new pull request"]),
    ],
    ids=["asked again", "no answer", "a pull request"],
)
def test_a_commit_whose_answer_is_lost_is_not_reported_as_ineffective(
    hub, push, copy, options, further, words, request
):
    if "ada/lost" not in hub.repos:
        assert push(copy, "ada/lost")[0] == 0
    card = (copy / "README.md").read_text(encoding="utf-8")
    (copy / "README.md").write_text(f"{card}\n{request.node.name}\n", encoding="utf-8")
    commits = len(hub.repos["ada/lost"]["commits"])
    hub.faults.append(("POST .*/commit/", "lost"))
    hub.later_faults += further
    status, said = push(copy, "ada/lost", *options)
    assert len(hub.repos["ada/lost"]["commits"]) == commits + 1, "the commit is there"
    assert status == 1 and "is unchanged" not in said, said
    assert all(word in said.splitlines()[-1] for word in words), said


def test_a_connection_that_stays_silent_ends_with_a_clear_message(folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        home = {"HF_HOME": str(tmp_path), "HF_TOKEN": WRITE, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        home["HF_HUB_OFFLINE"] = ""  # whatever the environment of the tests sets
        result = subprocess.run(
            [sys.executable, "-m", "conversion", "publish", folder, "ada/silent", "--push", "--timeout", "1"],
            cwd=tmp_path,
            env={**os.environ, **home, "HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT,
        )
    assert result.returncode == 1, result.stderr
    assert "The Hub did not respond within 1 seconds" in result.stderr and "--timeout" in result.stderr
    assert "Traceback" not in result.stderr


# Loading --------------------------------------------------------------------------------------------------------------


DOWNLOAD = """
import sys
from huggingface_hub import constants, file_download, snapshot_download
constants.DOWNLOAD_CHUNK_SIZE = 4096  # or a file as small as these comes in one piece
print(snapshot_download(sys.argv[1], cache_dir=sys.argv[2]))
"""


def test_an_interrupted_download_resumes(hub, client, published, tmp_path):
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
    assert json.loads(said.splitlines()[-1]) == [TARGETS, TARGETS, "vaswani_transformer.model.modeling_vaswani"]
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
    assert result.stdout, result.stderr
    *known, error, info = result.stdout.split("\n", len(TARGETS) + 1)
    assert (known, hub.log) == (TARGETS, [])
    assert "parameters in F32" in info.splitlines()[-1]
    assert error.startswith("error: ada/never is not downloaded, and HF_HUB_OFFLINE is set.")


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
