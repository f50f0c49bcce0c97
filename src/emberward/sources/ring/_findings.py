"""What a recorder could not do, as findings. None of them is an alarm about the job."""

from collections.abc import Iterable
from pathlib import Path

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.ring._folder import read_problems
from emberward.sources.ring._view import RingView


def unattached_findings(folder: Path, *, host: str) -> tuple[Finding, ...]:
    """H120 for each process of the ring folder that has no recorder, with its reason."""
    return tuple(
        _finding(
            "H120",
            f"{line}; expected a ring in {folder}; the job itself goes on",
            host=host,
            next="free space in /dev/shm, or start the job with a Python of 3.11 or newer and torch of 2.11 or newer",
        )
        for line in read_problems(folder)
    )


def gap_findings(views: Iterable[RingView]) -> tuple[Finding, ...]:
    """H121 for each ring that misses something, with all that it misses."""
    return tuple(
        _finding(
            "H121",
            f"rank {'unknown' if view.rank is None else view.rank}: {'; '.join(view.problems)}",
            host=view.host or "",
            next="read the verdict with this gap in mind; the rank's stacks and dumps do not have it",
            ranks=() if view.rank is None else (view.rank,),
        )
        for view in views
        if view.problems
    )


def _finding(code: str, message: str, *, host: str, next: str, ranks: tuple[int, ...] = ()) -> Finding:
    return Finding(
        code=code,
        severity=Severity.WARNING if code == "H120" else Severity.NOTICE,
        kind=Kind.RESOURCE,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=message,
        hosts=(host,) if host else (),
        evidence=tuple(f"ring of rank {rank}" for rank in ranks),
        next=next,
    )
