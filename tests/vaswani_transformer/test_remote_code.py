"""Saved models load with `trust_remote_code=True` where this package is not installed."""

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tiny_checkpoint import PAIRS, tiny_checkpoint
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers.dynamic_module_utils import get_relative_import_files

from vaswani_transformer import VaswaniConfig, VaswaniTokenizer, remote_code


# For an isolated interpreter: with -I no environment and no current folder, with -S no .pth files (editable installs).
SCRIPT = """
import json, sys

sys.path += [{site_packages!r}]

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "vaswani_transformer":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
facts = {{}}
try:
    import vaswani_transformer
    facts["installed"] = True
except ModuleNotFoundError:
    facts["installed"] = False

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

sources, folder, again = json.loads(sys.argv[1])
try:
    AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=False)
except ValueError as error:
    facts["untrusted"] = str(error)

facts["base"] = type(AutoModel.from_pretrained(folder, trust_remote_code=True)).__name__
facts["config"] = type(AutoConfig.from_pretrained(folder, trust_remote_code=True)).__name__
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True, dtype="float32")
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)  # it is data: no code of ours
facts["module"] = type(model).__module__
output = model.generate(**tokenizer(sources, padding=True, return_tensors="pt"))
facts["generate"] = tokenizer.batch_decode(output, skip_special_tokens=True)

model.save_pretrained(again)
tokenizer.save_pretrained(again)
for name, where in (("pipeline", folder), ("saved again", again)):
    translate = pipeline("translation", model=where, trust_remote_code=True, dtype="float32")
    facts[name] = [record["translation_text"] for record in translate(sources, batch_size=3)]
facts["ours"] = sorted(name for name in sys.modules if name.partition(".")[0] == "vaswani_transformer")
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """What the script saw."""
    home = tmp_path_factory.mktemp("home")
    script = SCRIPT.format(site_packages=sysconfig.get_path("purelib"))
    arguments = json.dumps([list(PAIRS), str(tiny_checkpoint()), str(home / "again")])
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, arguments],
        cwd=home,
        env={"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1]) | {"home": home}


def test_the_package_was_really_absent(facts):
    assert facts["installed"] is False
    assert facts["ours"] == []
    assert facts["module"].startswith("transformers_modules.")


def test_nothing_is_run_without_trust(facts):
    assert "trust_remote_code" in facts["untrusted"]


def test_model_and_configuration(facts):
    assert facts["config"] == "VaswaniConfig"
    assert facts["base"] == "VaswaniModel"
    assert facts["generate"] == list(PAIRS.values())


def test_translation_pipeline(facts):
    assert facts["pipeline"] == list(PAIRS.values())


def test_the_list_of_files_is_what_the_library_copies():
    """It follows relative imports from the files of the classes in `auto_map`."""
    package = Path(remote_code.__file__).parent
    starts = [package / f"{name.partition('.')[0]}.py" for name in remote_code.AUTO_MAP.values()]
    found = {Path(file).name for start in starts for file in [start, *get_relative_import_files(start)]}
    assert set(remote_code.FILES) == found
    tokenizer = package / remote_code.TOKENIZER_FILE
    assert get_relative_import_files(tokenizer) == []


def test_copied_code_makes_a_bare_folder_whole(tmp_path):
    """The same files and the same config.json as `save_pretrained` writes."""
    original, bare = tiny_checkpoint(), tmp_path / "bare"
    config = json.loads((original / "config.json").read_text())
    shutil.copytree(original, bare, ignore=shutil.ignore_patterns("*.py"))
    kept = {name: value for name, value in config.items() if name not in ("auto_map", "custom_pipelines")}
    (bare / "config.json").write_text(json.dumps(kept))
    remote_code.copy_code(bare)
    remote_code.copy_code(bare)  # again changes nothing
    assert {path.name for path in bare.iterdir()} == {path.name for path in original.iterdir()}
    assert json.loads((bare / "config.json").read_text()) == config
    for name in remote_code.FILES:
        assert (bare / name).read_bytes() == (original / name).read_bytes()
    remote_code.remove_code(bare)
    assert not list(bare.glob("*.py")) and json.loads((bare / "config.json").read_text()) == kept


def test_copied_code_holds_the_tokenizers_where_it_is_ours(tmp_path):
    sides = (Tokenizer(WordLevel({"<pad>": 0, word: 1})) for word in "ab")
    VaswaniTokenizer.of(*sides, pad_token="<pad>").save_pretrained(tmp_path)
    VaswaniConfig().save_pretrained(tmp_path)
    before = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / remote_code.TOKENIZER_FILE).unlink()
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({k: v for k, v in before.items() if k != "auto_map"}))
    remote_code.copy_code(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text()) == before
    assert (tmp_path / remote_code.TOKENIZER_FILE).is_file()


def test_a_folder_without_a_model_gets_no_code(tmp_path):
    with pytest.raises(FileNotFoundError, match="config.json"):
        remote_code.copy_code(tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_was_loaded_so_is_saved_whole(facts):
    original, again = tiny_checkpoint(), facts["home"] / "again"
    files = {path.name for path in original.iterdir()} - {"about.json"}
    assert {path.name for path in again.iterdir()} == files
    for name in files:
        if Path(name).suffix == ".py":
            assert (again / name).read_bytes() == (original / name).read_bytes()
    assert facts["saved again"] == list(PAIRS.values())
