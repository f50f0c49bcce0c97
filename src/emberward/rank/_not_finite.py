"""What a run says of a step whose loss or gradient was not finite, and how it finds what made it so.

[Note: a step run again]
A step that was not finite changed nothing: run once more it does the same, and this time every operation is looked at.
All ranks run it, since its collectives are everybody's, as one more step by its marks; each then says what it made
itself, in one all-gather in the phase SEARCH. The first in the order of the data's way through the model is told.
"""

import json
from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist

from emberward.engine import Engine, Inspection, MicroBatch, NotFinite, StepTotals
from emberward.events import Phase, Stage
from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind, Severity
from emberward.rank._events import Enter
from emberward.recipe import ComputeType

MAX_TOLD = 20
"""Skipped steps of a run that get a finding; ``metrics.jsonl`` counts all of them."""
NOTE_BYTES = 512
"""What a rank says of itself, as JSON, padded with zeros: a multiple of 8."""

all_gather_flat = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def not_finite_finding(
    totals: StepTotals, *, step: int, num_skipped: int, compute: ComputeType, loss_scale: float
) -> Finding | None:
    """R101 for a skipped step, counted from 0; None when it was finite, or when MAX_TOLD were told before.

    A notice in fp16, whose loss scale is found by such steps; else a warning. `num_skipped` counts this one.
    """
    if totals.is_finite or num_skipped > MAX_TOLD:
        return None
    is_fp16 = compute is ComputeType.FP16
    return Finding(
        code="R101",
        severity=Severity.NOTICE if is_fp16 else Severity.WARNING,
        kind=Kind.SPIKE,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=f"step {step + 1} was skipped: its loss or gradient is not finite; no parameter was changed",
        phase=FindingPhase(step=step),
        evidence=(f"{num_skipped} skipped so far; {compute.value}, loss scale {loss_scale:g}",),
        next=(
            "single ones need nothing: the loss scale adapts"
            if is_fp16
            else "look at grad_norm before it in metrics.jsonl; a lower optim.lr or a longer warm-up"
        ),
    )


def is_worth_inspecting(totals: StepTotals, *, compute: ComputeType, loss_scale: float) -> bool:
    """Whether to look for the cause: not where fp16's loss scale is still being found, which is what overflows are."""
    return not totals.is_finite and (compute is not ComputeType.FP16 or loss_scale <= 1.0)


def inspect_step(
    engine: Engine,
    micro_batches: Sequence[MicroBatch],
    *,
    step: int,
    lr: float,
    watch: Callable[[Engine], AbstractContextManager[Inspection]],
    enter: Enter | None = None,
) -> Finding:
    """R105 for a step, counted from 0, that was not finite: runs it again and changes nothing. All ranks must call;
    blocks. The same on all ranks. See [Note: a step run again]."""
    if enter is not None:
        enter(Phase(step=step, name="inspect"), len(micro_batches))
    with watch(engine) as inspection:
        engine.train_step(micro_batches, lr=lr, step=step, sink=inspection, is_trial=True)
    if enter is not None:
        enter(Phase(step=step, stage=Stage.SEARCH, name="inspect"))
    return first_finding(_tell(engine, inspection.found), step=step)


def _tell(engine: Engine, found: NotFinite | None) -> dict[int, NotFinite]:
    """What every rank made itself, by rank: one all-gather."""
    world = engine.world
    text = b"" if found is None else json.dumps(_to_json(found)).encode()[:NOTE_BYTES]
    # As words of 8 bytes: 16,384 ranks' single bytes are 8 million numbers to read, half a second of a dry run.
    words = torch.tensor(array("q", text.ljust(NOTE_BYTES, b"\0")).tolist(), dtype=torch.int64, device=world.device)
    out = torch.zeros(len(words) * world.mesh.size, dtype=torch.int64, device=world.device)
    all_gather_flat(out, words, group=world.channels["world"].handle)
    data = array("q", map(int, world.read("not_finite", out))).tobytes()
    notes = {rank: data[rank * NOTE_BYTES : (rank + 1) * NOTE_BYTES].rstrip(b"\0") for rank in world.mesh.ranks}
    return {rank: _from_json(json.loads(text)) for rank, text in notes.items() if text}


def _to_json(found: NotFinite) -> list[Any]:
    stage = None if found.stage is None else found.stage.value
    return [found.module[:200], found.operation, found.micro_batch, stage]


def _from_json(value: Sequence[Any]) -> NotFinite:
    module, operation, micro_batch, stage = value
    return NotFinite(
        module=module,
        operation=operation,
        micro_batch=micro_batch,
        stage=None if stage is None else Stage(stage),
    )


def first_finding(found: dict[int, NotFinite], *, step: int) -> Finding:
    """R105 from what each rank made, by rank. A parameter comes first; then micro-batch, forward before backward, and
    in forward the lower rank, whose stage comes first, in backward the higher."""
    if not found:
        return _finding(
            f"step {step + 1}, run again, was finite: what was not finite the first time did not come again",
            step=step,
            kind=Kind.DEVICE,
            evidence=("the same data, parameters and program gave finite values: suspect the hardware",),
            next="test the memory and the processors of this run's hosts; rewind to the last save if it comes again",
        )
    first = min(found.items(), key=lambda item: _order(*item))[1]
    ranks = tuple(rank for rank, each in sorted(found.items()) if each == first)
    who = ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks[:8]))
    who += f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    others = tuple(f"rank {rank}: {_words(each)}" for rank, each in sorted(found.items()) if each != first)[:8]
    if first.operation is None:
        return _finding(
            f"parameter {first.module} was not finite before step {step + 1}, on {who}",
            step=step,
            ranks=ranks,
            evidence=others,
            severity=Severity.ERROR,
            next="start again: it goes on from the last save; --rewind STEP where that has it too; test that device",
        )
    return _finding(
        f"the first value of step {step + 1} that is not finite came from {_words(first)}, on {who}",
        step=step,
        ranks=ranks,
        micro_batch=first.micro_batch,
        stage=None if first.stage is None else first.stage.value,
        evidence=(f"what {first.operation} read there was finite", *others),
        next="one rank alone: test that device; else lower optim.lr, or leave the data out with --rewind",
    )


def _order(rank: int, found: NotFinite) -> tuple[bool, int, bool, int]:
    is_backward = found.stage is not Stage.FORWARD
    micro_batch = 1 << 30 if found.micro_batch is None else found.micro_batch
    return found.operation is not None, micro_batch, is_backward, -rank if is_backward else rank


def _words(found: NotFinite) -> str:
    if found.operation is None:
        return f"parameter {found.module}"
    backwards = dict.fromkeys((Stage.BACKWARD, Stage.BACKWARD_INPUT, Stage.BACKWARD_WEIGHT), "backward")
    part = {Stage.FORWARD: "forward", **backwards}.get(found.stage) if found.stage else None
    where = f" in the {part} of micro-batch {found.micro_batch}" if part is not None else " at the step's end"
    return f"{found.operation} of {found.module}{where}"


def _finding(
    message: str,
    *,
    step: int,
    next: str,
    ranks: tuple[int, ...] = (),
    micro_batch: int | None = None,
    stage: str | None = None,
    kind: Kind = Kind.SPIKE,
    evidence: tuple[str, ...] = (),
    severity: Severity = Severity.WARNING,
) -> Finding:
    return Finding(
        code="R105",
        severity=severity,
        kind=kind,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=message,
        culprit_ranks=ranks,
        phase=FindingPhase(step=step, micro_batch=micro_batch, stage=stage),
        evidence=evidence,
        next=next,
    )
