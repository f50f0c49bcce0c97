"""Going back to a save of a run and on from there otherwise: a recorded act that can be undone.

What a rewind takes out of the run (later saves, metrics, evaluations) lies whole in ``rewound/NNN``; the list of
rewinds that hold is ``detours.json``, which every rank reads; ``attempts.jsonl`` has a line for each act. No torch.
"""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward import checkpoint
from emberward.findings import ConfigError
from emberward.health import Detour
from emberward.report import RunFolder, append_line, read_json, read_lines, write_json

_COPIED = ("metrics.jsonl", "evals.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """What a person asks for: go back to the save of `step` and on from there otherwise. See `Detour`."""

    step: int
    skip_samples: int = 0
    lr_scale: float = 1.0
    lr_steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Who rewinds, when (ISO 8601) and why: what the diary keeps."""

    who: str
    time: str
    why: str | None


def read_detours(folder: RunFolder) -> tuple[Detour, ...]:
    """The rewinds of the run that hold, in order; () without any. Raises ConfigError R106 when the list is damaged."""
    if not folder.detours.exists():
        return ()
    said = read_json(folder.detours)
    try:
        return tuple(Detour.from_json(each) for each in (said or {})["detours"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            "the list of rewinds cannot be read",
            code="R106",
            where=str(folder.detours),
            expected="what emberward train --rewind wrote",
            found=f"{type(error).__name__}: {error}",
            next="restore the file: without it a resume would read other samples than before",
        ) from error


def plan_rewind(folder: RunFolder, wanted: Rewind) -> Detour:
    """The detour that the rewind would make. Reads only. Raises ConfigError R106 when it is not possible."""
    if (wanted.lr_scale != 1.0) != (wanted.lr_steps > 0) or wanted.lr_scale <= 0 or wanted.skip_samples < 0:
        raise ConfigError(
            "the rewind contradicts itself",
            code="R106",
            where="--lr-scale, --for-steps, --skip-samples",
            expected="--lr-scale above 0 together with --for-steps, and --skip-samples of at least 0",
            found=f"--lr-scale {wanted.lr_scale:g} --for-steps {wanted.lr_steps} --skip-samples {wanted.skip_samples}",
            next=f"--rewind {wanted.step} --lr-scale 0.5 --for-steps 100",
        )
    saves = {save.step: save.path for save in checkpoint.list_checkpoints(folder.checkpoints) if save.problem is None}
    if wanted.step not in saves:
        near = sorted(saves, key=lambda step: abs(step - wanted.step))[:5]
        raise ConfigError(
            f"the run has no whole save of step {wanted.step}",
            code="R106",
            where=str(folder.checkpoints),
            expected="one of " + ", ".join(map(str, sorted(near))) if near else "a save",
            found=str(wanted.step),
            next=f"--rewind {near[0]}" if near else "--fresh starts anew",
        )
    meta = checkpoint.read_manifest(saves[wanted.step]).meta
    return Detour(
        number=1 + max((line["number"] for line in _acts(folder, "rewind")), default=0),
        step=wanted.step,
        consumed_samples=int(meta["consumed_samples"]),
        from_step=max([*saves, *_steps(folder)]),
        skip_samples=wanted.skip_samples,
        lr_scale=wanted.lr_scale,
        lr_steps=wanted.lr_steps,
    )


def rewind(folder: RunFolder, wanted: Rewind, act: Act) -> Detour:
    """The detour that now holds: later saves and lines are set aside, the next start goes on from the save.

    Call it while no rank runs. Raises ConfigError R106 as `plan_rewind` does, before anything is changed.
    """
    detour = plan_rewind(folder, wanted)
    temporary = folder.set_aside / f"{detour.number:03d}"
    hours = _hours_after(folder, detour.step)
    moved = _set_aside(folder, detour.step, temporary)
    # Detours of steps that are taken back go with them: their saves lie in the same place.
    held = [each for each in read_detours(folder) if each.step <= detour.step]
    _write_detours(folder, [*held, detour])
    append_line(
        folder.attempts,
        {
            "event": "rewind",
            **detour.to_json(),
            "time": act.time,
            "who": act.who,
            "why": act.why,
            "text": detour.text(),
            "hours_lost": hours,
            "set_aside": str(temporary.relative_to(folder.path)),
            "saves": list(moved),
        },
    )
    return detour


def undo_rewind(folder: RunFolder, act: Act) -> Detour:
    """The detour that holds no longer: the last one. Its saves and lines are back, and what came after it is set aside.

    Call it while no rank runs. Raises ConfigError R106 when no rewind holds.
    """
    detours = read_detours(folder)
    if not detours:
        raise ConfigError(
            "there is no rewind to undo",
            code="R106",
            where=str(folder.detours),
            expected="a rewind that holds",
            found="none",
            next="emberward report lists the rewinds of a run",
        )
    last = detours[-1]
    temporary = folder.set_aside / f"{last.number:03d}"
    undone = folder.set_aside / f"{last.number:03d}-undone"
    hours = _hours_after(folder, last.step)
    moved = _set_aside(folder, last.step, undone)
    back = checkpoint.put_back(folder.checkpoints, source=temporary / "checkpoints")
    for name in _COPIED:
        if (temporary / name).exists():
            shutil.copyfile(temporary / name, folder.path / name)
    said = read_json(temporary / "detours.json") or {"detours": []}
    _write_detours(folder, [Detour.from_json(each) for each in said["detours"]])
    append_line(
        folder.attempts,
        {
            "event": "undo_rewind",
            "number": last.number,
            "time": act.time,
            "who": act.who,
            "why": act.why,
            "text": f"undone: {last.text()}",
            "hours_lost": hours,
            "set_aside": str(undone.relative_to(folder.path)),
            "saves": list(moved),
            "put_back": list(back),
        },
    )
    return last


def _set_aside(folder: RunFolder, step: int, temporary: Path) -> tuple[str, ...]:
    """Takes what is later than `step` out of the run; names of the saves. Files are copied before they are cut."""
    temporary.mkdir(parents=True, exist_ok=True)
    for name in _COPIED:
        if (folder.path / name).exists():
            shutil.copyfile(folder.path / name, temporary / name)
    write_json(temporary / "detours.json", {"detours": [each.to_json() for each in read_detours(folder)]})
    moved = checkpoint.set_aside(folder.checkpoints, after_step=step, to=temporary / "checkpoints")
    for name in _COPIED:
        _cut_after(folder.path / name, step)
    folder.summary.unlink(missing_ok=True)
    folder.progress.unlink(missing_ok=True)
    return moved


def _cut_after(path: Path, step: int) -> None:
    """Leaves the lines of steps up to `step`; whole or not at all."""
    if not path.exists():
        return
    kept = [line for line in read_lines(path) if isinstance(line.get("step"), int) and line["step"] <= step]
    fresh = path.with_name(f".{path.name}.tmp")
    with fresh.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in kept)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _write_detours(folder: RunFolder, detours: Sequence[Detour]) -> None:
    write_json(folder.detours, {"detours": [each.to_json() for each in detours]})


def _acts(folder: RunFolder, event: str) -> list[dict[str, Any]]:
    return [line for line in read_lines(folder.attempts) if line.get("event") == event]


def _steps(folder: RunFolder) -> list[int]:
    return [line["step"] for line in read_lines(folder.metrics) if isinstance(line.get("step"), int)]


def _hours_after(folder: RunFolder, step: int) -> float:
    """Hours that the steps after `step` took: what the act gives up."""
    lines = (line for line in read_lines(folder.metrics) if isinstance(line.get("step"), int) and line["step"] > step)
    return sum(line.get("step_s") or 0.0 for line in lines) / 3600
