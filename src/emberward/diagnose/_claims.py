"""What is concluded from all that rules claim about one incident: which claims stand, and in which order.

[Note: precedence]
A rule looks at one kind of evidence and gives claims. `SILENCED_BY` says whose claims are not asked for, once a better
ground has told who it was; `_explains`, which claim is what another one looks like from elsewhere. Within an incident
the calls come first, then the signal: see [Note: root and death]. Nothing else decides between rules: files, a job that
runs and one that has just ended are heard here, each with the grounds that it has.

[Note: root and death]
Rings that end with a rank's death look like a call that is missing, or like a deadlock: the others wait for what never
came. So such a verdict is the root only when every death looks like a secondary failure, as when the time-out of a
deadlock, or of a link that was cut, ends all ranks. A mismatch of calls makes gloo raise or abort, and explains deaths
of these two kinds; one call less, or one more, lets a rank leave early. A rank that was killed or ran out of memory
explains itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from emberward.diagnose._ends import LEFT
from emberward.diagnose._say import shortened
from emberward.findings import Cause, Certainty, Finding, Kind, Severity


class Ground(StrEnum):
    """What a claim rests on, in the order in which they are heard."""

    STOPPED = "stopped"
    """The kernel's word that a process was stopped."""
    CREATION = "creation"
    """Stacks of ranks that create a group, while others do not."""
    HELD = "held"
    """A lock between processes that one holds while it waits for those who wait for the lock."""
    CREDITS = "credits"
    """Threads that wait for each other through a bounded buffer."""
    STORE = "store"
    """What ranks set in their stores and wait for there, by key."""
    LINES = "lines"
    """The lines of recorded calls, which meet one place apart."""
    CALLS = "calls"
    """Recorded calls, with the states of their processes."""
    ABORTS = "aborts"
    """The call in which a process aborted itself, beside those of its peers."""
    DEATHS = "deaths"
    """How processes ended, as somebody saw while the others still ran."""
    STACKS = "stacks"
    OTHER_STACKS = "other_stacks"
    """Stacks of another moment in the same document."""
    TRACES = "traces"
    LOGS = "logs"
    RAS = "ras"
    ENDS = "ends"
    """How processes ended, as files tell afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A rule's proposal: its finding says who, why, where and how sure, and on what that rests."""

    ground: Ground
    finding: Finding


Rule = Callable[[], Iterable[Finding]]

_WAITS = frozenset({Ground.CREATION, Ground.HELD, Ground.CREDITS, Ground.STORE})
_CALLS = _WAITS | {Ground.LINES, Ground.CALLS}
SILENCED_BY: Mapping[Ground, frozenset[Ground]] = {
    Ground.CREDITS: frozenset({Ground.CREATION, Ground.HELD}),
    Ground.STORE: frozenset({Ground.CREATION, Ground.HELD, Ground.CREDITS}),
    Ground.LINES: _WAITS,
    Ground.CALLS: _WAITS,
    Ground.ABORTS: frozenset({Ground.CALLS}),
    Ground.STACKS: _CALLS,
    **dict.fromkeys((Ground.TRACES, Ground.LOGS, Ground.RAS), _CALLS | {Ground.STACKS, Ground.OTHER_STACKS}),
}
"""Of each ground, those that leave nothing for it to say when they name somebody. See [Note: precedence]."""
MEET_AND_DIFFER = frozenset({"M101", "M102", "M103"})
"""Codes of calls that meet and differ."""
DIFFER = MEET_AND_DIFFER | {"H152"}
"""Verdicts on calls that met and differ, also when the judge knows why: one was left out, or is one too many."""
_SAYS_WHY = MEET_AND_DIFFER | {"H129", "H150"}
"""Why all wait, though none of two sides is the odd one: stacks would call it a cycle."""
_ISSUED_BY_ALL = "H103"
_RING_OF_STACKS = "H111"
ROOTED = frozenset({Kind.MISMATCH, Kind.MISSING, Kind.DEADLOCK, Kind.LINK})
MAY_FOLLOW = frozenset({Cause.EXCEPTION, Cause.SEGFAULT, Cause.SHAPE})
"""Deaths that a mismatch of calls brings about: gloo raises or aborts, and may do so in an innocent rank."""
_SEVERITY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTICE: 2}
_CERTAINTY = {Certainty.PROVED: 0, Certainty.OBSERVED: 1, Certainty.INFERRED: 2, Certainty.UNKNOWN: 3}
_LEFT_THE_ORDER = frozenset({Kind.MISMATCH, Kind.MISSING})
_SUSPECTED = frozenset({Kind.HANG, Kind.STRAGGLER, Kind.NONE})


def names_someone(finding: Finding) -> bool:
    """Whether a finding says who it was: ranks, processes or the members of a cycle."""
    return bool(finding.culprit_ranks or finding.culprit_pids or finding.cycle) and finding.kind is not Kind.NONE


