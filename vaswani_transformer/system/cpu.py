"""Describes the CPU: its name, for records of measurements, and its speed in bfloat16."""

import platform
from pathlib import Path
from time import perf_counter


def cpu_name() -> str:
    """Returns the name of the CPU, as its vendor or the virtual machine reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def bfloat16_slowdown(times: int = 5) -> float:
    """Returns the time of a matrix product in bfloat16, as a multiple of its time in float32.

    It is above 1 on a CPU without bfloat16 instructions. With only AVX2, products took 8 to 100 times as long,
    depending on their shapes.
    """
    import torch

    def seconds(dtype: torch.dtype) -> float:
        rows, matrix = torch.ones(1024, 256, dtype=dtype), torch.ones(256, 256, dtype=dtype)
        durations = []
        for _ in range(times):
            start = perf_counter()
            rows @ matrix
            durations.append(perf_counter() - start)
        return min(durations)

    return seconds(torch.bfloat16) / seconds(torch.float32)
