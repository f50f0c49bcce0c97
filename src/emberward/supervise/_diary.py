"""The diary of a run: what each attempt began with, how it ended, what it cost."""

import importlib.metadata
import platform
import re
import shlex
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from emberward.findings import Cause
from emberward.report import RunFolder, given_difference, read_lines
from emberward.supervise._host import host_fingerprint
from emberward.supervise._late_lines import LateLines
from emberward.supervise._policy import AttemptOutcome

GIT_LIMIT_S = 5.0
MAX_RUNS_BESIDE = 20
SHORT_COMMIT = 10
MAX_VALUES = 6
"""Values of the configuration that a line each says had changed."""
_PACKAGES = ("emberward", "torch", "numpy", "safetensors")
MACHINE = ("kernel", "machine", "processor", "cores", "memory_bytes")
"""What of a host's fingerprint is worth a line when it changed."""
_SAVE = re.compile(r"step-(\d+)$")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a run's numbers, without importing them."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit_of(folder: Path) -> str | None:
    """The git commit that `folder` is at, with ``+`` when tracked files differ from it; None without git."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=GIT_LIMIT_S, check=False
        )

    try:
        head = git("rev-parse", "HEAD")
        if head.returncode != 0:
            return None
        changed = git("diff", "--quiet", "HEAD").returncode != 0
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("+" if changed else "")


def newest_save(folder: RunFolder) -> tuple[int, float] | None:
    """Step and Unix time of the newest save; None when there is none."""
    found = []
    for path in folder.checkpoints.glob("step-*"):
        if match := _SAVE.fullmatch(path.name):
            found.append((int(match[1]), path.stat().st_mtime))
    return max(found, default=None)


def changes(
    before: Mapping[str, Any] | None, now: Mapping[str, Any], *, values: Sequence[tuple[str, str, str]] = ()
) -> list[str]:
    """What differs between two attempts' starts, one line each: ``torch 2.12.0 -> 2.13.0``. [] when nothing does.

    `values`: key, old and new value of the configuration, where both can still be read.
    """
    if before is None:
        return []
    lines = []
    for key in ("commit", "config", "command", "num_ranks", "host"):
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        if key == "config" and values:
            lines += [f"{name} {was} -> {is_now}" for name, was, is_now in values[:MAX_VALUES]]
            lines += [f"and {len(values) - MAX_VALUES} more values"] if len(values) > MAX_VALUES else []
        elif key == "config":
            lines.append(f"the configuration, {str(old)[:8]} -> {str(new)[:8]}")
        else:
            lines.append(f"{key} {_short(old)} -> {_short(new)}" if key == "commit" else f"{key} {old} -> {new}")

    def differing(old: Mapping[str, Any], new: Mapping[str, Any], names: Iterable[str]) -> list[str]:
        return [f"{name} {old.get(name)} -> {new.get(name)}" for name in names if old.get(name) != new.get(name)]

    if (machine := before.get("machine")) is not None:
        here = now.get("machine") or {}
        lines += differing(machine, here, MACHINE)
        if machine.get("boot") != here.get("boot") and machine.get("host") == here.get("host"):
            lines.append("the machine was started anew")
    had, has = before.get("versions") or {}, now.get("versions") or {}
    return lines + differing(had, has, sorted({*had, *has}))


def differences(first: RunFolder, second: RunFolder) -> list[str]:
    """What differs between the last starts of two runs, as `changes` says it."""
    before, now = (past_attempts(folder)[0] for folder in (first, second))
    return changes(before[-1], now[-1], values=given_difference(first, second)) if before and now else []


def _short(commit: object) -> str:
    """A commit as people write it, with its mark of a changed tree."""
    text = str(commit)
    return text[:SHORT_COMMIT] + ("+" if text.endswith("+") else "") if commit is not None else "none"


def open_attempt(
    folder: RunFolder,
    lines: LateLines,
    *,
    why: str,
    num_ranks: int | None = None,
    config: str | None = None,
    command: Sequence[str] | None = None,
) -> int:
    """The number of the attempt that begins now, whose start line is written, after one that never got its end."""
    lines.flush()
    starts, ends = past_attempts(folder)
    if (orphan := orphan_end(starts, ends)) is not None:
        lines.append(folder.attempts, {**orphan, **_orphan_costs(folder, starts[-1])})
    saved = newest_save(folder)
    start: dict[str, Any] = {
        "event": "start",
        "attempt": max((start.get("attempt", 0) for start in starts), default=0) + 1,
        "start": now_text(),
        "why": why,
        "num_ranks": num_ranks,
        "host": socket.gethostname(),
        "machine": host_fingerprint(),
        "commit": commit_of(Path.cwd()),
        "config": config,
        "versions": versions(),
        "saved_step": None if saved is None else saved[0],
        "before": _left_before(folder),
    }
    if command is not None:
        start["command"] = shlex.join(command)
    if (own := last_good_start(starts, ends)) is not None:
        start["changed"] = changes(own, start)
    elif (found := _good_start_beside(folder)) is not None:
        beside, before = found
        start["changed"] = changes(before, start, values=given_difference(beside, folder))
    else:
        start["changed"] = []
    lines.append(folder.attempts, start)
    return int(start["attempt"])


def _left_before(folder: RunFolder) -> dict[str, int | None]:
    """What earlier attempts left where this one's evidence comes to lie: bytes of files that go on, None of folders."""
    files = [folder.findings, *sorted(folder.logs.glob("rank*.log"))]
    folders = [*folder.early_logs.glob("*"), *(folder.path / "hosts").glob("*/*")]
    sizes: dict[Path, int | None] = {path: path.stat().st_size for path in files if path.exists()}
    sizes |= dict.fromkeys(sorted(path for path in folders if path.is_dir()))
    return {str(path.relative_to(folder.path)): size for path, size in sizes.items()}


