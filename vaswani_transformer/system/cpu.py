"""The CPU: its name, for the record of a measurement, and how slow it is in bfloat16."""

import platform
from pathlib import Path
from time import perf_counter


def cpu_name() -> str:
    """Returns the CPU's name as its vendor or the virtual machine gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def bfloat16_slowdown(times: int = 5) -> float:
    """Measures the time of a matrix product in bfloat16 as a multiple of its time in float32.

    It is above 1 on a CPU without instructions for bfloat16: with AVX2 alone, some shapes took 8 times as long, others
    100 times.
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
