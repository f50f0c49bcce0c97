"""One answer from all that was found about an incident: first the calls, then the signal; each conclusion once."""

from collections.abc import Sequence
from dataclasses import replace

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.dumps._frames import short_path

ROOTED = frozenset({Kind.MISMATCH, Kind.MISSING, Kind.DEADLOCK, Kind.LINK})
DIFFER = frozenset({"M101", "M102", "M103", "H152"})
"""Verdicts on calls that met and differ, also when the judge knows why: one was left out, or is one too many."""
MAY_FOLLOW = frozenset({Cause.EXCEPTION, Cause.SEGFAULT})
"""Deaths that a mismatch of calls brings about: gloo raises or aborts, and may do so in an innocent rank."""
_SEVERITY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTICE: 2}
_CERTAINTY = {Certainty.PROVED: 0, Certainty.OBSERVED: 1, Certainty.INFERRED: 2, Certainty.UNKNOWN: 3}
_SUSPECTED = frozenset({Kind.HANG, Kind.STRAGGLER, Kind.NONE})


def roots(verdicts: Sequence[Finding], *, death: Cause, certainty: Certainty) -> list[Finding]:
    """The verdicts that say why a rank died, as far as such a death can follow from them.

    [Note: root and death]
    Rings that end with a rank's death look like a call that is missing, or like a deadlock: the others wait for what
    never came. So such a verdict is the root only when every death looks like a secondary failure, as when the
    time-out of a deadlock, or of a link that was cut, ends all ranks. A mismatch of calls makes gloo raise or abort,
    and explains deaths of these two kinds. A rank that was killed, ran out of memory or left explains itself.
    """
    errors = [each for each in verdicts if each.severity is Severity.ERROR]
    if certainty is Certainty.INFERRED:
        return [each for each in errors if each.kind in ROOTED]
    if death in MAY_FOLLOW:
        return [each for each in errors if each.kind is Kind.MISMATCH or each.code in DIFFER]
    return []


def after_roots(found: Sequence[Finding], death: Finding) -> tuple[Finding, ...]:
    """`found`, the roots of a death, then the death as the notice that follows from them; without roots, the death."""
    if not found:
        return (death,)
    line = f"it follows from {found[0].code}: {found[0].message[:160]}"
    return (*found, replace(death, severity=Severity.NOTICE, evidence=(*death.evidence, line)))


def conclude(findings: Sequence[Finding], *, is_over: bool) -> list[Finding]:
    """The findings on one incident in the order in which to read them: each conclusion once, a death behind its root.

    Two findings conclude the same when they name the same processes, cause and line, whatever found them: the most
    severe is kept, of these the surest, of these the first. `is_over`: the incident was judged when it ended: what was
    merely suspected on the way, or seen before the culprit was known, is left out when there is an error.
    """
    deaths = [f for f in findings if f.kind is Kind.CRASH and f.severity is Severity.ERROR]
    calls = [f for f in findings if f not in deaths]
    told: list[Finding] = []
    for death in deaths:
        found = roots(calls, death=death.cause, certainty=death.certainty)
        told += after_roots(found, death)[len(found) :]
    ordered = sorted((*calls, *told), key=lambda f: (_SEVERITY[f.severity], _CERTAINTY[f.certainty]))
    once: dict[tuple[object, ...], Finding] = {}
    for finding in ordered:
        once.setdefault(_conclusion(finding), finding)
    kept = list(once.values())
    if is_over and any(f.severity is Severity.ERROR for f in kept):
        kept = [f for f in kept if f.severity is Severity.ERROR or f.kind not in _SUSPECTED]
        known = [_concerned(f) for f in kept if f.kind in ROOTED and names_someone(f)]
        kept = [f for f in kept if f.kind not in ROOTED or names_someone(f) or _concerned(f) not in known]
    return kept


def _concerned(finding: Finding) -> frozenset[int]:
    return frozenset((*finding.culprit_ranks, *finding.waiting_ranks))


def _conclusion(finding: Finding) -> tuple[object, ...]:
    if not names_someone(finding):
        return (finding.code, finding.cause, finding.waiting_ranks, finding.site, finding.message)
    file, _, line = (finding.site or "").rpartition(":")
    members = tuple(member.rank for member in finding.cycle or ())
    return (finding.culprit_ranks, finding.culprit_pids, members, finding.cause, short_path(file) if file else "", line)


def names_someone(finding: Finding) -> bool:
    """Whether a finding says who it was: ranks, processes or the members of a cycle."""
    return bool(finding.culprit_ranks or finding.culprit_pids or finding.cycle) and finding.kind is not Kind.NONE
