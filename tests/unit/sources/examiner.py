"""Examines scripts from one warm process, which has imported torch: what ``emberward check --nproc`` says of them."""

import atexit
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

from emberward.cli._console import Screen
from emberward.cli._examine import ExamineOptions, examine


class Examiner:
    """`snapshot` gives (exit code, JSON document) of a script. `start` runs the job of a folder to its end."""

    def __init__(self, server: subprocess.Popen) -> None:
        self._server = server

    def start(self, folder, job, environment) -> str:
        order = {"folder": str(folder.path), "environment": {**environment, "OMP_NUM_THREADS": "1"}}
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        assert self._server.stdout.readline().strip() == str(folder.path)
        return ""

    def examine(self, capsys, path: Path, num_ranks: int, *arguments: str, max_steps=None, time_limit_s=100.0):
        options = ExamineOptions(
            words=(str(path), *arguments),
            num_ranks=num_ranks,
            max_steps=max_steps,
            time_limit_s=time_limit_s,
            environment=dict(os.environ),
        )
        code = examine(options, Screen(is_json=True), start=self.start)
        return code, json.loads(capsys.readouterr().out)


@functools.cache
def warm_examiner() -> Examiner:
    """The examiner of all tests of this process."""
    server = subprocess.Popen(
        (sys.executable, "-m", "emberward.sources.script.child", "--serve"),
        env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def close() -> None:
        server.stdin.close()
        server.wait(timeout=60)
        server.stdout.close()

    atexit.register(close)
    return Examiner(server)
