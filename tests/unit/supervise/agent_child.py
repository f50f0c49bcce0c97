"""Stands for torch's elastic agent: ``agent_child.py FOLDER BEHAVIOUR...``, one rank for each behaviour.

It ends the others when one failed, and reports what failed before that in the words of torch 2.13.
"""

import subprocess
import sys
import time
from pathlib import Path

FOLDER, BEHAVIOURS = sys.argv[1], sys.argv[2:]
CHILD = str(Path(__file__).with_name("rank_child.py"))
ranks = [
    subprocess.Popen([sys.executable, CHILD, FOLDER, str(rank), str(len(BEHAVIOURS)), behaviour])
    for rank, behaviour in enumerate(BEHAVIOURS)
]
while not any(process.poll() not in (None, 0) for process in ranks):
    if all(process.returncode == 0 for process in ranks):
        raise SystemExit(0)
    time.sleep(0.02)
# Asked again: the first to fail may have ended after it was asked, and before the one whose end was seen.
failed = [rank for rank, process in enumerate(ranks) if process.poll() not in (None, 0)]
report = [
    f"[{n}]:\n  rank      : {rank} (local_rank: {rank})\n"
    f"  exitcode  : {ranks[rank].returncode} (pid: {ranks[rank].pid})"
    for n, rank in enumerate(failed)
]
for process in ranks:
    process.terminate()
for process in ranks:
    try:
        process.wait(20.0)
    except subprocess.TimeoutExpired:
        process.kill()
print("\n".join(report), flush=True)  # noqa: T201
raise SystemExit(1)
