"""The diary of a run: what each attempt began with, how it ended, what it cost."""

import importlib.metadata
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emberward.report import RunFolder, read_lines
from emberward.supervise._policy import Outcome

GIT_LIMIT_S = 5.0
_PACKAGES = ("emberward", "torch", "numpy", "safetensors")
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


def changes(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """What differs between two attempts' starts, one line each: ``torch 2.12.0 -> 2.13.0``. [] when nothing does."""
    if before is None:
        return []
    lines = []
    for key in ("commit", "config", "num_ranks", "host"):
        if before.get(key) != now.get(key):
            lines.append(f"{key} {before.get(key)} -> {now.get(key)}")
    old, new = before.get("versions") or {}, now.get("versions") or {}
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            lines.append(f"{name} {old.get(name)} -> {new.get(name)}")
    return lines


def past_attempts(folder: RunFolder) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The start lines and the end lines so far."""
    lines = list(read_lines(folder.attempts))
    return [line for line in lines if line.get("event") == "start"], [
        line for line in lines if line.get("event") == "end"
    ]


def last_good_start(starts: Sequence[Mapping[str, Any]], ends: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The start of the last attempt that ended done or stopped; None when there is none."""
    good = {end.get("attempt") for end in ends if end.get("outcome") in (Outcome.DONE.value, Outcome.STOPPED.value)}
    return next((start for start in reversed(starts) if start.get("attempt") in good), None)


def lost_s(*, outcome: Outcome, start_unix: float, end_unix: float, save_unix: float | None) -> float:
    """Seconds of work that the next attempt must do again: the time since this attempt's last save, or its start.

    0 when the attempt ended done or stopped, for then its last act was a save.
    """
    if outcome in (Outcome.DONE, Outcome.STOPPED):
        return 0.0
    since = start_unix if save_unix is None else max(start_unix, save_unix)
    return max(end_unix - since, 0.0)


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
