"""The machine: its name beside a figure, and what it is slow at."""

import platform
from pathlib import Path
from time import perf_counter


def processor() -> str:
    """The processor's name, as its maker or the virtual machine calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def cost_of_bfloat16(times: int = 5) -> float:
    """How many times as long this processor needs for a matrix product in bfloat16 as in float32.

    Without instructions for it more than once: with AVX2 alone, some shapes took 8 times as long, others 100.
    """
    import torch

    def seconds(kind: torch.dtype) -> float:
        rows, matrix = torch.ones(1024, 256, dtype=kind), torch.ones(256, 256, dtype=kind)
        found = []
        for _ in range(times):
            start = perf_counter()
            rows @ matrix
            found.append(perf_counter() - start)
        return min(found)

    return seconds(torch.bfloat16) / seconds(torch.float32)
