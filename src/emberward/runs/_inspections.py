"""Questions to a running job: which parameter a person wants to see after which step, and what its ranks answer.

[Note: inspections]
``inspections/ID/question.json`` ``{"name", "step"}`` is written by the one who asks. A thread of every rank sees it,
and the rank answers from its own memory when that step ends: ``rank00004.npz`` with the parts that it owns, or
``rank00004.late.json`` ``{"step"}`` when it saw the question too late, with the step that it had ended by then. Ranks
that own no part say nothing. No rank asks another, so that the job makes the calls that it would have made: the owners'
parts are those of one moment because the step is named beforehand, and all are there when they tile the tensor.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emberward.checkpoint import DType, Part
from emberward.report import RunFolder, read_json, write_json

_QUESTION = "question.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What is asked for: a parameter after `step` steps of the run. `folder` is the question's own."""

    folder: Path
    name: str
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionAnswers:
    """What was answered so far: parts by the rank that holds them, and the step at which the last late rank was."""

    parts: tuple[tuple[int, Part], ...]
    late_at: int | None


def ask(folder: RunFolder, *, name: str, step: int, id: str) -> Inspection:
    """Writes the question down and returns it; `id` is nobody else's."""
    inspection = Inspection(folder=folder.inspections / id, name=name, step=step)
    inspection.folder.mkdir(parents=True)
    write_json(inspection.folder / _QUESTION, {"name": name, "step": step})
    return inspection


def read_inspections(folder: RunFolder, *, known: Iterable[Path]) -> list[Inspection]:
    """The questions of a run but for those in the folders `known`. A half-written one is left for the next time."""
    if not folder.inspections.is_dir():
        return []
    found = []
    for path in sorted(set(folder.inspections.iterdir()).difference(known)):
        asked = read_json(path / _QUESTION)
        if asked is not None:
            found.append(Inspection(folder=path, name=asked["name"], step=asked["step"]))
    return found


def write_answer(inspection: Inspection, parts: Sequence[Part], *, rank: int) -> None:
    """A rank's float32 parts, as one file that is whole when it is there."""
    table = [{"name": part.name, "shape": part.global_shape, "box": part.box} for part in parts]
    arrays: Mapping[str, NDArray[np.generic]] = {f"part{number}": part.bits for number, part in enumerate(parts)}
    temporary = inspection.folder / f".rank{rank:05d}.tmp"
    with temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, table=np.array(json.dumps(table)), **arrays)
    temporary.replace(inspection.folder / f"rank{rank:05d}.npz")


def write_late(inspection: Inspection, *, rank: int, step: int) -> None:
    """A rank saw the question after `step`, too late to answer it."""
    write_json(inspection.folder / f"rank{rank:05d}.late.json", {"step": step})


def read_answers(inspection: Inspection) -> InspectionAnswers:
    """What is there by now."""
    late = [said["step"] for path in inspection.folder.glob("rank*.late.json") if (said := read_json(path)) is not None]
    parts = []
    for path in sorted(inspection.folder.glob("rank*.npz")):
        with np.load(path, allow_pickle=False) as file:
            for number, row in enumerate(json.loads(str(file["table"]))):
                part = Part(
                    name=row["name"],
                    dtype=DType.F32,
                    global_shape=tuple(row["shape"]),
                    box=tuple((start, stop) for start, stop in row["box"]),
                    bits=file[f"part{number}"],
                )
                parts.append((int(path.stem.removeprefix("rank")), part))
    return InspectionAnswers(parts=tuple(parts), late_at=max(late, default=None))
