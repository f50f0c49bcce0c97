"""Short phrases about events and ranks, shared by every message of this room."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from emberward.events import Collective, Event, Observer, Phase, Recv, Send, Stage, describe
from emberward.findings import Certainty, FindingPhase

MAX_NAMED_RANKS = 8
"""Most ranks that a message lists one by one."""

_STAGE_WORDS = {
    Stage.FORWARD: "forward",
    Stage.BACKWARD: "backward",
    Stage.BACKWARD_INPUT: "backward (input)",
    Stage.BACKWARD_WEIGHT: "backward (weight)",
}


def ranks_text(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0, 1 and 2`` or ``12 ranks (0, 1, 2, ...)``."""
    listed = sorted(ranks)
    if len(listed) == 1:
        return f"rank {listed[0]}"
    if len(listed) > MAX_NAMED_RANKS:
        return f"{len(listed)} ranks ({', '.join(map(str, listed[:3]))}, ...)"
    return f"ranks {', '.join(map(str, listed[:-1]))} and {listed[-1]}"


def plural(count: int, noun: str) -> str:
    """``1 call``, ``2 calls``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def site_text(event: Event) -> str | None:
    """``file.py:41`` or None."""
    return None if event.site is None else str(event.site)


def op_text(event: Event) -> str:
    """What the event does, e.g. ``recv grad from 1`` or ``all_reduce tp[0,1] float32 128 sum``."""
    body = event.body
    match body:
        case Send():
            what = " ".join(part for part in ("send", body.tensor, f"to {body.peer}") if part)
            return what if body.tag is None else f"{what} tag {body.tag}"
        case Recv():
            what = " ".join(part for part in ("recv", body.tensor, f"from {body.peer}") if part)
            return what if body.tag is None else f"{what} tag {body.tag}"
        case Collective():
            tail = "" if body.reduce_op is None else f" {body.reduce_op.value}"
            name = "" if body.tensor is None else f" ({body.tensor})"
            return describe(body) + tail + name
        case _:
            return describe(body)


def brief_text(event: Event) -> str:
    """`op_text` without what a waiting line does not need: a collective's operation, tensor and group."""
    body = event.body
    if isinstance(body, Collective):
        group = replace(body.group, index=0) if body.group.label else body.group
        return " ".join(part for part in (body.op.value, body.tensor, str(group)) if part)
    return op_text(event)


def phase_text(phase: Phase) -> str:
    """``step 2 mb 0 F``; the empty string when nothing is known."""
    parts = (
        None if phase.step is None else f"step {phase.step}",
        None if phase.micro_batch is None else f"mb {phase.micro_batch}",
        None if phase.stage is None else phase.stage.value,
    )
    return " ".join(part for part in parts if part)


def pass_text(phase: Phase) -> str | None:
    """``forward 3``: which pass, counted from 1; None when the phase names no pass of a micro-batch."""
    if phase.stage not in _STAGE_WORDS or phase.micro_batch is None:
        return None
    return f"{_STAGE_WORDS[phase.stage]} {phase.micro_batch + 1}"


def phase_of(event: Event) -> FindingPhase:
    """The event's phase as a finding carries it."""
    phase = event.phase
    return FindingPhase(
        step=phase.step,
        micro_batch=phase.micro_batch,
        stage=None if phase.stage is None else phase.stage.value,
    )


def certainty_of(observer: Observer) -> Certainty:
    """PROVED for a plan or a dry run, OBSERVED for what really ran."""
    return Certainty.PROVED if observer in (Observer.PLAN, Observer.DRY_RUN) else Certainty.OBSERVED


def columns(rows: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The rows as lines whose cells stand in columns two spaces apart."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    kept = [i for i, width in enumerate(widths) if width]
    return tuple("  ".join(row[i].ljust(widths[i]) for i in kept).rstrip() for row in rows)
