"""Whether somebody still watches a run: a blind watcher must not look like a healthy one."""

from collections.abc import Mapping
from typing import Any

from emberward.findings import Finding, Severity, observed
from emberward.report import RunFolder, duration_text, read_json, read_outcome
from emberward.supervise._lock import is_abandoned

SILENT_S = 30.0


def silence_finding(folder: RunFolder, *, now_unix: float) -> Finding | None:
    """The finding that a run without an end has no living supervisor; None when it has one, or never had any."""
    said = read_json(folder.supervisor)
    if said is None or read_outcome(folder) is not None:
        return None
    return judge_heartbeat(said, now_unix=now_unix)


def facts_of(folder: RunFolder, now_unix: float) -> tuple[bool, tuple[Finding, ...]]:
    """Whether the run's launcher is gone, and the finding that nobody watches it, if that holds. Reads small files."""
    silence = silence_finding(folder, now_unix=now_unix)
    return is_abandoned(folder) or silence is not None, () if silence is None else (silence,)


def judge_heartbeat(said: Mapping[str, Any], *, now_unix: float) -> Finding | None:
    """The finding for what ``supervisor.json`` says, SILENT_S after its last word; None while it is fresh."""
    last, host, pid = said.get("time_unix"), said.get("host"), said.get("pid")
    if said.get("state") != "runs" or not isinstance(last, int | float) or now_unix - last <= SILENT_S:
        return None
    return observed(
        "L110",
        f"nobody watches the run: the last heartbeat of its supervisor is {duration_text(now_unix - last)} old",
        severity=Severity.WARNING,
        hosts=(str(host),) if host else (),
        evidence=(f"supervisor.json of attempt {said.get('attempt')}, pid {pid} on {host}",),
        next=f"ps -p {pid}   (on {host}); if it is gone, end the job's processes and start the same command again",
    )