def met_apart(finding: Finding) -> bool:
    """Whether a finding says that calls met in silence one place apart: only their own lines observe an H104."""
    return finding.code == "H104" and finding.certainty is Certainty.OBSERVED


def seen_by_run(prior: Sequence[Finding]) -> list[Finding]:
    """Of what a run concluded before: what its files do not show.

    That are deaths, stopped processes, and ranks that wait for a buffer of their own.
    """
    sure = (Certainty.PROVED, Certainty.OBSERVED)
    return [
        each for each in prior if each.severity is Severity.ERROR and each.certainty in sure and names_someone(each)
    ]


def hear(rules: Mapping[Ground, Rule]) -> list[Claim]:
    """The claims of all rules that nothing silences, the grounds in their order; a silenced rule is not run.

    See [Note: precedence].
    """
    claims: list[Claim] = []
    for ground in Ground:
        if ground in rules and not any(_silences(claim, ground) for claim in claims):
            claims += [Claim(ground=ground, finding=finding) for finding in rules[ground]()]
    return _with_deaths(_of_the_living([c for c in claims if not any(_explains(other, c) for other in claims)]))


def _of_the_living(claims: list[Claim]) -> list[Claim]:
    """The claims; an exception that a log tells of nobody is no death where stacks show who stands: it was caught."""
    if not any(claim.ground is Ground.STACKS and names_someone(claim.finding) for claim in claims):
        return claims
    line = "the log names no rank, and stacks show a process that stands: the program caught this, or went on after it"
    return [
        replace(c, finding=replace(c.finding, severity=Severity.NOTICE, evidence=(*c.finding.evidence, line)))
        if c.ground is Ground.ENDS and not names_someone(c.finding)
        else c
        for c in claims
    ]


def _with_deaths(claims: list[Claim]) -> list[Claim]:
    """The claims; where calls met and differ, deaths that were seen are what came of it: lines of its evidence."""
    deaths = [claim.finding for claim in claims if claim.ground is Ground.DEATHS]
    faults = [claim for claim in claims if claim.ground is not Ground.DEATHS]
    if not deaths or not faults:
        return claims
    lines = [f"as a consequence: {death.message}" for death in deaths]
    return [
        replace(
            fault,
            finding=replace(
                fault.finding,
                # What two lines tell of the calls stays a guess; that calls which met differ is seen twice now.
                certainty=fault.finding.certainty if fault.ground is Ground.ABORTS else Certainty.OBSERVED,
                evidence=(*fault.finding.evidence, *lines),
            ),
        )
        for fault in faults
    ]


def _silences(claim: Claim, ground: Ground) -> bool:
    if claim.ground not in SILENCED_BY.get(ground, frozenset()):
        return False
    if ground is Ground.ABORTS:
        return claim.finding.code in MEET_AND_DIFFER
    return names_someone(claim.finding) or (ground is Ground.STACKS and claim.finding.code in _SAYS_WHY)


def _explains(claim: Claim, other: Claim) -> bool:
    """Whether `other` is what `claim` looks like from another ground."""
    ours, theirs = claim.finding, other.finding
    match claim.ground, other.ground:
        case Ground.DEATHS, Ground.DEATHS:
            return False
        case Ground.DEATHS, _:
            # Who is gone is waited for, and what is not a fault of the calls themselves follows from that.
            return theirs.code not in DIFFER and other.ground is not Ground.LINES
        case Ground.STOPPED, _:
            return other.ground not in (Ground.STOPPED, Ground.DEATHS, Ground.LINES) and theirs.code not in DIFFER
        case Ground.CREATION, Ground.CALLS:
            # Who is in the creation waits in the store, and in no recorded call.
            return theirs.cause is Cause.STORE_WAIT and set(theirs.culprit_ranks) <= set(ours.waiting_ranks)
        case Ground.LINES, Ground.CALLS:
            # What a shift of calls brings about later on.
            return ours.severity is Severity.ERROR and _names_same(theirs, ours)
        case Ground.CALLS, Ground.LINES:
            # Of calls whose steps alone tell that they met apart, what came of it tells more.
            return (
                ours.severity is Severity.ERROR and theirs.severity is not Severity.ERROR and _names_same(theirs, ours)
            )
        case Ground.CALLS, Ground.STACKS:
            # A call that all its members have made may just run: stacks in sends and receives are no ring then.
            return ours.code == _ISSUED_BY_ALL and theirs.code == _RING_OF_STACKS
        case Ground.ENDS, Ground.CALLS:
            # A rank that died of itself waits for nobody any more, whatever call it had open.
            is_own = ours.kind is Kind.CRASH and ours.certainty is Certainty.OBSERVED and ours.cause is not Cause.KILLED
            return is_own and not {m.rank for m in theirs.cycle or ()}.isdisjoint(ours.culprit_ranks)
        case _, Ground.ENDS:
            return claim.ground is not Ground.ENDS and ours.kind is Kind.CRASH and bool(ours.culprit_ranks)
    return False