def _good_start_beside(folder: RunFolder) -> tuple[RunFolder, Mapping[str, Any]] | None:
    """The newest run of the same name in which an attempt ended well, and the start of its last; None without one."""
    diaries = [path for path in folder.path.parent.glob("*/attempts.jsonl") if path != folder.attempts]
    try:
        diaries.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return None
    for path in diaries[:MAX_RUNS_BESIDE]:
        beside = RunFolder(path=path.parent)
        if (found := last_good_start(*past_attempts(beside))) is not None:
            return beside, found
    return None


def now_text() -> str:
    """The time for the diary: UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def past_attempts(folder: RunFolder) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The start lines and the end lines so far."""
    lines = list(read_lines(folder.attempts))
    return [line for line in lines if line.get("event") == "start"], [
        line for line in lines if line.get("event") == "end"
    ]


def last_good_start(starts: Sequence[Mapping[str, Any]], ends: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The start of the last attempt that ended done or stopped; None when there is none."""
    good = {
        end.get("attempt")
        for end in ends
        if end.get("outcome") in (AttemptOutcome.DONE.value, AttemptOutcome.STOPPED.value)
    }
    return next((start for start in reversed(starts) if start.get("attempt") in good), None)


def costs_of(folder: RunFolder, outcome: AttemptOutcome, *, start_unix: float, end_unix: float) -> dict[str, Any]:
    """The part of an end line that the run's files tell: steps, the newest save, and what is lost.

    That is the work which the next attempt must do again: the time since this attempt's last save, or its start; none
    when it ended done or stopped, for then its last act was a save.
    """
    steps = [line["step"] for line in read_lines(folder.metrics) if isinstance(line.get("step"), int)]
    saved_step, saved_unix = newest_save(folder) or (None, start_unix)
    is_kept = outcome in (AttemptOutcome.DONE, AttemptOutcome.STOPPED)
    lost_s = 0.0 if is_kept else max(end_unix - max(start_unix, saved_unix), 0.0)
    return {"last_step": max(steps, default=None), "saved_step": saved_step, "hours_lost": lost_s / 3600}


def orphan_end(starts: Sequence[Mapping[str, Any]], ends: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """An end line for the last attempt when it has none: its launcher died. None when every attempt has its end."""
    if not starts or any(end.get("attempt") == starts[-1].get("attempt") for end in ends):
        return None
    return {
        "event": "end",
        "attempt": starts[-1].get("attempt"),
        "outcome": None,
        "why": "the launcher died before it could write this line",
    }


def _orphan_costs(folder: RunFolder, start: Mapping[str, Any]) -> dict[str, Any]:
    """What of an attempt's end its files still tell when nobody wrote it down; {} where they tell nothing.

    It lasted to its last step, as far as is known. Call it before a resume cuts the metrics.
    """
    try:
        start_unix = datetime.fromisoformat(start["start"]).timestamp()
        end_unix = max(folder.metrics.stat().st_mtime, start_unix)
    except (KeyError, TypeError, ValueError, OSError):
        return {}
    return {
        "end": datetime.fromtimestamp(end_unix, UTC).isoformat(timespec="seconds"),
        "cause": Cause.UNKNOWN.value,
        "hours": (end_unix - start_unix) / 3600,
        **costs_of(folder, AttemptOutcome.KILLED, start_unix=start_unix, end_unix=end_unix),
    }
