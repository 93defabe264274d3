"""The browser's engine under Node, and the same checkpoints in PyTorch; without Node these tests are skipped."""

import base64
import json
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from vaswani_transformer import checkpoint_path
from vaswani_transformer.explorer.app import PAGE
from vaswani_transformer.explorer.checkpoints import LoadedCheckpoint, open_checkpoint
from vaswani_transformer.explorer.engine import engine_files
from vaswani_transformer.explorer.responses import model_response


class Node:
    """The engine of a checkpoint in a Node process: `node.ask(method, argument)` returns its response."""

    def __init__(self, checkpoint: LoadedCheckpoint, page: Path, folder: Path):
        self.checkpoint = checkpoint
        for name, content in engine_files(checkpoint).items():
            (folder / name).write_bytes(content)
        (folder / "model.json").write_text(json.dumps(model_response(checkpoint)), encoding="utf-8")
        command = ["node", str(Path(__file__).with_name("answer.mjs")), str(page), str(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, method: str, argument):
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"method": method, "argument": argument}) + "\n")
        self.process.stdin.flush()
        response = json.loads(self.process.stdout.readline())
        assert "stack" not in response, response
        return response

    def tensors(self, request: dict) -> dict[str, torch.Tensor]:
        response = self.ask("tensors", request)
        return {
            name: torch.frombuffer(bytearray(base64.b64decode(tensor["data"])), dtype=torch.float32).view(
                tensor["shape"]
            )
            for name, tensor in response.items()
        }

    def stop(self):
        self.process.communicate()


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    """`node(name)` is the `Node` of an included checkpoint, `node(folder)` that of another one."""
    if shutil.which("node") is None:
        pytest.skip("needs Node, which runs the engine of the page (Debian: nodejs)")
    page = tmp_path_factory.mktemp("engine") / "page"
    shutil.copytree(PAGE, page)
    (page / "package.json").write_text('{"type": "module"}', encoding="utf-8")  # Node takes .js for CommonJS otherwise
    nodes: dict[str, Node] = {}
    with ExitStack() as stack:

        def start(name: str | Path) -> Node:
            if str(name) not in nodes:
                source = name if isinstance(name, Path) else checkpoint_path(name)
                checkpoint = open_checkpoint(Path(source).name, str(source))
                nodes[str(name)] = Node(checkpoint, page, tmp_path_factory.mktemp("checkpoint"))
                stack.callback(nodes[str(name)].stop)
            return nodes[str(name)]

        yield start
