"""Any checkpoint by one name: what is recognised, converted, cached and refused."""

import io
import json
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import huggingface_hub
import pytest
import torch
from hub_server import Hub
from stand_ins import ENGLISH, ask, fsmt, opus_mt, put, run
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from conversion.files import archives
from conversion.options import ConversionError
from vaswani_transformer import VaswaniForConditionalGeneration, cache, catalogue, checkpoint_path, load
from vaswani_transformer.loading import LoadingError
from vaswani_transformer.locating import locate


FIXTURES = Path(__file__).parents[1] / "fixtures"
NAME = "Helsinki-NLP/opus-mt-en-de"
FAMILIES = {
    "fairseq/base": "fairseq",
    "joeynmt/base": "joeynmt",
    "marian/opus": "Marian",
    "opennmt/base": "opennmt",
    "opennmt/version2": "opennmt",
    "tensor2tensor/base_v2": "tensor2tensor",
    "torch_nn_transformer/base": "torch.nn.Transformer",
    "annotated_transformer/base": "Annotated Transformer",
}


@pytest.fixture(scope="module")
def opus(tmp_path_factory) -> Path:
    return opus_mt(tmp_path_factory.mktemp("models") / "opus-mt-en-de")


@pytest.fixture
def kept(monkeypatch, tmp_path) -> Path:
    """The folder of an empty cache."""
    monkeypatch.setenv("VASWANI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hub(monkeypatch, tmp_path, kept):
    with Hub() as server:
        ask(monkeypatch, server.url, tmp_path / "home")
        yield server
        server.shutdown()


def conversions(capsys) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("Converted ")]


def same(folder: str, original: Path) -> bool:
    """Whether a converted model computes the logits of transformers' model."""
    model, tokenizer = load(folder)
    reference = AutoModelForSeq2SeqLM.from_pretrained(original, dtype=torch.float32).eval()
    inputs = tokenizer(ENGLISH, padding=True, return_tensors="pt")
    expected = AutoTokenizer.from_pretrained(original)(ENGLISH, padding=True, return_tensors="pt")
    start = torch.full((len(ENGLISH), 1), reference.config.decoder_start_token_id)
    with torch.no_grad():
        logits = (m(**inputs, decoder_input_ids=start).logits for m in (model, reference))
        return torch.equal(inputs.input_ids, expected.input_ids) and torch.allclose(*logits, atol=1e-4)


# What is recognised ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fixture", FAMILIES)
def test_a_folder_of_each_toolkit(kept, capsys, fixture):
    folder = locate(str(FIXTURES / fixture))
    assert json.loads(Path(folder, "conversion.json").read_text())["toolkit"] == FAMILIES[fixture]
    [line] = conversions(capsys)
    assert "logits equal to" in line and line.endswith(f"kept in {folder}")
    assert locate(str(FIXTURES / fixture)) == folder and conversions(capsys) == []


def test_a_missing_segmentation_is_reported_at_every_use(kept, capsys):
    """Plain text would become unknown tokens without a word."""
    warning = f"warning: {FIXTURES}/fairseq/base: Input must already be segmented."
    for _ in range(2):
        locate(str(FIXTURES / "fairseq" / "base"))
        assert capsys.readouterr().err.count(warning) == 1


def test_a_file_is_converted_with_the_files_beside_it(kept):
    base = FIXTURES / "fairseq" / "base"
    assert json.loads(Path(locate(str(base / "checkpoint_last.pt")), "conversion.json").read_text())
    with pytest.raises(ValueError, match="dict.src.txt is a file. Give the folder"):
        locate(str(base / "dict.src.txt"))


