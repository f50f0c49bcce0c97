"""One snapshot of a chain of jobs, as a line for people and findings for programs: pure.

[Note: two clocks]
The age of the last step is counted by our own clock, from when we first saw what the run says now: the clock of the
host that wrote it may differ by minutes. Only the first snapshot, with nothing to compare with, believes that clock,
and never an age below 0.

[Note: limbo]
A job is in limbo when it neither runs nor ends: SLURM says that it runs and its run says nothing new, or a rank has
failed and the job goes on; it is ending for too long; it waits for what only a person can change. How long is too long
is the rule of `emberward.sources.live` [Note: limits] for a phase without a history: 300 s, or five times the longest
step so far. Limbo is a warning. Nothing is ended for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from emberward.findings import Cause, Certainty, Finding, FindingPhase, Kind, Severity
from emberward.report import duration_text
from emberward.slurm._queue import Job, State

LIMIT_S = 300.0
LIMIT_FACTOR = 5.0
"""See [Note: limbo]; the same figures as in `sources/live/_limits.py`, which this room may not import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the newest run says. `said_unix`: when it wrote its progress, by its own host's clock.

    `outcome` of its last attempt: None while it is under way, or when nobody was left to write one. `failure`: which
    rank failed in this attempt, and how.
    """

    id: str | None = None
    step: int | None = None
    steps: int | None = None
    phase: str | None = None
    said_unix: float | None = None
    longest_step_s: float = 0.0
    outcome: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What was seen before. `sign`: what the run said, first seen at `sign_unix`.

    `since`: by job, its state and nodes and since when it has them. `boots`: when the nodes of the job that ran last
    had booted, as SLURM says it. `key`: what of the last line was worth a line. `line_unix`: when that was.
    """

    sign: str | None = None
    sign_unix: float | None = None
    since: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    boots: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    line_unix: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> "Memory":
        """What `to_json` gave; nothing known for anything else."""
        try:
            said = dict(data or {})
            said["since"] = {
                str(job): (str(state), float(unix)) for job, (state, unix) in said.get("since", {}).items()
            }
            return cls(**said)
        except (TypeError, ValueError, AttributeError):
            return cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """One snapshot of the chain. `is_new`: something changed since the last line, or `every_s` passed. `is_over`: no
    job is left."""

    line: str
    findings: tuple[Finding, ...]
    memory: Memory
    is_new: bool
    is_over: bool


def take_pulse(
    name: str, jobs: Sequence[Job], facts: RunFacts, memory: Memory, *, now_unix: float, every_s: float
) -> Pulse:
    """The line on the chain `name`, what is wrong with it, and what to remember. `jobs` as `read_queue` gives them."""
    sign = f"{facts.id} {facts.step} {facts.phase} {facts.said_unix}"
    sign_unix = memory.sign_unix if sign == memory.sign else now_unix
    if memory.sign is None and facts.said_unix is not None:
        sign_unix = min(facts.said_unix, now_unix)
    if sign_unix is None or facts.said_unix is None:
        sign_unix = None
    since = {job.id: _since(job, memory, now_unix) for job in jobs}
    age_s = None if sign_unix is None else now_unix - sign_unix
    findings = tuple(
        finding for job in jobs if (finding := _limbo(job, facts, age_s, now_unix - since[job.id][1])) is not None
    )
    line = f"{name} " + "; ".join([*_queue_words(jobs, findings, facts), *_run_words(facts, age_s)])
    key = repr([(job.id, job.word, job.nodes, job.reason) for job in jobs] + [each.message for each in findings])
    is_due = memory.line_unix is None or now_unix - memory.line_unix >= every_s
    is_new = key != memory.key or is_due
    kept = Memory(
        sign=sign,
        sign_unix=sign_unix,
        since=since,
        boots=memory.boots,
        key=key,
        line_unix=now_unix if is_new else memory.line_unix,
    )
    return Pulse(line=line, findings=findings, memory=kept, is_new=is_new, is_over=not jobs)


