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
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

from vaswani_transformer import TranslationPipeline, VaswaniConfig, VaswaniTokenizer, load, remote_code


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

sources, folder, pipelined, again = json.loads(sys.argv[1])
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

model.save_pretrained(again + "/model")
for name, where in (("pipeline", pipelined), ("saved again", again + "/pipeline")):
    translate = pipeline("translation", model=where, trust_remote_code=True, dtype="float32")
    facts[name] = [record["translation_text"] for record in translate(sources, batch_size=3)]
    if name == "pipeline":
        translate.save_pretrained(again + "/pipeline")
        translate.model.save_pretrained(again + "/its model")
hub_model = AutoModelForSeq2SeqLM.from_pretrained(pipelined, trust_remote_code=True)
hub_model.save_pretrained(again + "/hub model")
facts["ours"] = sorted(name for name in sys.modules if name.partition(".")[0] == "vaswani_transformer")
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """What the script saw."""
    home = tmp_path_factory.mktemp("home")
    script = SCRIPT.format(site_packages=sysconfig.get_path("purelib"))
    model, tokenizer = load(tiny_checkpoint())
    TranslationPipeline(model=model, tokenizer=tokenizer).save_pretrained(home / "pipeline")
    arguments = json.dumps([list(PAIRS), str(tiny_checkpoint()), str(home / "pipeline"), str(home / "again")])
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


def code_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.py"))


def names_of_code(folder: Path) -> dict[str, dict]:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return {name: config[name] for name in remote_code.CODE_FIELDS if name in config}


def test_a_saved_model_carries_its_own_code_only(facts):
    """Also where it was loaded with code that a pipeline had stored."""
    assert len(remote_code.MODEL_FILES) <= 14
    for folder in (
        tiny_checkpoint(),
        *(facts["home"] / "again" / name for name in ("model", "its model", "hub model")),
    ):
        assert code_in(folder) == remote_code.MODEL_FILES
        assert names_of_code(folder) == {"auto_map": remote_code.AUTO_MAP}


def test_a_checkpoint_of_the_trainer_carries_the_models_code_only(tmp_path):
    model, _ = load(tiny_checkpoint())
    arguments = Seq2SeqTrainingArguments(str(tmp_path), max_steps=1, report_to=[], use_cpu=True, disable_tqdm=True)
    ids = {"input_ids": [5, 6, 1], "labels": [7, 8, 1]}
    Seq2SeqTrainer(model, arguments, train_dataset=[ids] * 8).train()
    assert code_in(tmp_path / "checkpoint-1") == remote_code.MODEL_FILES
    assert names_of_code(tmp_path / "checkpoint-1") == {"auto_map": remote_code.AUTO_MAP}


def test_a_saved_pipeline_carries_the_code_of_both(facts):
    for folder in (facts["home"] / "pipeline", facts["home"] / "again" / "pipeline"):
        assert code_in(folder) == remote_code.FILES
        assert names_of_code(folder) == {
            "auto_map": remote_code.AUTO_MAP,
            "custom_pipelines": remote_code.CUSTOM_PIPELINES,
        }


def test_the_tokenizer_needs_one_file():
    assert {path.name for path in remote_code.code_files(VaswaniTokenizer)} == {remote_code.TOKENIZER_FILE}


def test_copied_code_makes_a_bare_folder_whole(facts, tmp_path):
    """The same files and the same config.json as a pipeline's `save_pretrained` writes."""
    original, bare = facts["home"] / "pipeline", tmp_path / "bare"
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
    VaswaniTokenizer.from_sides(*sides, pad_token="<pad>").save_pretrained(tmp_path)
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
    original, again = facts["home"] / "pipeline", facts["home"] / "again" / "pipeline"
    files = {path.name for path in original.iterdir()}
    assert {path.name for path in again.iterdir()} == files
    for name in files:
        if Path(name).suffix == ".py":
            assert (again / name).read_bytes() == (original / name).read_bytes()
    assert facts["saved again"] == list(PAIRS.values())
