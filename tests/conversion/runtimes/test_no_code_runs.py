"""A checkpoint never runs code, and nobody is asked whether it may: the text to translate would answer."""

import json
import os
import subprocess
import sys
from pathlib import Path


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
doors, folders = json.loads(sys.argv[1])
from conversion.__main__ import main
for folder in folders:
    huggingface_hub.snapshot_download = lambda *_, **__: folder
    for name, arguments in doors.items():
        out = folder + "-" + name.replace(" ", "-")
        try:
            main([{"FOLDER": folder}.get(a, a.replace("OUT", out)) for a in arguments])
        except SystemExit as ended:
            print(json.dumps([folder, name, ended.code]))
"""


def hostile_folder(folder: Path, mark: Path, kind: str) -> str:
    """A model of this kind whose code would leave a mark."""
    folder.mkdir()
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n")
    classes = ("AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM", "AutoTokenizer")
    auto_map = {name: "evil.Evil" for name in classes} | {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    (folder / "config.json").write_text(json.dumps({"model_type": kind, "auto_map": auto_map}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Evil", "auto_map": auto_map}))
    (folder / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    return str(folder)


def test_no_door_runs_code(tmp_path):
    mark = tmp_path / "it-ran"
    folders = [hostile_folder(tmp_path / kind, mark, kind) for kind in ("unknown", "vaswani")]
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([DOORS, folders])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        input="y\n1\n" * 40,
        capture_output=True,
        text=True,
    )
    outcomes = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("[")]
    assert outcomes == [[folder, name, 1] for folder in folders for name in DOORS], result.stderr
    assert "Do you wish to run" not in result.stdout + result.stderr
    assert not mark.exists()
