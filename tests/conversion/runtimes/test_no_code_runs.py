"""A checkpoint never runs code, and nobody is asked whether it may: the text to translate would answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[3]
DOORS = {
    "to-ctranslate2": ["to-ctranslate2", "FOLDER", "OUT"],
    "to-onnx": ["to-onnx", "FOLDER", "OUT"],
    "to-marian": ["to-marian", "FOLDER", "OUT"],
    "publish": ["publish", "FOLDER", "ada/evil", "--stage", "OUT-staged"],
    "hf-marian": ["hf-marian", "FOLDER", "OUT"],
    "fsmt": ["fsmt", "FOLDER", "OUT"],
    "Hub id": ["to-marian", "ada/evil", "OUT"],
    "Hub id, in": ["hf-marian", "ada/evil", "OUT"],
}
SCRIPT = """
import json, sys
import huggingface_hub
doors, folder, out = json.loads(sys.argv[1])
huggingface_hub.snapshot_download = lambda *_, **__: folder
from conversion.__main__ import main
for name, arguments in doors.items():
    try:
        main([{"FOLDER": folder}.get(a, a.replace("OUT", out + name.replace(" ", "-"))) for a in arguments])
    except SystemExit as ended:
        print(json.dumps([name, ended.code]))
"""


@pytest.mark.parametrize("kind", ["unknown", "vaswani"])
def test_no_door_runs_code(tmp_path, kind):
    folder, mark = tmp_path / "evil", tmp_path / "it-ran"
    folder.mkdir()
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n")
    classes = ("AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM", "AutoTokenizer")
    auto_map = {name: "evil.Evil" for name in classes} | {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "auto_map": auto_map}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Evil", "auto_map": auto_map}))
    (folder / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([DOORS, str(folder), str(tmp_path / "out")])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        input="y\n1\n" * 20,
        capture_output=True,
        text=True,
    )
    outcomes = dict(json.loads(line) for line in result.stdout.splitlines() if line.startswith("["))
    assert outcomes == dict.fromkeys(DOORS, 1), result.stderr
    assert "Do you wish to run" not in result.stdout + result.stderr
    assert not mark.exists()
