"""A corpus in shards: every line once and in order; what is done is never done again, even after a crash."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_checkpoint import PAIRS, tiny_checkpoint
from waiting import TIMEOUT, wait_until

from vaswani_transformer import commands
from vaswani_transformer.commands import corpus
from vaswani_transformer.commands.corpus import Corpus, Translator, plan


SOURCES = list(PAIRS)
LINES = [*SOURCES, "", "12345", "  two words  "] * 3


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "corpus.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_characters="\n\ufeff", exclude_categories=["Cs"])), max_size=9),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=50)
def test_shards_hold_every_line_once_and_in_order(tmp_path_factory, files, size, marked):
    """A file may begin with a byte order mark, which is none of its text."""
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / str(i) for i in range(len(files))]
    for path, lines in zip(paths, files, strict=True):
        encoding = "utf-8-sig" if marked and lines else "utf-8"
        path.write_text("".join(f"{line}\n" for line in lines), encoding=encoding, newline="")
    shards = plan(paths, size)
    texts = [text for shard in shards for text in shard.texts()]
    assert texts == [line.rstrip("\r") for lines in files for line in lines]
    assert [shard.line for shard in shards] == [1 + sum(s.lines for s in shards[:i]) for i in range(len(shards))]
    assert all(0 < shard.lines <= size for shard in shards)


def test_a_shards_translations_are_the_pipelines(file, tmp_path):
    work = Corpus(tmp_path / "out", [file], 5, {})
    translator = Translator(str(work.folder), (str(tiny_checkpoint()), "cpu", "auto", 1), {"return_confidence": False})
    for shard in work.missing():
        translator({**vars(shard)})
    assert not work.missing()
    wanted = [best["translation_text"] for best, *_ in translator.pipeline.translate(LINES)]
    assert [record["translation"] for record in work.records()] == wanted
    assert [record["line"] for record in work.records()] == list(range(1, len(LINES) + 1))
    assert work.join().read_text(encoding="utf-8").split("\n") == [*wanted, ""]


def test_what_is_finished_is_not_done_again(file, tmp_path):
    work = Corpus(tmp_path / "out", [file], 5, {})
    work.shards[1].path(work.folder).write_text('{"line": 6, "translation": "mine"}\n')
    assert work.shards[1] not in work.missing() and len(work.missing()) == len(work.shards) - 1
    translator = Translator.__new__(Translator)  # which has no model, and would fail if it were asked
    translator.folder = str(work.folder)
    translator({**vars(work.shards[1])})
    assert "mine" in work.shards[1].path(work.folder).read_text()


def test_another_corpus_is_not_mixed_in(file, tmp_path):
    Corpus(tmp_path / "out", [file], 5, {"checkpoint": "a"})
    for lines, asked in ((6, {"checkpoint": "a"}), (5, {"checkpoint": "b"})):
        with pytest.raises(ValueError, match="holds another corpus or other settings"):
            Corpus(tmp_path / "out", [file], lines, asked)
    with pytest.raises(ValueError, match="Changed: checkpoint, num_beams[.]"):
        Corpus(tmp_path / "out", [file], 5, {"checkpoint": "b", "num_beams": 2})
    file.write_bytes(file.read_bytes()[::-1])
    with pytest.raises(ValueError, match="Changed: texts[.]"):
        Corpus(tmp_path / "out", [file], 5, {"checkpoint": "a"})


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_refused(tmp_path, kind):
    path = Path("/dev/zero")
    if kind == "pipe":
        os.mkfifo(path := tmp_path / "pipe")
    with pytest.raises(ValueError, match=f"{path} is not a regular file"):
        Corpus(tmp_path / "out", [path], 5, {})


def test_a_checkpoint_that_was_trained_again_is_another_one(tmp_path):
    first = corpus.checkpoint_version(str(tiny_checkpoint()))
    copy = Path(shutil.copytree(tiny_checkpoint(), tmp_path / Path(tiny_checkpoint()).name))
    assert corpus.checkpoint_version(str(copy)) == first, "wherever it is"
    (copy / "README.md").write_text("A card.")
    assert corpus.checkpoint_version(str(copy)) == first
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert corpus.checkpoint_version(str(copy)) != first


def test_a_checkpoint_of_the_hub_is_known_by_its_commit(monkeypatch):
    calls = []
    snapshot = "/cache/models--a--b/snapshots/0123abc/config.json"
    monkeypatch.setattr(
        "vaswani_transformer.hub.hf_hub_download", lambda *name, revision: calls.append((*name, revision)) or snapshot
    )
    assert corpus.checkpoint_version("a/b@main") == "a/b@0123abc"
    assert calls == [("a/b", "config.json", "main")]


LISTENERS = """
    import glob, os, re
    from vaswani_transformer.commands.corpus import keep_ray_local
    keep_ray_local()
    import ray
    ray.init("local", num_cpus=1, log_to_driver=False)
    assert ray.get(ray.remote(lambda: 7).remote()) == 7
    rows = [row.split() for name in ("tcp", "tcp6") for row in open(f"/proc/net/{name}").read().splitlines()[1:]]
    listening = {row[9]: row[1].partition(":")[0] for row in rows if row[3] == "0A"}
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            inode = re.match(r"socket:.(\\d+)|", os.readlink(path))[1]
            environment = open(f"/proc/{path.split('/')[2]}/environ", "rb").read()
            if inode in listening and b"TEST_OF_LISTENERS=yes" in environment:
                print("listens", listening[inode])
        except OSError:
            pass