def test_folders_that_need_no_conversion_are_returned_as_they_are(kept, tmp_path):
    included = catalogue.included()[0]
    assert locate(included.name) == locate(str(included.path)) == str(included.path)
    shutil.copy(included.path / "config.json", tmp_path)
    (tmp_path / "optimizer.pt").write_bytes(b"of a trainer")
    assert locate(str(tmp_path)) == str(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    assert locate(str(tmp_path)) == str(tmp_path)
    assert not kept.exists()


def test_a_folder_without_a_model_is_refused_with_what_would_be_recognised(kept, tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(ValueError, match=r"config.json is missing, .*fairseq has \*.pt and dict.\*.txt"):
        locate(str(tmp_path))


def test_a_folder_of_the_hubs_cache_is_refused_with_its_name(kept, tmp_path):
    folder = tmp_path / "models--Helsinki-NLP--opus-mt-en-de"
    (folder / "snapshots").mkdir(parents=True)
    with pytest.raises(ValueError, match=f"Give the model's name: {NAME}$"):
        locate(str(folder))


def test_what_cannot_be_converted_leaves_nothing(kept, tmp_path, opus):
    for file in opus.iterdir():
        shutil.copy(file, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "normalize_before": True}))
    with pytest.raises(ValueError, match=r"Cannot convert .* \(hf-marian\): .*normalize_before"):
        locate(str(tmp_path))
    assert list((kept / "checkpoints").iterdir()) == [] and cache.entries() == []


@pytest.mark.parametrize("name", ["pytorch_model.bin", "source.spm", "vocab.json"])
def test_a_pointer_of_git_lfs_is_named(kept, tmp_path, opus, name):
    shutil.copytree(opus, tmp_path / "model")
    (tmp_path / "model" / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(ValueError, match=f"{name} is a pointer of Git LFS, .* Run `git lfs pull`"):
        locate(str(tmp_path / "model"))


def test_stored_positions_may_have_another_length_than_the_configuration(kept, tmp_path, opus):
    """They are computed. transformers itself refuses them."""
    shutil.copytree(opus, tmp_path / "model")
    config = json.loads((opus / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 99}))
    assert same(str(tmp_path / "model"), opus)


def test_options_of_a_converter_are_named_with_the_command_that_has_them(kept, tmp_path):
    shutil.copytree(FIXTURES / "fairseq" / "tieddec", tmp_path / "model")
    saved = torch.load(tmp_path / "model" / "checkpoint_last.pt", weights_only=False)
    saved["cfg"]["task"]["source_lang"] = None
    torch.save(saved, tmp_path / "model" / "checkpoint_last.pt")
    with pytest.raises(ValueError, match="Pass --languages SOURCE TARGET. `vaswani convert fairseq` has these options"):
        locate(str(tmp_path / "model"))


def test_a_failed_comparison_leaves_nothing(kept, opus, monkeypatch):
    from conversion.parity import models

    compare = models.compare
    monkeypatch.setattr(models, "compare", lambda m, i, logits, against: compare(m, i, logits + 0.01, against))
    with pytest.raises(LoadingError, match="The converted model differs from the original; nothing was written"):
        load(opus)
    assert cache.entries() == []


# Uses -----------------------------------------------------------------------------------------------------------------


def test_load_converts_and_the_model_is_ours(kept, opus, capsys):
    before = torch.random.get_rng_state()
    model, tokenizer = load(opus)
    assert isinstance(model, VaswaniForConditionalGeneration) and tokenizer("x").input_ids
    assert torch.equal(torch.random.get_rng_state(), before), "a first use must not change what is drawn later"
    assert len(conversions(capsys)) == 1 and same(checkpoint_path(str(opus)), opus)
    about = catalogue.read_about(Path(checkpoint_path(str(opus))))
    assert (about.name, about.languages) == ("opus-mt-en-de", "en → de")


def test_changed_files_are_converted_again(kept, tmp_path, opus):
    shutil.copytree(opus, tmp_path / "copy")
    first = locate(str(tmp_path / "copy"))
    assert locate(str(opus)) != first, "two folders of the same name and content would not share an entry"
    generation = json.loads((opus / "generation_config.json").read_text())
    (tmp_path / "copy" / "generation_config.json").write_text(json.dumps({**generation, "num_beams": 6}))
    assert load(tmp_path / "copy")[0].generation_config.num_beams == 6


