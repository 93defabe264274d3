"""Memory that a process keeps after tensors are freed, and returns on request."""

import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


# Prints the process's memory in MB: with 300 MB of tensors, after they are freed, and after unused pages are returned.
FREES_TENSORS = """
import resource
from pathlib import Path
import torch
from vaswani_transformer.system.memory import keep_freed_memory, return_unused_memory

def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 10**6

keep_freed_memory()
tensors = [torch.ones(500_000 + i) for i in range(150)]
print(megabytes())
del tensors
print(megabytes())
return_unused_memory()
print(megabytes())
"""
KEEP = {"MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1"}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
@pytest.mark.parametrize("allocator", ["c", "jemalloc"])
def test_freed_memory_is_kept_until_it_is_returned(allocator):
    library = ctypes.util.find_library(allocator)
    if library is None:
        pytest.skip(f"lib{allocator} is not installed")
    environment = os.environ | KEEP | {"LD_PRELOAD": library if allocator != "c" else ""}
    command = [sys.executable, "-c", FREES_TENSORS]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    full, freed, returned = map(int, output.split())
    assert freed > full - 50
    assert returned < full - 200
