"""Choosing a run's folder.

[Note: never mixed]
A folder holds one training: one recipe whose values decide the curve, one data set. A start with another recipe either
goes to a new folder or is refused with the keys that differ. A layout, a device or a schedule may change in a run that
goes on, since a save fits every layout, but only when a resume is asked for by name: the sums then add up in another
order and the curve differs in the last bits.
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from emberward.findings import ConfigError
from emberward.recipe import Difference, Resolved, differences, read_resolved, write_resolved
from emberward.report import RunFolder, read_json, write_json

_MAY_MOVE = ("layout.", "batch.micro_batch", "batch.accumulation", "schedule", "device")
_MAY_GROW = ("steps", "train_samples")


class Intent(StrEnum):
    """What the person asked for: nothing said, ``--fresh``, or ``--resume``."""

    AUTO = "auto"
    FRESH = "fresh"
    RESUME = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a start goes. `why` says in one line, for people and the attempts' diary, what was decided."""

    folder: RunFolder
    is_resume: bool
    why: str


def new_id() -> str:
    """An id for a new run: the local time, for people, and four random hex digits, for two starts in one second."""
    return f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def recipe_digest(resolved: Resolved) -> str:
    """sha256 of the resolved recipe's values; the same for the same values wherever they came from."""
    return hashlib.sha256(repr(resolved.recipe).encode()).hexdigest()


def choose_run(runs: Path, resolved: Resolved, *, intent: Intent, run_id: str | None, new_id: str) -> Start:
    """The folder under `runs` for this start. Reads the folders of the recipe's name; writes nothing.

    `run_id` names the run to resume, `new_id` what a new one would be called. Raises ConfigError C107 when a run that
    would go on was started with another recipe, or when there is none to resume.
    """
    shelf = runs / resolved.recipe.name
    fresh = Start(folder=RunFolder(path=shelf / new_id), is_resume=False, why=f"new run {shelf.name}/{new_id}")
    if intent is Intent.FRESH:
        return fresh
    folder = _newest(shelf) if run_id is None else RunFolder(path=shelf / run_id)
    if folder is None or not folder.config.exists():
        if intent is Intent.RESUME:
            raise _nothing_to_resume(shelf, run_id)
        return fresh
    is_done = (read_json(folder.summary) or {}).get("outcome") == "done"
    if is_done and intent is Intent.AUTO:
        return Start(folder=fresh.folder, is_resume=False, why=f"{fresh.why}; {shelf.name}/{folder.id} is done already")
    changed = [each for each in differences(read_resolved(folder.config).recipe, resolved.recipe) if not each.harmless]
    blocking = [each for each in changed if not _is_allowed(each, intent)]
    if blocking:
        may_resume = all(_is_allowed(each, Intent.RESUME) for each in blocking)
        raise _other_recipe(folder, blocking, is_done=is_done, may_resume=may_resume)
    moved = ", ".join(f"{each.key} {each.a} -> {each.b}" for each in changed)
    return Start(
        folder=folder,
        is_resume=True,
        why=f"resumes {shelf.name}/{folder.id}" + (f" with {moved}" if moved else ""),
    )


def begin(start: Start, resolved: Resolved, manifest: Path) -> None:
    """Makes the folder ready for ranks: the resolved recipe and the place of the prepared data, each whole or not."""
    folder = start.folder
    folder.path.mkdir(parents=True, exist_ok=True)
    write_resolved(resolved, folder.config)
    write_json(folder.data, {"manifest": str(manifest.resolve())})


def _newest(shelf: Path) -> RunFolder | None:
    """The run that was started last, by its configuration's time; None when there is none."""
    configs = list(shelf.glob("*/config.resolved.yaml"))
    return RunFolder(path=max(configs, key=lambda path: path.stat().st_mtime).parent) if configs else None


def _is_allowed(difference: Difference, intent: Intent) -> bool:
    """Whether a run may go on with this difference. See [Note: never mixed]."""
    if difference.harmless:
        return True
    return intent is Intent.RESUME and difference.key.startswith((*_MAY_MOVE, *_MAY_GROW, "optim.decay_samples"))


def _nothing_to_resume(shelf: Path, run_id: str | None) -> ConfigError:
    ids = sorted(path.parent.name for path in shelf.glob("*/config.resolved.yaml"))
    return ConfigError(
        "there is no run to resume" if run_id is None else f"there is no run {run_id!r} to resume",
        code="C107",
        where=str(shelf),
        expected="one of " + ", ".join(ids) if ids else "a run that was started before",
        found="none" if not ids else str(run_id),
        next="leave --resume out to start a new run",
    )


def _other_recipe(folder: RunFolder, blocking: list[Difference], *, is_done: bool, may_resume: bool) -> ConfigError:
    shown = "; ".join(f"{each.key} {each.a}" for each in blocking)
    found = "; ".join(f"{each.key} {each.b}" for each in blocking)
    on = "--resume to go on all the same (the last bits may differ), " if may_resume else ""
    return ConfigError(
        f"run {folder.name}/{folder.id} {'is done' if is_done else 'is not finished'} and has another recipe",
        code="C107",
        where=str(folder.config),
        expected=shown,
        found=found,
        next=f"{on}--fresh to start a new run, or the old values to go on",
    )