# The Hub --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pickled", [True, False])
@pytest.mark.parametrize("write", [opus_mt, fsmt])
def test_a_name_on_the_hub(hub, tmp_path, capsys, write, pickled):
    original = write(tmp_path / "original", pickled=pickled)
    commit = put(hub, NAME, original, **{"tf_model.h5": b"another framework", "rust_model.ot": b"another"})
    folder = checkpoint_path(NAME)
    [line] = conversions(capsys)
    assert line.startswith(f"Converted {NAME} (0.0") and " M parameters), logits equal to " in line
    assert same(folder, original)
    facts = json.loads(Path(folder, "conversion.json").read_text())["facts"]
    assert (facts["repository"], facts["commit"]) == (NAME, commit)
    assert (facts["source_language"], facts["target_language"]) == ("en", "de")
    assert not hub.asked(".*(tf_model|rust_model)")
    assert checkpoint_path(NAME) == checkpoint_path(f"{NAME}@main") == checkpoint_path(f"{NAME}@{commit}") == folder
    assert conversions(capsys) == []


def test_revisions(hub, opus, tmp_path, monkeypatch):
    first = put(hub, NAME, opus)
    old = locate(NAME)
    second = put(hub, NAME, opus_mt(tmp_path / "new", d_model=24))
    new = locate(NAME)
    assert new != old and load(new)[0].config.d_model == 24
    assert locate(f"{NAME}@{first}") == old and locate(f"{NAME}@{second}") == new
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert locate(NAME) == new and locate(f"{NAME}@{first}") == old


def test_without_a_network_the_cache_is_enough(hub, opus, tmp_path, monkeypatch, capsys):
    put(hub, NAME, opus)
    folder = locate(NAME)
    shutil.rmtree(tmp_path / "home" / "hub")  # the original
    requests = len(hub.log)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert locate(NAME) == folder and len(hub.log) == requests
    with pytest.raises(ValueError, match="opus-mt-de-en is not downloaded, and HF_HUB_OFFLINE is set"):
        locate("Helsinki-NLP/opus-mt-de-en")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    hub.faults.append((f"GET /api/models/{NAME}", 500))
    capsys.readouterr()
    assert locate(NAME) == folder
    assert f"The Hub does not respond: using {folder}" in capsys.readouterr().err


def test_a_downloaded_original_is_converted_without_a_network(hub, opus, monkeypatch):
    put(hub, NAME, opus)
    folder = locate(NAME)
    cache.clear(Path(folder))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert locate(NAME) == folder and same(folder, opus)


def test_weights_that_are_not_downloaded(hub, opus, monkeypatch):
    """A program that was stopped leaves the small files."""
    put(hub, NAME, opus)
    huggingface_hub.snapshot_download(NAME, ignore_patterns=["*.bin"])
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=f"Only parts of {NAME} are downloaded. .* without HF_HUB_OFFLINE"):
        locate(NAME)


def test_a_repository_without_weights(hub, opus):
    hub_files = {file.name: file.read_bytes() for file in opus.iterdir() if file.suffix != ".bin"}
    hub.repos[NAME] = {"private": False, "refs": {}, "commits": {}}
    hub.commit(hub.repos[NAME], "main", hub_files, None)
    with pytest.raises(ValueError, match=f"{NAME} on the Hub has no weights for PyTorch"):
        locate(NAME)


def test_what_is_not_on_the_hub(hub, tmp_path):
    (tmp_path / "notes.txt").write_text("no model")
    put(hub, "someone/notes", tmp_path)
    with pytest.raises(ValueError, match="No model in someone/notes on the Hub: config.json is missing."):
        locate("someone/notes")
    with pytest.raises(ValueError, match="Model not found on the Hub: someone/absent"):
        locate("someone/absent")


def test_a_broken_download_is_one_sentence_and_the_next_one_is_whole(hub, opus):
    put(hub, NAME, opus)
    hub.faults += [(f"GET /{NAME}/resolve/.*vocab.json", 403)]
    with pytest.raises(ValueError, match=f"Cannot download {NAME}: "):
        locate(NAME)
    assert cache.entries() == [] and same(locate(NAME), opus)


