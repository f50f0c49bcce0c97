"""What matrix products this machine's processors reach, for the utilisation of a job that ran on them.

No torch here: a child process measures, and only where its Python has torch.
"""

import json
import os
import subprocess
import sys
from typing import Any

LIMIT_S = 60.0
SIZE = 1024
SECONDS = 0.5
_CHILD = """
import json, sys, time
import torch
size, seconds, threads, dtype = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), getattr(torch, sys.argv[4])
torch.set_num_threads(threads)
a, b = (torch.randn(size, size).to(dtype) for _ in range(2))
best, end = float("inf"), time.perf_counter() + seconds
while time.perf_counter() < end:
    begin = time.perf_counter()
    torch.mm(a, b)
    best = min(best, time.perf_counter() - begin)
print(json.dumps(2 * size**3 / best))
"""


def usable_cores() -> int:
    """Processors that this process may use, 1 at least."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measured_peak(*, threads: int, ranks: int, dtype: str) -> dict[str, Any] | None:
    """Operations a second of one of `ranks` ranks on this host, and what was measured; None without torch.

    The best of the products of two square matrices that fit into half a second, by as many threads as a rank has. More
    ranks and threads than processors share what all processors reach. Starts a process, blocks for some seconds.
    """
    cores = usable_cores()
    used = min(threads, cores)
    command = [sys.executable, "-c", _CHILD, str(SIZE), str(SECONDS), str(used), dtype]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        rate = float(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    share = min(1.0, cores / (ranks * used))
    what = f"measured here: product of two {dtype} matrices of {SIZE}, {used} thread{'s' if used > 1 else ''}"
    return {"flops_per_s": rate * share, "of": what if share == 1 else f"{what}, {share:.2f} of it a rank"}
