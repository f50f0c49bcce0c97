"""Phrases that the judges share."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from emberward.diagnose._calls import Call, RankFlight
from emberward.diagnose._groups import GroupView
from emberward.findings import Cause, Certainty, Finding, Kind, Severity, require_code
from emberward.findings import ranks_text as ranks_text

NS = 1_000_000_000
SURE_LIMIT_S = 30.0
"""A call open for less is no proof of a hang. See docs/explain.md, "Slow or stuck"."""
GAP_FACTOR = 5.0
"""A hang lasts at least this many times the longest pause that the same job made before."""


def verb(ranks: Collection[object], one: str, many: str) -> str:
    """`one` for a single rank, else `many`."""
    return one if len(ranks) == 1 else many


def shortened(text: str, number: int) -> str:
    """The text, of a longer one its beginning up to a word, with an ellipsis; at most `number` characters."""
    if len(text) <= number:
        return text
    cut = text[: number - 1]
    return (cut.rpartition(" ")[0] if " " in cut[number // 2 :] else cut).rstrip(" .,;:") + "…"


def arrival(ranks: Collection[object], severity: Severity) -> str:
    """How it is said that ranks did not come to a call: as an error for good, else they may still come."""
    return "never arrived" if severity is Severity.ERROR else f"{verb(ranks, 'has', 'have')} not arrived yet"


def arrival_as(finding: Finding, severity: Severity) -> Finding:
    """The finding with another severity, which says so of ranks that did not come to a call."""
    was, now = (arrival(finding.culprit_ranks, each) for each in (finding.severity, severity))
    return replace(finding, severity=severity, message=finding.message.replace(f" {was}:", f" {now}:", 1))


def waits(ranks: Collection[int]) -> str:
    """``rank 0 waits`` or ``ranks 0, 1 wait``."""
    return f"{ranks_text(ranks)} {verb(ranks, 'waits', 'wait')}"


def call_text(call: Call, view: GroupView) -> str:
    """``call 26 of default[0,1]: all_reduce of 272 Float at x.py:3``."""
    where = f" at {call.site}" if call.site else ""
    if call.is_p2p:
        way = "to" if call.is_send else "from"
        peer = "an unknown rank"
        if call.peer is not None and call.peer < len(view.members):
            peer = f"rank {view.members[call.peer]}"
        return f"{call.text} {way} {peer} in {view.label}{where}"
    return f"call {call.seq} of {view.label}: {call.text}{where}"


def still_s(flights: Iterable[RankFlight]) -> float | None:
    """Seconds from the last move of any rank to the writing of its file, each by that rank's own clock; None where the
    files themselves do not tell."""
    told = [flight.still_s for flight in flights]
    known = [each for each in told if each is not None]
    return min(known) if known and len(known) == len(told) else None


def at_most_s(flights: Iterable[RankFlight]) -> float | None:
    """Seconds that the job had stood still at most: by the files' dates, which a copy moves on, and never by more."""
    found = list(flights)
    told = still_s(found)
    ages = [(f.written_ns - f.last_ns) / NS for f in found if f.written_ns is not None and f.last_ns is not None]
    dated = [age for age in ages if age >= 0]
    return min(dated, default=None) if told is None else told


def limit_s(flights: Iterable[RankFlight]) -> float:
    """How long this job may stand still before that is a hang, by its own history: never below `SURE_LIMIT_S`."""
    longest = max((flight.longest_gap_ns for flight in flights), default=0)
    return max(SURE_LIMIT_S, GAP_FACTOR * longest / NS)


def age_evidence(flights: Collection[RankFlight]) -> str:
    """The line that says how long the job stood still."""
    told, most, limit = still_s(flights), at_most_s(flights), limit_s(flights)
    if most is None or (told is None and most >= limit):
        return "the files do not tell how long the job stood still before they were written"
    how = "" if told is not None else " at most"
    return f"the job had stood still for {most:.0f} s{how}; below {limit:.0f} s it could be slow and alive"


def hang_finding(
    code: str,
    message: str,
    *,
    kind: Kind | None = None,
    cause: Cause = Cause.UNKNOWN,
    certainty: Certainty = Certainty.INFERRED,
    severity: Severity = Severity.ERROR,
    ranks: Sequence[int] = (),
    pids: Sequence[int] = (),
    waiting: Sequence[int] = (),
    hosts: Sequence[str] = (),
    site: str | None = None,
    evidence: Sequence[str] = (),
    ruled_out: Sequence[str] = (),
    next_step: str = "",
) -> Finding:
    """A finding with the fields that hang verdicts use, of its code's kind unless `kind` tells another.

    Pids count only where no rank is known.
    """
    return Finding(
        code=code,
        severity=severity,
        kind=require_code(code).kind if kind is None else kind,
        cause=cause,
        certainty=certainty,
        message=message,
        culprit_ranks=tuple(sorted(ranks)),
        culprit_pids=() if ranks else tuple(sorted(pids)),
        waiting_ranks=tuple(sorted(waiting)),
        hosts=tuple(sorted(set(hosts))),
        site=site,
        evidence=tuple(evidence),
        ruled_out=tuple(ruled_out),
        next=next_step,
    )


def cannot_tell(message: str, *, severity: Severity = Severity.WARNING, **others: Any) -> Finding:
    """The finding that the evidence does not tell who stopped the job; `others` of `hang_finding`."""
    return hang_finding("H107", f"cannot tell: {message}", certainty=Certainty.UNKNOWN, severity=severity, **others)


def no_alarm(code: str, message: str, **others: Any) -> Finding:
    """The notice that nothing is wrong, or nothing that is known; `others` of `hang_finding`."""
    return hang_finding(code, message, **{"cause": Cause.NONE, "severity": Severity.NOTICE, **others})
