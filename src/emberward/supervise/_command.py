"""What the launcher starts: torch's elastic agent, as a child process that shares nothing but the run's folder."""

import sys
from collections.abc import Mapping
from pathlib import Path

from emberward.report import RunFolder

KILL_SWITCH = "EMBERWARD_KILL_SWITCH"
"""As `rank.__main__` reads it: neither room may import the other."""
AGENT_SHUTDOWN_S = 5
MONITOR_INTERVAL_S = 0.2


def agent_command(*, folder: RunFolder, num_ranks: int, attempt: int, python: str = sys.executable) -> tuple[str, ...]:
    """The argv of the agent for `num_ranks` ranks on this machine, each ``python -m emberward.rank --folder FOLDER``.

    Everything listens and connects on 127.0.0.1, on a free port. The agent restarts nothing: a restart is the
    launcher's decision. What a rank writes before it opens its own log lies under ``logs/launch``.
    """
    return (
        python,
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        f"--nproc-per-node={num_ranks}",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=127.0.0.1:0",
        f"--rdzv-id={folder.id}-attempt{attempt}",
        "--local-addr=127.0.0.1",
        "--max-restarts=0",
        f"--monitor-interval={MONITOR_INTERVAL_S}",
        "--redirects=3",
        f"--log-dir={folder.early_logs}",
        "-m",
        "emberward.rank",
        "--folder",
        str(folder.path),
    )


def agent_environment(base: Mapping[str, str], *, is_restart: bool = False) -> dict[str, str]:
    """The environment of the agent and its ranks: `base` with what ranks need and what keeps torch quiet.

    OMP_NUM_THREADS is 1 unless it is set: ranks share the cores, and torchrun would set it with a banner.
    `is_restart`: nobody is there to be asked, so that ranks pass over a damaged save.
    """
    return {
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "PYTHONUNBUFFERED": "1",
        **base,
        "EMBERWARD_SUPERVISED": "1",
        "EMBERWARD_RELAUNCHED": "1" if is_restart else "0",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(AGENT_SHUTDOWN_S),
    }


def absolute(path: Path) -> Path:
    """`path` from the root, so that it means the same to a child process."""
    return path.expanduser().absolute()
