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
from emberward.recipe import Difference, Resolved, differences, read_resolved, value_text, write_resolved
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


def choose_run(
    runs: Path,
    resolved: Resolved,
    *,
    intent: Intent,
    run_id: str | None,
    new_id: str,
    command: str,
    may_move: bool = False,
) -> Start:
    """The folder under `runs` for this start. Reads the folders of the recipe's name; writes nothing.

    `run_id` names the run to resume, `new_id` what a new one would be called, `command` is what the person typed,
    without those. `may_move`: the layout may change without being asked, as where the number of hosts may. A run that
    never trained a step and has another recipe holds nothing and is passed over. Raises ConfigError C107 when a run
    that would go on was started with another recipe, or when there is none to resume.
    """
    root = runs / resolved.recipe.name
    fresh = Start(folder=RunFolder(path=root / new_id), is_resume=False, why=f"new run {root.name}/{new_id}")
    if intent is Intent.FRESH:
        return fresh
    passed_over = ""
    for folder in _newest_first(root) if run_id is None else [RunFolder(path=root / run_id)]:
        if not folder.config.exists():
            break
        if (read_json(folder.summary) or {}).get("outcome") == "done" and intent is Intent.AUTO:
            why = f"{fresh.why}; {root.name}/{folder.id} is done already"
            return Start(folder=fresh.folder, is_resume=False, why=why)
        changed = [
            each for each in differences(read_resolved(folder.config).recipe, resolved.recipe) if not each.harmless
        ]
        blocking = [
            each for each in changed if not (_is_allowed(each, intent) or (may_move and each.key.startswith(_MAY_MOVE)))
        ]
        if blocking and run_id is None and not has_trained(folder):
            passed_over = f"; {root.name}/{folder.id} never trained a step and has another recipe"
            continue
        if blocking:
            raise _other_recipe(folder, blocking, command=command, run_id=run_id)
        moved = ", ".join(f"{each.key} {value_text(each.a)} -> {value_text(each.b)}" for each in changed)
        why = f"resumes {root.name}/{folder.id}" + (f" with {moved}" if moved else "")
        return Start(folder=folder, is_resume=True, why=why + passed_over)
    if intent is Intent.RESUME:
        raise _nothing_to_resume(root, run_id, command)
    return Start(folder=fresh.folder, is_resume=False, why=fresh.why + passed_over)


def has_trained(folder: RunFolder) -> bool:
    """Whether any attempt of the run logged a step or saved. Reads names and sizes."""
    metrics = folder.metrics
    return (metrics.exists() and metrics.stat().st_size > 0) or any(folder.checkpoints.glob("step-*"))


def begin(start: Start, resolved: Resolved, manifest: Path) -> None:
    """Makes the folder ready for ranks: the resolved recipe and the place of the prepared data, each whole or not."""
    folder = start.folder
    folder.path.mkdir(parents=True, exist_ok=True)
    write_resolved(resolved, folder.config)
    write_json(folder.data, {"manifest": str(manifest.resolve())})


def _newest_first(root: Path) -> list[RunFolder]:
    """The runs, the one that was started last first, by their configurations' times."""
    configs = sorted(root.glob("*/config.resolved.yaml"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [RunFolder(path=path.parent) for path in configs]


def _is_allowed(difference: Difference, intent: Intent) -> bool:
    """Whether a run may go on with this difference. See [Note: never mixed]."""
    if difference.harmless:
        return True
    return intent is Intent.RESUME and difference.key.startswith((*_MAY_MOVE, *_MAY_GROW, "optim.decay_samples"))


def _nothing_to_resume(root: Path, run_id: str | None, command: str) -> ConfigError:
    ids = sorted(path.parent.name for path in root.glob("*/config.resolved.yaml"))
    return ConfigError(
        "there is no run to resume" if run_id is None else f"there is no run {run_id!r} to resume",
        code="C107",
        where=str(root),
        expected="one of " + ", ".join(ids) if ids else "a run that was started before",
        found="none" if not ids else "none that trained a step" if run_id is None else run_id,
        next=f"{command} --run-id {ids[-1]}" if ids and run_id is not None else f"{command}      (starts a new run)",
    )


def _other_recipe(folder: RunFolder, blocking: list[Difference], *, command: str, run_id: str | None) -> ConfigError:
    is_done = (read_json(folder.summary) or {}).get("outcome") == "done"
    may_resume = all(_is_allowed(each, Intent.RESUME) for each in blocking)
    again = f"{command} --resume" if run_id is None else f"{command} --run-id {run_id}"
    on = f", or {again} to go on all the same (the last bits may differ)" if may_resume else ""
    return ConfigError(
        f"run {folder.name}/{folder.id} {'is done' if is_done else 'is not finished'} and has another recipe",
        code="C107",
        where=str(folder.config),
        expected=" ".join(f"{each.key}={value_text(each.a)}" for each in blocking),
        found=" ".join(f"{each.key}={value_text(each.b)}" for each in blocking),
        next=f"{command} --fresh{on}",
    )
