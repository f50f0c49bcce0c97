"""What the operations of a job take in another form that torch has, on this machine's processors, after the job.

See [Note: other forms] in `sources._forms`. No torch here: a child process measures, and only where its Python has
torch.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LIMIT_S = 120.0
MAX_FORMS = 12
"""Of a job are measured, the dearest first."""


def measured_forms(forms: Sequence[Mapping[str, Any]], *, threads: int) -> list[dict[str, Any]]:
    """For each of at most `MAX_FORMS` forms `now_s`, `other_s` and their quartiles, forward and backward as it has
    them, and `forward_s` of the present one; empty without torch. Starts a process, blocks for a second a form."""
    if not forms:
        return []
    try:
        with tempfile.TemporaryDirectory() as folder:
            times = Path(folder, "times.json")
            command = [sys.executable, "-m", "emberward.sources._form_times", str(threads), str(times)]
            asked = json.dumps(forms[:MAX_FORMS])
            subprocess.run(command, input=asked, capture_output=True, text=True, timeout=LIMIT_S, check=True)
            return list(json.loads(times.read_text(encoding="utf-8")))
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