def _names_same(finding: Finding, other: Finding) -> bool:
    return bool(finding.culprit_ranks) and set(finding.culprit_ranks) <= set(other.culprit_ranks)


def roots(verdicts: Sequence[Finding], *, death: Cause, certainty: Certainty) -> list[Finding]:
    """The verdicts that say why a rank died, as far as that death can follow from them: [Note: root and death]."""
    errors = [each for each in verdicts if each.severity is Severity.ERROR]
    if certainty is Certainty.INFERRED:
        return [each for each in errors if each.kind in ROOTED]
    if death in MAY_FOLLOW:
        return [each for each in errors if each.kind is Kind.MISMATCH or each.code in DIFFER]
    if death in LEFT:
        # Who made a call less, or a peer of who made one more, comes to its end while others still are in a call.
        return [each for each in errors if met_apart(each)]
    return []


def after_roots(found: Sequence[Finding], death: Finding) -> tuple[Finding, ...]:
    """`found`, the roots of a death, then the death as the notice that follows from them; without roots, the death."""
    if not found:
        return (death,)
    line = f"it follows from {found[0].code}: {shortened(found[0].message, 160)}"
    return (*found, replace(death, severity=Severity.NOTICE, evidence=(*death.evidence, line)))


def conclude(findings: Sequence[Finding], *, is_over: bool) -> list[Finding]:
    """The findings on one incident in the order in which to read them: each conclusion once, a death behind its root.

    Two findings conclude the same when they name the same processes, cause and line, or say of the same processes that
    they left the order of calls at one line, or that they died, whatever found them: the most severe is kept, of these
    the surest, of these the first. `is_over`: the incident was judged when it ended: what was merely suspected on the
    way, or seen before the culprit was known, is left out when there is an error; so is who never arrived, where nobody
    saw why, beside a verdict that says why.
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
        if any(f.severity is Severity.ERROR and names_someone(f) and not _says_no_why(f) for f in kept):
            kept = [f for f in kept if not _says_no_why(f)]
    # What names nobody among the ranks of a verdict that does is what that looks like to those who wait.
    known = [_concerned(f) for f in kept if f.kind in ROOTED and f.severity is Severity.ERROR and names_someone(f)]
    kept = [f for f in kept if f.kind not in ROOTED or names_someone(f) or not any(_concerned(f) <= k for k in known)]
    return sorted(_together(kept), key=lambda f: (_SEVERITY[f.severity], not names_someone(f)))


def _says_no_why(finding: Finding) -> bool:
    return finding.kind in _SUSPECTED and finding.cause is Cause.UNKNOWN


def _together(findings: Sequence[Finding]) -> list[Finding]:
    """The findings; ranks of groups apart that depart from the order alike, at one line, are one finding."""
    out: list[Finding] = []
    for finding in findings:
        like = next((n for n, other in enumerate(out) if _is_apart(finding, other)), None)
        if like is None:
            out.append(finding)
            continue
        first = out[like]
        out[like] = replace(
            first,
            culprit_ranks=tuple(sorted({*first.culprit_ranks, *finding.culprit_ranks})),
            waiting_ranks=tuple(sorted({*first.waiting_ranks, *finding.waiting_ranks})),
            message=f"{first.message}; {finding.message}",
            evidence=(*first.evidence, *finding.evidence),
        )
    return out


def _is_apart(left: Finding, right: Finding) -> bool:
    """Whether two findings say the same of ranks that do not meet, as in the groups of one axis of a mesh."""
    if left.kind not in (Kind.MISSING, Kind.MISMATCH) or left.site is None or not left.waiting_ranks:
        return False
    is_same = all(getattr(left, name) == getattr(right, name) for name in ("code", "kind", "cause", "severity", "site"))
    return is_same and bool(left.culprit_ranks and right.waiting_ranks) and not _concerned(left) & _concerned(right)


def _concerned(finding: Finding) -> frozenset[int]:
    return frozenset((*finding.culprit_ranks, *finding.waiting_ranks))


def _conclusion(finding: Finding) -> tuple[object, ...]:
    if not names_someone(finding):
        return (finding.code, finding.cause, finding.waiting_ranks, finding.site, finding.message)
    if finding.kind is Kind.CRASH:
        # A process ends once, whoever tells how.
        return (finding.culprit_ranks, finding.culprit_pids, finding.kind)
    file, _, line = (finding.site or "").rpartition(":")
    members = tuple(member.rank for member in finding.cycle or ())
    name = file.rpartition("/")[2]
    # Left out, one too many or another one: of a rank that left the order at a line one of these is true.
    cause = "order" if finding.kind in _LEFT_THE_ORDER and file and not members else finding.cause
    return (finding.culprit_ranks, finding.culprit_pids, members, cause, name, line)
