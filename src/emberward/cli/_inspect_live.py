"""``emberward inspect RUN NAME --live``: a parameter as a running job's ranks hold it. See `runs` [Note:
inspections]."""

import math
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from emberward.checkpoint import InspectedTensor, assemble_tensor
from emberward.cli._runs import word_of
from emberward.families import model_of
from emberward.findings import ConfigError
from emberward.recipe import read_resolved
from emberward.report import RunFolder, RunRow, State, duration_text, read_row, step_limit_s
from emberward.runs import InspectionAnswers, ask, read_answers

QUANTITIES = ("model/", "optim/exp_avg/", "optim/exp_avg_sq/", "grad/")
"""What a rank answers of a parameter: value, moments, and the gradient that the step's update took."""
_FIRST_LEAD_S = 1.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A parameter's tensors after `step` steps."""

    step: int
    tensors: tuple[InspectedTensor, ...]


def look_at(folder: RunFolder, name: str, *, within_s: float | None) -> Seen:
    """The parameter of the running job, of one moment; with a quantity before the name that one alone.

    Blocks until the step that it asks for has ended, at most `within_s`; None: as long as the steps until then may
    take. A rank that sees the question too late has it put again for a later step. Raises ConfigError K102 for a name
    that the model lacks, C118 when the run is not running, ends, or does not answer.
    """
    resolved = read_resolved(folder.config)
    wanted, parameter = _split(name)
    _require_name(parameter, sorted(model_of(resolved.recipe.model).shapes), folder)
    steps, num_ranks = resolved.recipe.steps, resolved.num_ranks
    began_s, lead_s = time.monotonic(), _FIRST_LEAD_S
    while True:
        row = _require_running(folder)
        step_s = row.step_s or lead_s
        ahead = 1 + math.ceil(lead_s / step_s)
        step = (row.step or 0) + ahead
        if steps is not None:
            step = min(step, steps)
        limit_s = ahead * step_s + step_limit_s(row.step_s) if within_s is None else within_s
        inspection = ask(folder, name=parameter, step=step, id=uuid.uuid4().hex)
        try:
            while True:
                # In this order: a run that is over has written what it answered.
                state = word_of(row := read_row(folder), now_unix=time.time())
                answers = read_answers(inspection)
                found = _assembled(answers, wanted, step=step, world_size=num_ranks)
                if found:
                    return Seen(step=step, tensors=found)
                if answers.late_at is not None:
                    break
                if State(state).is_over:
                    raise _unanswered(folder, f"it was {state} before step {step} had ended", row)
                if time.monotonic() - began_s > limit_s:
                    raise _unanswered(folder, f"no answer within {duration_text(limit_s)}; it is {state}", row)
                time.sleep(_POLL_S)
        finally:
            shutil.rmtree(inspection.folder, ignore_errors=True)
        lead_s *= 2


def _split(name: str) -> tuple[Sequence[str], str]:
    """(quantities that are asked for, parameter)."""
    for prefix in QUANTITIES:
        if name.startswith(prefix):
            return (prefix,), name.removeprefix(prefix)
    return QUANTITIES, name


def _assembled(
    answers: InspectionAnswers, wanted: Sequence[str], *, step: int, world_size: int
) -> tuple[InspectedTensor, ...]:
    """The tensors that are asked for; empty until every owner has answered, which the value's parts tell."""
    found = {}
    for prefix in QUANTITIES:
        parts = [(f"rank {rank}", part) for rank, part in answers.parts if part.name.startswith(prefix)]
        whole = assemble_tensor(parts, step=step, world_size=world_size) if parts else None
        if whole is None and prefix == QUANTITIES[0]:
            return ()
        if whole is not None:
            found[prefix] = whole
    return tuple(found[prefix] for prefix in wanted if prefix in found)


def _require_name(name: str, known: Sequence[str], folder: RunFolder) -> None:
    if name in known:
        return
    near = get_close_matches(name, known, n=3, cutoff=0.6)
    raise ConfigError(
        f"the model has no parameter {name}",
        code="K102",
        where=str(folder.path),
        expected=f"a name such as {', '.join(known[:3])}",
        found=name,
        next=f"did you mean {' or '.join(near)}?" if near else "emberward checkpoint show SAVE lists the names",
    )


def _require_running(folder: RunFolder) -> RunRow:
    row = read_row(folder)
    state = word_of(row, now_unix=time.time())
    if State(state).is_over or State(state) is State.NOT_STARTED:
        raise _unanswered(folder, f"it is {state}", row)
    return row


def _unanswered(folder: RunFolder, found: str, row: RunRow) -> ConfigError:
    at = "" if row.step is None else f", at step {row.step}"
    return ConfigError(
        "the run does not answer",
        code="C118",
        where=str(folder.path),
        expected="a run that trains and comes to the end of its next steps",
        found=found + at,
        next=f"emberward inspect {folder.path} NAME      (its newest save)",
    )
