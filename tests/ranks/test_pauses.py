"""Two jobs under `emberward run` with a limit on silence: one shows progress and lives, one shows none and is ended."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

JOB = Path(__file__).parent / "pauses" / "job.py"
PAUSE_S = {"upload": 25, "command": 900}
"""An upload of twice the limit on silence shows in system calls that return; a `sleep` that is waited for, nowhere."""
OPTIONS = ("--act-after", "2", "--max-silence", "12", "--grace-s", "2")
LIMIT_S = 200


def _run(folder: Path, kind: str) -> tuple[int, list[dict]]:
    command = [
        sys.executable, "-m", "emberward", "run", *OPTIONS, "--runs", str(folder), "--name", kind, "--",
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
        "--rdzv-endpoint", "127.0.0.1:0", str(JOB), kind, str(PAUSE_S[kind]),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, timeout=LIMIT_S)
    (found,) = folder.glob(f"{kind}/*/findings.jsonl")
    return done.returncode, [json.loads(line) for line in found.read_text().splitlines()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pauses")
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(PAUSE_S, pool.map(lambda kind: _run(folder, kind), PAUSE_S), strict=True))


def test_a_job_that_makes_progress_is_never_ended(runs):
    code, found = runs["upload"]
    assert (code, [each for each in found if each["severity"] == "error"]) == (0, [])
    assert [each["culprit_ranks"] for each in found if each["code"] == "H101"] == [[0]], "it was seen to be away"


def test_a_job_without_progress_is_ended_when_the_user_asked_and_told_so_before(runs):
    code, found = runs["command"]
    assert code != 0
    codes = [each["code"] for each in found]
    (error,) = [each for each in found if each["severity"] == "error"]
    assert (error["code"], error["culprit_ranks"], error["cause"]) == ("H101", [0], "subprocess")
    assert error["certainty"] != "proved"
    assert "--max-silence" in error["evidence"][-1]
    assert error["site"].startswith("job.py:")
    assert codes.index("L115") < len(codes) - 1 - codes[::-1].index("H101")