def test_a_model_of_ours_on_the_hub_stays_there(hub, capsys):
    commit = put(hub, "someone/ours", catalogue.included()[0].path)
    assert locate("someone/ours") == f"someone/ours@{commit}" == locate(locate("someone/ours"))
    assert Path(checkpoint_path("someone/ours")).name == commit and conversions(capsys) == []
    assert catalogue.display_name(f"someone/ours@{commit}") == "someone/ours"


# Archives -------------------------------------------------------------------------------------------------------------


def pack(archive: Path, folder: Path, inside: str):
    if archive.suffix in (".zip", ".argosmodel"):
        with zipfile.ZipFile(archive, "w") as file:
            for path in folder.iterdir():
                file.write(path, f"{inside}{path.name}")
    else:
        with tarfile.open(archive, f"w:{archive.suffix.removeprefix('.').replace('tgz', 'gz')}") as file:
            file.add(folder, inside or ".")


@pytest.mark.parametrize("suffix", [".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip"])
@pytest.mark.parametrize("inside", ["", "a/b/"])
def test_archives(kept, tmp_path, suffix, inside, capsys):
    archive = tmp_path / f"wmt.en-de{suffix}"
    pack(archive, FIXTURES / "fairseq" / "pre_post_0.9.0", inside)
    folder = locate(str(archive))
    assert json.loads(Path(folder, "conversion.json").read_text())["toolkit"] == "fairseq"
    assert locate(str(archive)) == folder and len(conversions(capsys)) == 1
    assert [path.name for path in (kept / "checkpoints").iterdir()] == [Path(folder).name], "something is left over"


def hostile_tar(archive: Path, name: str, kind: bytes = tarfile.REGTYPE, link: str = ""):
    with tarfile.open(archive, "w:gz") as file:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, link, 4 if kind == tarfile.REGTYPE else 0
        file.addfile(member, io.BytesIO(b"text"))


@pytest.mark.parametrize(
    "name, kind, link, message",
    [
        ("../outside.txt", tarfile.REGTYPE, "", "is outside its folder"),
        ("/tmp/names-outside.txt", tarfile.REGTYPE, "", "is outside its folder"),
        ("a/../../outside.txt", tarfile.REGTYPE, "", "is outside its folder"),
        ("a\\..\\outside.txt", tarfile.REGTYPE, "", "is outside its folder"),
        ("C:outside.txt", tarfile.REGTYPE, "", "is outside its folder"),
        ("link", tarfile.SYMTYPE, "/etc/passwd", "is a link or a device"),
        ("link", tarfile.LNKTYPE, "a", "is a link or a device"),
        ("pipe", tarfile.FIFOTYPE, "", "is a link or a device"),
    ],
)
def test_hostile_archives_are_refused(kept, tmp_path, name, kind, link, message):
    hostile_tar(tmp_path / "model.tar.gz", name, kind, link)
    with pytest.raises(ValueError, match=message):
        locate(str(tmp_path / "model.tar.gz"))
    assert list((kept / "checkpoints").iterdir()) == [] and not (tmp_path / "outside.txt").exists()


def test_a_link_in_a_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as file:
        member = zipfile.ZipInfo("link")
        member.external_attr = 0o120777 << 16
        file.writestr(member, "/etc/passwd")
    with pytest.raises(ConversionError, match="is a link or a device"):
        archives.unpack(tmp_path / "model.zip", tmp_path / "out")


def test_limits_of_archives(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(10**6))
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as file:
        member = tarfile.TarInfo("zeros")
        member.size = 10**6
        file.addfile(member, io.BytesIO(bytes(10**6)))
    monkeypatch.setattr(archives, "MIN_CHECKED_BYTES", 1000)
    for name in ("model.zip", "model.tar.gz"):
        with pytest.raises(ConversionError, match="unpacks to more than"):
            archives.unpack(tmp_path / name, tmp_path / f"{name}.out")
        assert not any((tmp_path / f"{name}.out").iterdir()), "refused before it is written"
    monkeypatch.setattr(archives, "MAX_FILES", 0)
    with pytest.raises(ConversionError, match="has more than 0 files"):
        archives.unpack(tmp_path / "model.zip", tmp_path / "third")


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.bz2", ".tar.xz", ".zip", ".argosmodel"])
def test_damaged_archives(kept, tmp_path, suffix):
    archive = tmp_path / f"model{suffix}"
    pack(archive.with_suffix(".zip") if suffix == ".argosmodel" else archive, FIXTURES / "marian" / "untied", "")
    content = (archive if archive.exists() else archive.with_suffix(".zip")).read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"no archive"):
        archive.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged|No checkpoint in") as caught:
            locate(str(archive))
        assert "\n" not in str(caught.value)
    assert cache.entries() == []


