"""Calls that meet and differ, found in the dumps' own rows and judged by `match`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from emberward.diagnose._calls import GroupName, GroupPart, RankFlight
from emberward.diagnose._claims import MEET_AND_DIFFER
from emberward.diagnose._groups import Groups, GroupView
from emberward.diagnose._say import hang_finding, ranks_text
from emberward.diagnose._trace import body_of, group_window
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.match import TieBreak, check

WINDOW = 64
"""Calls before and after the first difference that the judge sees."""
MAX_GROUPS = 16
"""Most groups whose differences are judged."""
_COUNTED = re.compile(r"\bcall (\d+) of ")


def mismatches(
    flights: Mapping[int, RankFlight], groups: Groups, world_size: int, *, tie_break: TieBreak | None = None
) -> Iterator[tuple[GroupName, Finding]]:
    """Yields (group, finding) where members' calls differ in what must agree. The majority decides who is odd.

    Where there is none, the program's text may: `tie_break`.
    """
    judged = 0
    for view in groups:
        parts = {r: p for r in view.members if r in flights and (p := flights[r].groups.get(view.name)) and p.seqs}
        if all(part.is_alike for part in parts.values()) or judged >= MAX_GROUPS:
            continue
        # Like whom a part is: the first one read, whatever its rank.
        first = next((part for part in parts.values() if part.is_alike), next(iter(parts.values())))
        seq = min((s for p in parts.values() if (s := _first_difference(first, p, view)) is not None), default=None)
        if seq is None:
            continue
        judged += 1
        low = max(seq - WINDOW, *(part.seqs[0] for part in parts.values()))
        trace = group_window(flights, view, low=low, high=seq + WINDOW, world_size=world_size, stand_in=first)
        if trace is None:
            continue
        verdict = check(trace, with_cure=False, with_hazards=False, tie_break=tie_break)
        for finding in verdict.findings:
            if finding.code in MEET_AND_DIFFER:
                yield view.name, replace(_counted_from(finding, low), certainty=Certainty.OBSERVED)


def _counted_from(finding: Finding, low: int) -> Finding:
    """The finding on a window that begins at call `low` of its group, with the group's own count of its calls."""

    def own(text: str) -> str:
        return _COUNTED.sub(lambda found: f"call {int(found[1]) + low - 1} of ", text)

    return replace(finding, message=own(finding.message), evidence=tuple(map(own, finding.evidence)))


def _first_difference(first: GroupPart, part: GroupPart, view: GroupView) -> int | None:
    """The lowest seq at which two ranks' calls differ in what must agree; None when they only differ by right."""
    if part is first or part.is_alike:
        return None
    ours = dict(zip(part.seqs, part.signatures, strict=True))
    for seq, signature in zip(first.seqs, first.signatures, strict=True):
        other = ours.get(seq)
        if other is not None and other != signature:
            left, right = first.call(seq), part.call(seq)
            if left is not None and right is not None and body_of(left, view) != body_of(right, view):
                return seq
    return None


def tells_why(finding: Finding) -> bool:
    """Whether a finding tells by what was seen why some stand, not because nothing is known of them."""
    is_seen = finding.certainty in (Certainty.OBSERVED, Certainty.PROVED) and finding.code != "H109"
    return is_seen and (bool(finding.culprit_ranks or finding.cycle) or finding.code in MEET_AND_DIFFER)


def other_roots_finding(
    root: str, site: str | None, waiting: Sequence[int], evidence: Sequence[str], *, severity: Severity
) -> Finding:
    """All wait in one call, whose root each works out for itself: nobody knows whose differs. See `root_of_its_own`."""
    return hang_finding(
        "M102",
        f"{ranks_text(waiting) if waiting else 'all processes'} wait in one call at {site}, "
        f"whose root each finds out by itself ({root}): it may differ",
        kind=Kind.MISMATCH,
        cause=Cause.DIFFERENT_ROOT,
        certainty=Certainty.INFERRED,
        severity=severity,
        waiting=waiting,
        site=site,
        evidence=evidence,
        ruled_out=("a missing call: all have come to it",),
        next_step=f"print {root} at {site} on every rank; let one rank decide, and broadcast its choice from rank 0",
    )