"""


@pytest.mark.slow
def test_ray_listens_on_this_machine_only():
    pytest.importorskip("ray")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    program = [sys.executable, "-c", textwrap.dedent(LISTENERS)]
    done = subprocess.run(
        program, env=environment | {"TEST_OF_LISTENERS": "yes"}, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    addresses = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("listens")}
    assert addresses and addresses <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_a_cluster_keeps_rays_own_addresses(monkeypatch):
    monkeypatch.setattr(os, "environ", {"RAY_ADDRESS": "10.0.0.1:6379"})
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    corpus.keep_ray_local()
    assert os.environ == {"RAY_ADDRESS": "10.0.0.1:6379"}
    monkeypatch.delitem(os.environ, "RAY_ADDRESS")
    corpus.keep_ray_local()
    assert os.environ == {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("latin", b"tea\ncaf\xe9\n", "latin, line 2: not UTF-8. Convert it first")],
)
def test_mistakes_are_reported_in_one_line(tmp_path, capsys, monkeypatch, name, content, message):
    pytest.importorskip("ray")
    path = tmp_path / name
    path.write_bytes(content)
    monkeypatch.setattr(corpus, "translate", None)  # nothing is begun
    with pytest.raises(SystemExit, match="1"):
        commands.app(["corpus", str(path), "--output", str(tmp_path / "out")])
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


CLUSTER = """
    import os, sys, threading, time
    from pathlib import Path
    import ray
    from ray.cluster_utils import Cluster
    from vaswani_transformer import commands

    file, folder, checkpoint = sys.argv[1:]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    workers = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)

    def lose_one():
        while not list(Path(folder).glob("shard-*")):
            time.sleep(0.05)
        cluster.remove_node(workers[0], allow_graceful=False)
        print("lost one", flush=True)

    threading.Thread(target=lose_one, daemon=True).start()
    arguments = ["--output", folder, "--checkpoint", checkpoint, "--lines", "20", "--workers", "2", "--cpus", "1"]
    commands.app(["corpus", file, *arguments], standalone_mode=False)
    os._exit(0)  # Ray's cluster for tests ends badly without the node that was lost
"""


@pytest.mark.slow
def test_a_cluster_of_two_workers_that_loses_one_translates_all(tmp_path):
    pytest.importorskip("ray")
    file, folder = tmp_path / "corpus.en", tmp_path / "out"
    file.write_text("".join(f"{line} {i}\n" for i in range(20) for line in SOURCES))
    program = [sys.executable, "-c", textwrap.dedent(CLUSTER), str(file), str(folder), str(tiny_checkpoint())]
    done = subprocess.run(program, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0 and "lost one" in done.stdout, done.stdout + done.stderr
    check(file, folder)


@pytest.mark.slow
def test_after_a_crash_only_what_is_missing_is_done(tmp_path):
    pytest.importorskip("ray")
    file, folder = tmp_path / "corpus.en", tmp_path / "out"
    file.write_text("".join(f"{line} {i}\n" for i in range(20) for line in SOURCES))
    command = [sys.executable, "-m", "vaswani_transformer", "corpus", str(file), "--output", str(folder)]
    command += ["--checkpoint", str(tiny_checkpoint()), "--lines", "20", "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    wait_until(lambda: len(list(folder.glob("shard-*.jsonl"))) >= 2 or process.poll() is not None)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in folder.glob("shard-*.jsonl")}
    assert 2 <= len(before) < len(json.loads((folder / "plan.json").read_text())["shards"])
    again = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert again.returncode == 0, again.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    check(file, folder)


def check(file, folder):
    """All lines are there, in order, with what one process makes of them."""
    from vaswani_transformer import TranslationPipeline, load

    model, tokenizer = load(tiny_checkpoint())
    translated = TranslationPipeline(model=model.float(), tokenizer=tokenizer).translate(file.read_text().splitlines())
    wanted = [best["translation_text"] for best, *_ in translated]
    assert (folder / "translations.txt").read_text(encoding="utf-8").splitlines() == wanted
    numbers = [json.loads(line)["line"] for path in sorted(folder.glob("shard-*.jsonl")) for line in open(path)]
    assert numbers == list(range(1, len(wanted) + 1))
