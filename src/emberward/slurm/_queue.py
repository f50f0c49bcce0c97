"""The jobs of a chain as ``squeue`` lists them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from emberward.findings import ConfigError
from emberward.slurm._ask import Slurm

# squeue(1): the job's shown id, the number of the whole array, state, partition, nodes, start, time used, reason, name.
_FORMAT = "%i|%F|%T|%P|%N|%S|%M|%r|%j"
_NUM_FIELDS = _FORMAT.count("|") + 1
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)$")


class State(StrEnum):
    """What matters of a job's state."""

    WAITS = "waits"
    RUNS = "runs"
    ENDS = "ends"
    HELD = "held"


_STATES = {
    "PENDING": State.WAITS,
    "CONFIGURING": State.WAITS,
    "REQUEUED": State.WAITS,
    "RUNNING": State.RUNS,
    "SIGNALING": State.RUNS,
    "STAGE_OUT": State.ENDS,
    "COMPLETING": State.ENDS,
    "REQUEUE_HOLD": State.HELD,
    "REQUEUE_FED": State.WAITS,
    "RESIZING": State.RUNS,
    "RESV_DEL_HOLD": State.HELD,
    "SPECIAL_EXIT": State.HELD,
    "STOPPED": State.HELD,
    "SUSPENDED": State.HELD,
    "PREEMPTED": State.ENDS,
}
"""Every state of squeue(1), JOB STATE CODES, that a job which has not ended can be in."""
_NEVER_STARTS = frozenset(
    {
        "JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue", "launch failed requeued held", "job requeued in held state",
        "DependencyNeverSatisfied", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionTimeLimit",
        "PartitionNodeLimit", "AccountNotAllowed", "QOSNotAllowed",
    }
)  # fmt: skip
"""Reasons of squeue(1), JOB REASON CODES, and job_reason_string() of 22.05, that end by a person's deed alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One line of the queue. `id` as squeue shows it, ``1528874_[2-3%1]`` for the tasks of an array that wait.

    `number` is that of the whole array, or the job's own. `start` is SLURM's text, None while no start is known;
    `used_s` how long the job has run since then; `nodes` SLURM's short form, None without any.
    """

    id: str
    number: int
    state: State
    word: str
    partition: str
    nodes: str | None
    start: str | None
    used_s: float
    reason: str
    name: str

    @property
    def never_starts(self) -> bool:
        """Whether it waits for what only a person can change."""
        return self.state is State.HELD or (self.state is State.WAITS and self.reason in _NEVER_STARTS)


def read_queue(slurm: Slurm, numbers: Sequence[int]) -> tuple[Job, ...]:
    """The jobs of those numbers that have not ended, those that run first; () when none is left. Blocks.

    Raises what `Slurm.ask` raises, and L120 for an answer of another form.
    """
    if not numbers:
        return ()
    try:
        said = slurm.ask("squeue", "--noheader", f"--jobs={','.join(map(str, numbers))}", f"--format={_FORMAT}")
    except ConfigError as error:
        # What SLURM says of jobs that ended more than MinJobAge ago.
        if error.code == "L121" and "Invalid job id" in (error.found or ""):
            return ()
        raise
    jobs = [_job(slurm, line) for line in said.splitlines() if line.strip()]
    return tuple(
        sorted((job for job in jobs if job is not None), key=lambda job: (job.state is not State.RUNS, job.number))
    )


def node_names(slurm: Slurm, nodes: str) -> tuple[str, ...]:
    """The single names of SLURM's short form, ``node[1-3]``. Raises what `Slurm.ask` raises."""
    return tuple(slurm.ask("scontrol", "show", "hostnames", nodes).split())


def _job(slurm: Slurm, line: str) -> Job | None:
    """The job of a line; None for one that has ended."""
    parts = line.strip().split("|", _NUM_FIELDS - 1)
    if len(parts) != _NUM_FIELDS or not parts[1].isdigit() or not parts[2].isupper():
        raise slurm.not_understood("squeue", line)
    id, number, word, partition, nodes, start, used, reason, name = parts
    if word not in _STATES:
        return None
    used_s = seconds_of(used)
    if used_s is None:
        raise slurm.not_understood("squeue", line)
    return Job(
        id=id,
        number=int(number),
        state=_STATES[word],
        word=word,
        partition=partition,
        nodes=nodes or None,
        start=None if start in ("", "N/A") else start,
        used_s=used_s,
        reason=reason,
        name=name,
    )


def seconds_of(text: str) -> float | None:
    """Seconds of SLURM's ``days-hours:minutes:seconds``; 0 of a job that has not begun, None of anything else."""
    if text in ("INVALID", "N/A"):
        return 0.0
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
