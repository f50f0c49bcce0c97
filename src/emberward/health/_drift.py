"""Drift: what must be equal on several ranks and is not. Judges digests; who holds which copy comes from outside.

[Note: vote]
Of three or more copies the value that more than half of them share is the majority, and the others are odd. Of two
copies, or without a majority, nobody can say which is right: all of them are named and no culprit. A majority is not
always right: a bug that breaks all ranks but one leaves that one odd. So it is inferred who drifted, and observed that
copies differ.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from emberward.findings import Cause, Finding, FindingPhase, Severity, observed

MAX_TOLD = 8
"""Differences that a finding lists; the rest are counted."""


class Held(StrEnum):
    """What a copy is a copy of."""

    PARAMETER = "parameter"
    MOMENT = "moment"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """One thing that must be equal: its name, its place in the whole tensor ("" for all of it), digests by rank."""

    held: Held
    name: str
    place: str
    digests: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Copies that are not all equal. `source` has the majority's value, None without one; `odd` are the others.

    Without a majority `odd` holds every rank. See [Note: vote].
    """

    held: Held
    name: str
    place: str
    ranks: tuple[int, ...]
    source: int | None
    odd: tuple[int, ...]


def find_difference(copies: Copies) -> Difference | None:
    """How the copies differ, None when they are equal. See [Note: vote]."""
    counts = Counter(copies.digests.values())
    if len(counts) <= 1:
        return None
    ranks = tuple(sorted(copies.digests))
    value, most = counts.most_common(1)[0]
    equal = [rank for rank in ranks if copies.digests[rank] == value] if most * 2 > len(ranks) else []
    return Difference(
        held=copies.held,
        name=copies.name,
        place=copies.place,
        ranks=ranks,
        source=equal[0] if equal else None,
        odd=tuple(rank for rank in ranks if rank not in equal),
    )


def likely_cause(differences: Sequence[Difference]) -> Cause:
    """BIT_FLIP for parameters that differ while their moments agree, else REPLICA_DRIFT.

    A wrong gradient, clip or update changes the moments of AdamW as well; a value that changed in memory does not.
    """
    parameters = {each.name for each in differences if each.held is Held.PARAMETER}
    others = [each for each in differences if each.held is not Held.PARAMETER]
    return Cause.BIT_FLIP if parameters and not others and len(parameters) == 1 else Cause.REPLICA_DRIFT


def _odd(differences: Sequence[Difference], *, is_voted: bool) -> tuple[int, ...]:
    return tuple(sorted({rank for each in differences if (each.source is not None) is is_voted for rank in each.odd}))


def _since(last_equal_step: int | None) -> str:
    return "before it was never compared" if last_equal_step is None else f"equal after step {last_equal_step}"


def tensor_finding(differences: Sequence[Difference], *, step: int, last_equal_step: int | None) -> Finding:
    """R115: tensors that must be equal differ after `step` finished steps; they were equal after `last_equal_step`."""
    odd, undecided = (_odd(differences, is_voted=is_voted) for is_voted in (True, False))
    first = differences[0]
    more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
    who = f"rank {_some(odd)} stands against the majority" if odd else f"ranks {_some(undecided)} disagree"
    cause = likely_cause(differences)
    hint = (
        "its moments agree: the value changed by itself, as memory or a stray write changes it"
        if cause is Cause.BIT_FLIP
        else "moments or several tensors differ: the gradient, the clipping or the update is not the same everywhere"
    )
    return observed(
        "R115",
        f"copies differ after step {step}: {first.name}{first.place}{more}; {who}",
        cause=cause,
        culprit_ranks=odd,
        phase=FindingPhase(step=step - 1),
        evidence=(_since(last_equal_step), f"inferred: {hint}", *_listed(differences)),
        next="health.on_drift=repair takes the majority's values; without a majority the copy that saves hold",
    )


def state_finding(differences: Sequence[Difference], *, step: int, last_equal_step: int | None) -> Finding:
    """R117: ranks are not in the same state (step, learning rate, data position, random numbers)."""
    odd, undecided = (_odd(differences, is_voted=is_voted) for is_voted in (True, False))
    names = ", ".join(each.name for each in differences)
    stands = "stands against the majority" if odd else "disagree"
    return observed(
        "R117",
        f"ranks are in different states after step {step}: {names}; rank {_some(odd or undecided)} {stands}",
        cause=Cause.REPLICA_DRIFT,
        culprit_ranks=odd,
        phase=FindingPhase(step=step - 1),
        evidence=(_since(last_equal_step), *_listed(differences)),
        next="look for code that one rank alone runs; go on from the last save",
    )


def repaired_finding(differences: Sequence[Difference], *, step: int) -> Finding:
    """R116: the odd copies were overwritten by the majority's, or by those that saves hold where there is none."""
    odd = tuple(sorted({rank for each in differences for rank in each.odd if rank != repair_source(each)}))
    by_vote = sum(each.source is not None for each in differences)
    return observed(
        "R116",
        f"{len(differences)} tensors were made equal again after step {step}, on rank {_some(odd)}",
        severity=Severity.WARNING,
        cause=likely_cause(differences),
        culprit_ranks=odd,
        phase=FindingPhase(step=step - 1),
        evidence=(
            f"{by_vote} by the majority of their copies, {len(differences) - by_vote} by the copy that saves hold",
            *_listed(differences),
        ),
        next="if it comes back at the next check, the update is at fault and not the memory: stop and look",
    )


def repair_source(difference: Difference) -> int:
    """The rank whose copy the others take: the majority's first, else the first of all, whose copy is saved."""
    return difference.ranks[0] if difference.source is None else difference.source


def _listed(differences: Sequence[Difference]) -> tuple[str, ...]:
    lines = []
    for each in differences[:MAX_TOLD]:
        others = tuple(rank for rank in each.ranks if rank not in each.odd)
        against = f"rank {_some(each.odd)} against {_some(others)}" if others else f"ranks {_some(each.ranks)}"
        lines.append(f"{each.name}{each.place}: {against}")
    if len(differences) > MAX_TOLD:
        lines.append(f"and {len(differences) - MAX_TOLD} more")
    return tuple(lines)


def _some(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:MAX_TOLD]))
    return shown if len(ranks) <= MAX_TOLD else f"{shown} and {len(ranks) - MAX_TOLD} more"
