"""Runs a program and writes when its optimizer's steps end, for campaigns that compare two programs.

    python tools/told_steps.py FILE train.py [ARGUMENTS]

Of rank 0 and of the optimizer that steps first alone, as `profile` counts: FILE grows by eight bytes a step, seconds of
the monotonic clock as a C double.
"""

import os
import runpy
import struct
import sys
import time
from pathlib import Path
from typing import Any

FORM = struct.Struct("d")


def read(path: Path) -> list[float]:
    """When each step so far ended; empty when none did."""
    data = path.read_bytes() if path.exists() else b""
    return [at_s for (at_s,) in FORM.iter_unpack(data[: len(data) // FORM.size * FORM.size])]


def main(file: str, program: str) -> None:
    """Runs `program` as the main one."""
    if os.environ.get("RANK", "0") == "0":
        from torch.optim.optimizer import register_optimizer_step_post_hook

        descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

        counted: list[Any] = []

        def tell(optimizer: Any, *_: Any) -> None:
            counted[:] = counted or [optimizer]
            if optimizer is counted[0]:
                os.write(descriptor, FORM.pack(time.monotonic()))

        register_optimizer_step_post_hook(tell)
    sys.argv = sys.argv[2:]
    sys.path[0] = os.fspath(Path(program).resolve().parent)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