# Processes ------------------------------------------------------------------------------------------------------------

# One process imports what takes seconds, and forks those that convert.
TOGETHER = """
import os, sys
from vaswani_transformer import locating
import conversion.importing, conversion.toolkits.hf_marian

children = []
for _ in range(2):
    pid = os.fork()
    if not pid:
        print(locating.locate(sys.argv[1]), flush=True)
        os._exit(0)
    children.append(pid)
sys.exit(any(os.waitpid(pid, 0)[1] for pid in children))
"""

# Children are killed at a step, which is counted, not timed.
KILLED = """
import os, random, shutil, signal, sys
from vaswani_transformer import cache, locating
import conversion.importing, conversion.toolkits.hf_marian

name, steps = sys.argv[1], int(sys.argv[2])
counts, counted = os.pipe()

def child(last):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    count = 0
    def step(event, arguments):
        nonlocal count
        if event in EVENTS and any("checkpoints" in str(argument) for argument in arguments):
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(step)
    locating.locate(name)
    os.write(counted, str(count).encode())
    os._exit(0)

def files():
    [entry] = cache.entries()
    assert [path.name for path in entry.parent.iterdir()] == [entry.name], "something is left over"
    return sorted(path.name for path in entry.iterdir())

EVENTS = "open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"
assert child(0) == 0
whole, total = files(), int(os.read(counts, 20))
for last in random.Random(0).sample(range(1, total + 1), steps):
    shutil.rmtree(cache.cache_folder())
    assert child(last) == signal.SIGKILL, last
    assert all(cache.read_record(entry)["checks"] for entry in cache.entries())
    assert child(0) == 0, last
    assert files() == whole, last
print("usable")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("steps", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_conversion_leaves_a_usable_cache(kept, opus, steps):
    out, err = run(KILLED, opus, steps, VASWANI_CACHE=kept).communicate()
    assert out.splitlines()[-1:] == ["usable"], err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_processes_that_start_together_convert_once(kept, opus):
    process = run(TOGETHER, opus, VASWANI_CACHE=kept)
    out, err = process.communicate()
    assert process.returncode == 0, err
    first, second = out.splitlines()
    assert first == second
    assert err.count("Converted ") == 1, err


def test_a_process_waits_for_the_one_that_converts(kept, opus, monkeypatch, capsys):
    """The other process converts, as seen by this one: its lock is taken, and then there is an entry."""
    import filelock

    taken = []

    class Lock(filelock.FileLock):
        def acquire(self, timeout=None, **settings):
            if timeout == 0:
                taken.append(self.lock_file)
                raise filelock.Timeout(self.lock_file)
            assert "Another process is converting" in capsys.readouterr().err
            monkeypatch.setattr(cache, "is_complete", lambda entry: True)
            return super().acquire(**settings)

    monkeypatch.setattr(filelock, "FileLock", Lock)
    assert Path(locate(str(opus))).parent == kept / "checkpoints" and len(taken) == 1
    assert conversions(capsys) == []


# Listing and clearing -------------------------------------------------------------------------------------------------


def test_clearing_keeps_a_conversion_in_progress(kept):
    from filelock import FileLock

    (kept / "checkpoints" / "busy.partial").mkdir(parents=True)
    (kept / "checkpoints" / "dead.partial.unpacked").mkdir()
    (kept / "checkpoints" / "dead.partial.unpacked" / "file").write_bytes(b"12345")
    (kept / "locks").mkdir()
    with FileLock(kept / "locks" / "busy.lock"):
        assert cache.clear_leftovers() == 5
    assert [path.name for path in (kept / "checkpoints").iterdir()] == ["busy.partial"]
