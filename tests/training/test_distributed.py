"""Two processes (gloo, on this machine) against one: the same losses, plans and checkpoints, with DDP and FSDP2."""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy_data import arguments, copy_run, finish, interrupt, logged, run_here, start
from waiting import TIMEOUT

from training import run as run_module


# Without dropout, whose random numbers are each process's own; clipped, since that needs all processes; and with some
# batches that have fewer pairs than there are processes and parts.
OVERRIDES = [
    *("model.dropout=0.0", "optimisation.max_steps=6", "optimisation.max_grad_norm=0.5", "data.max_length=18"),
    *("optimisation.batch_tokens=50", "checkpointing.log_steps=2", "checkpointing.validation_steps=3"),
]
FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "VaswaniEncoderLayer,VaswaniDecoderLayer",
}


@pytest.fixture(scope="module")
def one(toy, cache, tmp_path_factory):
    """The run of one process."""
    output = tmp_path_factory.mktemp("one") / "run"
    run_here(toy, output, *OVERRIDES, cache=cache)
    return output


def free_port() -> int:
    """Return a port below the ephemeral range; each test process has its own range."""
    for port in range(20_000 + os.getpid() % 1000 * 10, 32_000):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


def shard_on_processor():
    """Accelerate accepts FSDP on a CPU only with its own launchers; torch's fully_shard works there."""
    from accelerate.state import AcceleratorState
    from accelerate.utils import DistributedType

    original = AcceleratorState.__init__

    def patched(self, *args, fsdp_plugin=None, **kwargs):
        original(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None:
            self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, fsdp_plugin

    AcceleratorState.__init__ = patched


def note_plans(folder, then=None):
    """Writes down a digest of every plan, by process."""
    original = run_module.plan_batches

    def plan_batches(*args):
        plan = original(*args)
        with (folder / f"plans.{os.environ['RANK']}").open("a") as file:
            print(len(plan), hashlib.sha256(np.concatenate(plan).tobytes()).hexdigest(), file=file)
        return plan

    run_module.plan_batches = plan_batches
    if then:
        then()


def start_two(command, folder, environment=None, before=(None, None)):
    """What torchrun starts, without its own seconds."""
    port = str(free_port())
    processes = []
    for rank in (0, 1):
        variables = {
            **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ACCELERATE_USE_CPU": "true", **(environment or {})},
        }
        processes.append(start(command, folder / f"out.{rank}", variables, before[rank]))
    return [finish(process, folder / f"out.{rank}") for rank, process in enumerate(processes)]


def assert_like(run, expected):
    for key in ("loss", "validation_loss"):
        assert logged(run, key) == pytest.approx(logged(expected, key), rel=1e-4)
    means = [load_file(each / "model" / "model.safetensors") for each in (run, expected)]
    for name in means[1]:
        torch.testing.assert_close(means[0][name], means[1][name], rtol=1e-3, atol=1e-4, msg=name)


def test_torchrun_gives_the_losses_of_one_process(toy, cache, one, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "training.train", *arguments(toy, tmp_path / "run", *OVERRIDES, cache=cache)]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("the mean of") == 1, "only the main process reports"
    assert_like(tmp_path / "run", one)


@pytest.fixture(scope="module")
def two(toy, cache, one, tmp_path_factory):
    """A run of two processes with two micro-batches each, which stopped at step 4 since the first got SIGTERM."""
    folder = tmp_path_factory.mktemp("two")
    asked = partial(interrupt, 1, str(folder / "run" / "log.jsonl"), signal.SIGTERM)
    before = partial(note_plans, folder, asked), partial(note_plans, folder)
    command = arguments(toy, folder / "run", *OVERRIDES, "optimisation.micro_batches=2", cache=cache)
    return folder, start_two(command, folder, before=before)


def test_both_see_the_same_plan_and_stop_together(two):
    folder, results = two
    assert [code for code, _ in results] == [1, 1]
    assert "Stopped after step 4 and saved it" in results[0][1]
    plans = [(folder / f"plans.{rank}").read_text() for rank in (0, 1)]
    assert plans[0] == plans[1] and plans[0].count("\n") >= 2


def test_each_process_has_random_numbers_of_its_own(two):
    generators = load_file(two[0] / "run" / "checkpoint-0000004" / "random.safetensors")
    assert sorted(generators) == ["cpu.0", "cpu.1"]
    assert not torch.equal(generators["cpu.0"], generators["cpu.1"]), "both drop out the same units"


def test_one_process_resumes_from_two(toy, cache, one, two, tmp_path):
    output = copy_run(two[0] / "run", tmp_path / "run")
    run_here(toy, output, *OVERRIDES, cache=cache)
    assert_like(output, one)


@pytest.fixture(scope="module")
def sharded(toy, cache, one, tmp_path_factory):
    """FSDP2 resumed from the third step of a single process: (folder, results)."""
    folder = tmp_path_factory.mktemp("sharded")
    copy_run(one, folder / "run", steps=3)
    command = arguments(toy, folder / "run", *OVERRIDES, "checkpointing.bleu_steps=6", cache=cache)
    return folder, start_two(command, folder, FSDP, before=2 * [shard_on_processor])


def test_shards_resume_from_one_process(one, sharded):
    folder, results = sharded
    assert [code for code, _ in results] == [0, 0], results
    assert f"resuming from {folder / 'run' / 'checkpoint-0000003'}" in results[0][1]
    assert "sacreBLEU" in results[0][1] and "sacreBLEU" not in results[1][1]
    assert_like(folder / "run", one)


def test_shards_from_the_start_with_micro_batches_and_one_process_after(toy, cache, one, tmp_path):
    command = arguments(toy, tmp_path / "run", *OVERRIDES, cache=cache)
    more = ["--set", "optimisation.max_steps=4", "--set", "optimisation.micro_batches=2"]
    results = start_two([*command, *more], tmp_path, FSDP, before=2 * [shard_on_processor])
    assert [code for code, _ in results] == [0, 0], results
    shutil.rmtree(tmp_path / "run" / "checkpoint-0000004")  # its step is not a multiple of save_steps
    run_here(toy, tmp_path / "run", *OVERRIDES, cache=cache)
    assert_like(tmp_path / "run", one)


def test_two_processes_resume_from_one(toy, cache, one, tmp_path):
    copy_run(one, tmp_path / "run", steps=3)
    results = start_two(arguments(toy, tmp_path / "run", *OVERRIDES, cache=cache), tmp_path)
    assert [code for code, _ in results] == [0, 0], results
    assert_like(tmp_path / "run", one)
