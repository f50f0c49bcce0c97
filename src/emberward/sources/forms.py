"""What the operations of a job take in another form that torch has, on this machine's processors, after the job.

See [Note: other forms] in `sources._forms`. No torch here: a child process measures, and only where its Python has
torch.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from emberward.sources.peak import usable_cores

LIMIT_S = 120.0
MAX_FORMS = 12
"""Of a job are measured, the dearest first."""


def measured_forms(forms: Sequence[Mapping[str, Any]], *, threads: int, ranks: int) -> list[dict[str, Any]]:
    """For each of at most `MAX_FORMS` forms `now_s`, `other_s` and their quartiles, forward and backward as it has
    them; empty without torch. Starts as many processes as ranks and processors allow, which share the host as ranks
    do, and takes what the first one says. Blocks for a second a form."""
    cores = usable_cores()
    asked = json.dumps(forms[:MAX_FORMS])
    try:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            times = [Path(folder, f"times{number}.json") for number in range(min(ranks, max(cores // threads, 1)))]
            running = []
            for path in times:
                command = [sys.executable, "-m", "emberward.sources._form_times", str(threads), str(path)]
                child = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL))
                stack.callback(child.kill)
                running.append(child)
            for child in running:
                assert child.stdin is not None
                child.stdin.write(asked.encode())
                child.stdin.close()
            for child in running:
                child.wait(timeout=LIMIT_S)
            return list(json.loads(times[0].read_text(encoding="utf-8")))
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
