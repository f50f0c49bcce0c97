"""Who died first, and what that was: a judgement over what the ranks and the agent left behind.

[Note: first death]
When one rank dies, its peers fail within a tenth of a second: their connections break (torch 2.13, gloo: ``Connection
closed by peer``), and the agent ends what is left with SIGTERM. So the first message is rarely the cause's. A death is
an *echo* when its exception is a broken or timed-out connection of torch.distributed, when it says of itself that
another rank failed, or when it came by SIGTERM. A connection of the user's own that broke, such as one to a file
server, raises another type and is no echo. The culprit is the first death that is no echo; a rank that died without an
exception of its own has the time at which the launcher saw it gone. When all are echoes the earliest is shown, and the
finding says that it is inferred. Exit codes are those that the agent saw before it ended the others
(``multiprocessing/api.py``, torch 2.13), so that a SIGKILL among them is not its own.
"""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.report import printable

MAX_TRACEBACK_LINES = 60
_ECHO_TYPES = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError"})
_MAY_ECHO_TYPES = frozenset({"RuntimeError", "DistError"})
_SAYS_ANOTHER = "another rank could not"
_ECHO_TEXT = re.compile(
    r"connection (reset|closed|was likely closed)|closed by peer|broken pipe|connectfullmesh|timed out waiting"
    r"|remote process exited|socket (closed|timeout)|peer (closed|reset)|no bytes read|wait timeout after"
    r"|monitoredbarrier",
    re.IGNORECASE,
)
_REPORT = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s*\n\s*exitcode\s*: (-?\d+) \(pid: (\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """What is known of one rank after an attempt broke. Absent facts are None.

    `exit_code` is negative for a signal, as the agent reported it; `gone_unix` when the launcher saw the process gone;
    `failure` the rank's own failure file.
    """

    rank: int
    pid: int | None = None
    host: str | None = None
    coordinates: Mapping[str, int] | None = None
    exit_code: int | None = None
    gone_unix: float | None = None
    failure: Mapping[str, Any] | None = None
    log: str | None = None
    log_tail: tuple[str, ...] = ()

    @property
    def died_unix(self) -> float:
        """When it died, in seconds since 1970; infinite when nobody saw it."""
        if self.failure is not None and isinstance(self.failure.get("time_unix"), int | float):
            return float(self.failure["time_unix"])
        return float("inf") if self.gone_unix is None else self.gone_unix

    @property
    def is_dead(self) -> bool:
        """Whether it failed: it left an exception or ended with another code than 0."""
        return self.failure is not None or (self.exit_code is not None and self.exit_code != 0)


def parse_agent_report(text: str) -> dict[int, tuple[int, int]]:
    """rank -> (exit code, pid) of the failures in the agent's output; a negative code is a signal's number.

    Format: ``torch/distributed/elastic/multiprocessing/errors/__init__.py``, torch 2.13, ``_FAILURE_FORMAT_TEMPLATE``.
    """
    return {int(rank): (int(code), int(pid)) for rank, code, pid in _REPORT.findall(text)}


def is_echo(end: RankEnd) -> bool:
    """Whether this death looks like the consequence of another one. See [Note: first death]."""
    if end.failure is not None:
        message, kind = str(end.failure.get("message", "")), end.failure.get("type")
        if end.failure.get("finding") is not None:
            return _SAYS_ANOTHER in message
        return kind in _ECHO_TYPES or (kind in _MAY_ECHO_TYPES and _ECHO_TEXT.search(message) is not None)
    return end.exit_code == -signal.SIGTERM


def first_death(ends: Sequence[RankEnd]) -> tuple[RankEnd, Certainty] | None:
    """The rank that died first and how we know; None when no rank died. See [Note: first death].

    Observed when a death that is no echo was seen; inferred when every death looks like an echo.
    """
    dead = sorted((end for end in ends if end.is_dead), key=lambda end: (end.died_unix, end.rank))
    causes = [end for end in dead if not is_echo(end)]
    if causes:
        return causes[0], Certainty.OBSERVED
    return (dead[0], Certainty.INFERRED) if dead else None


def how_it_ended(end: RankEnd) -> str:
    """``killed by SIGKILL``, ``exit code 1``, or the exception's type and first line."""
    if end.failure is not None:
        first = (str(end.failure.get("message", "")).splitlines() or [""])[0]
        return f"{end.failure.get('type', 'exception')}: {first}".rstrip(": ")
    if end.exit_code is None:
        return "gone, nobody saw how"
    if end.exit_code >= 0:
        return f"exit code {end.exit_code}"
    try:
        return f"killed by {signal.Signals(-end.exit_code).name}"
    except ValueError:
        return f"killed by signal {-end.exit_code}"


def cause_of(end: RankEnd) -> Cause:
    """The word for this death; UNKNOWN when the files do not tell."""
    if end.failure is not None:
        text = f"{end.failure.get('type')} {end.failure.get('message')}"
        if re.search(r"MemoryError|out of memory|can't allocate memory", text, re.IGNORECASE):
            return Cause.OUT_OF_MEMORY
        if "No space left on device" in text:
            return Cause.DISK_FULL
        return Cause.UNKNOWN if is_echo(end) else Cause.EXCEPTION
    if end.exit_code is None:
        return Cause.UNKNOWN
    if end.exit_code > 0:
        return Cause.MAIN_EXITED
    crashes = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL, -signal.SIGFPE}
    return Cause.SEGFAULT if end.exit_code in crashes else Cause.KILLED


def death_finding(end: RankEnd, certainty: Certainty, others: Sequence[RankEnd]) -> Finding:
    """The finding for the first death: the rank's own finding when it left one, else L102."""
    if end.failure is not None and isinstance(end.failure.get("finding"), Mapping):
        return Finding.from_json(end.failure["finding"])
    hint = {
        Cause.KILLED: "ask dmesg for the out-of-memory killer, or who sent the signal; run the same command to resume",
        Cause.SEGFAULT: "the log's last lines name the native frame; run the same command to resume",
        Cause.OUT_OF_MEMORY: "a smaller batch.micro_batch or more ranks; run the same command to resume",
        Cause.DISK_FULL: "free space, then run the same command to resume",
    }
    unsure = "" if certainty is Certainty.OBSERVED else "; every failure looks like the echo of another one"
    return Finding(
        code="L102",
        severity=Severity.ERROR,
        kind=Kind.CRASH,
        cause=cause_of(end),
        certainty=certainty,
        culprit_ranks=(end.rank,),
        hosts=() if end.host is None else (end.host,),
        message=f"rank {end.rank} died first: {how_it_ended(end)}{unsure}",
        evidence=tuple(line for line in (end.log, *end.log_tail[-3:]) if line),
        waiting_ranks=(),
        ruled_out=tuple(f"rank {other.rank}: {how_it_ended(other)}" for other in others[:3] if is_echo(other)),
        next=hint.get(cause_of(end), "mend the cause shown in the traceback; run the same command to resume"),
    )


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 3``, or ``ranks 0-2, 5 (4 ranks)``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"ranks {shown} ({len(ranks)} ranks)"


def folded(ends: Sequence[RankEnd], culprit: RankEnd) -> list[str]:
    """One line for each different way in which the other ranks ended; ``same`` when it is the culprit's own way.

    Numbers, such as ports and addresses, do not make a way different.
    """

    def shape(end: RankEnd) -> str:
        return re.sub(r"\d+", "#", how_it_ended(end))

    groups: dict[str, list[RankEnd]] = {}
    for end in ends:
        if end.rank != culprit.rank and end.is_dead:
            groups.setdefault(shape(end), []).append(end)
    lines = []
    for key, members in groups.items():
        said = "same" if key == shape(culprit) else printable(how_it_ended(members[0]))
        lines.append(f"{ranks_text([end.rank for end in members])}: {said}")
    return lines


def death_text(ends: Sequence[RankEnd], culprit: RankEnd, finding: Finding) -> str:
    """What a person reads: the other ranks folded first, then the culprit in a box, its traceback last."""
    facts = [f"host {culprit.host or 'unknown'}", f"pid {culprit.pid if culprit.pid is not None else 'unknown'}"]
    if culprit.coordinates:
        facts.append(" ".join(f"{axis}{at}" for axis, at in culprit.coordinates.items()))
    if culprit.exit_code is not None:
        facts.append(f"exit code {culprit.exit_code}")
    body = ["   ".join(facts)]
    if culprit.log is not None:
        body.append(f"log {culprit.log}")
    body.append(f"next {finding.next}")
    trace = culprit.failure.get("traceback") if culprit.failure is not None else None
    if isinstance(trace, str) and trace.strip():
        lines = trace.rstrip().splitlines()
        cut = [f"... {len(lines) - MAX_TRACEBACK_LINES} lines left out"] if len(lines) > MAX_TRACEBACK_LINES else []
        body += ["", *cut, *lines[-MAX_TRACEBACK_LINES:]]
    elif culprit.log_tail:
        body += ["", "last lines of its log:", *(f"  {line}" for line in culprit.log_tail)]
    title = printable(f"{finding.code} {finding.message}")
    box = [f"╭─ {title}", *(f"│ {printable(line)}".rstrip() for line in body), "╰" + "─" * min(len(title) + 2, 100)]
    return "\n".join([*folded(ends, culprit), *box])