def _since(job: Job, memory: Memory, now_unix: float) -> tuple[str, float]:
    """The job's state and nodes, and since when: as long as SLURM says that it ran, or since we saw it first."""
    state = f"{job.word} {job.nodes}"
    before = memory.since.get(job.id)
    if before is not None and before[0] == state:
        return before
    return state, now_unix - (job.used_s if job.state is State.RUNS else 0.0)


def _queue_words(jobs: Sequence[Job], findings: Sequence[Finding], facts: RunFacts) -> list[str]:
    """What the queue says: the job that runs, then the next."""
    if not jobs:
        return ["is not in the queue" + ("" if facts.outcome is None else f": {facts.outcome}")]
    first, *rest = jobs
    limbo = "is in limbo: " + findings[0].message + "; it " if findings else ""
    words = [limbo + _job_words(first)]
    words += [f"next {job.id} on {job.partition!r} is {_wait_words(job)}" for job in rest]
    return words


def _job_words(job: Job) -> str:
    place = f"({job.id} on {job.partition!r} partition" + (f" ({job.nodes}))" if job.nodes else ")")
    match job.state:
        case State.RUNS:
            return f"is running for {duration_text(job.used_s)} since {job.start} {place}"
        case State.ENDS:
            return f"is {job.word.lower()} {place}"
        case State.WAITS | State.HELD:
            return f"is {_wait_words(job)} {place}"


def _wait_words(job: Job) -> str:
    if job.state in (State.RUNS, State.ENDS):
        return job.word.lower()
    begins = "" if job.start is None else f", start expected {job.start}"
    return f"waiting to be scheduled ({job.reason}{begins})"


def _run_words(facts: RunFacts, age_s: float | None) -> list[str]:
    """What the run says: its step, and how old its last sign of life is."""
    if facts.id is None:
        return ["no run yet"]
    step = "no step yet" if facts.step is None else f"step {facts.step}"
    step += f"/{facts.steps}" if facts.steps is not None and facts.step is not None else ""
    phase = f" in {facts.phase}" if facts.phase not in (None, "train", "done") else ""
    return [step + phase + ("" if age_s is None else f", last sign of life {duration_text(age_s)} ago")]


def _limbo(job: Job, facts: RunFacts, age_s: float | None, state_s: float) -> Finding | None:
    """The finding that this job neither runs nor ends; None while it does either. See [Note: limbo]."""
    limit_s = max(LIMIT_S, LIMIT_FACTOR * facts.longest_step_s)
    if job.never_starts:
        return _finding(
            job,
            f"job {job.id} waits for what it never gets by itself: {job.reason}",
            (),
            f"scontrol release {job.number}",
        )
    if job.state is State.ENDS and state_s > limit_s:
        message = f"job {job.id} is {job.word.lower()} for {duration_text(state_s)} and does not end"
        return _finding(job, message, (f"nodes {job.nodes}",), f"look for its processes on {job.nodes}")
    # A run that said its last word before this job began says nothing of this job.
    silent_s = state_s if age_s is None else min(age_s, state_s)
    if job.state is not State.RUNS or silent_s <= limit_s:
        return None
    said = "no run has begun" if facts.id is None else f"its run's last sign of life is {duration_text(silent_s)} old"
    message = f"job {job.id} runs in SLURM's eyes, and {said}"
    if facts.failure is not None:
        message += f"; {facts.failure} has ended the training"
    evidence = (f"step {facts.step} in {facts.phase}", f"limit {limit_s:.0f} s")
    return _finding(
        job,
        message,
        evidence,
        f"scancel {job.number}   (the next job of the chain goes on from the last save)",
        facts.step,
    )


def _finding(job: Job, message: str, evidence: tuple[str, ...], next: str, step: int | None = None) -> Finding:
    return Finding(
        code="L122",
        severity=Severity.WARNING,
        kind=Kind.HANG,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=message,
        phase=FindingPhase(step=step),
        evidence=(f"squeue: {job.word}, {job.reason}", *evidence),
        next=next,
    )
