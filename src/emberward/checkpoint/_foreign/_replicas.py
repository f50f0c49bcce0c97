"""Copies of one tensor that should be equal: whether they are, and which one to believe.

BLOOM-176B's tensor-parallel ranks trained 17,235 steps with layer norms that were no longer equal: a clip bug hit the
weights, their fp32 masters and both moments (the run's chronicles, 2022-03). A merge that takes one of them, or all,
without saying so changes the model. So a difference stops the reading until a person says what shall count.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from emberward.checkpoint._boxes import whole_box
from emberward.checkpoint._foreign._bits import to_bits, to_floats
from emberward.checkpoint._foreign._read import Reader, read_tiles
from emberward.checkpoint._foreign._stored import Stored, whole
from emberward.checkpoint._part import UintArray
from emberward.findings import Cause, Certainty, EmberwardError, Finding, Kind, Severity


class Choice(StrEnum):
    """What counts when replicas disagree. Ranks are counted within the group that holds the replicas."""

    REFUSE = "refuse"
    MAJORITY = "majority"
    AVERAGE = "average"
    RANK = "rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The choice, and the rank that counts when it is `RANK`."""

    choice: Choice = Choice.REFUSE
    rank: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Replicas":
        """The choice that ``refuse``, ``majority``, ``average`` or ``rank=K`` says. Raises ValueError."""
        word, _, rank = text.partition("=")
        choice = Choice(word)
        if (choice is Choice.RANK) != rank.isdigit():
            raise ValueError(text)
        return cls(choice=choice, rank=int(rank) if rank else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The tensor that counts, and what was found out about its replicas when they were not equal."""

    stored: Stored
    finding: Finding | None


def settle(name: str, replicas: Mapping[int, Stored], policy: Replicas, reader: Reader) -> Settled:
    """The one tensor that counts among the replicas that ranks hold, by rank.

    Each is read, a few megabytes at a time; those that differ are held whole. Raises K112 when they differ and the
    policy is to refuse, or gives no answer.
    """
    first = min(replicas)
    if len(replicas) == 1:
        return Settled(stored=replicas[first].named(name), finding=None)
    if all(is_equal(replicas[first], stored, reader) for rank, stored in replicas.items() if rank != first):
        return Settled(stored=replicas[first].named(name), finding=None)
    values = {rank: reader.array(stored) for rank, stored in sorted(replicas.items())}
    groups = _equal_groups(values)
    finding = _difference(name, values, groups, replicas[first], policy)
    if finding.severity is Severity.ERROR:
        raise disagreement(finding)
    match policy.choice:
        case Choice.RANK:
            assert policy.rank is not None
            chosen = values[policy.rank]
        case Choice.AVERAGE:
            stack = np.stack([to_floats(bits, replicas[first].dtype) for bits in values.values()])
            chosen = to_bits(stack.mean(axis=0), replicas[first].dtype)
        case _:
            chosen = values[groups[0][0]]
    stored = whole(name, replicas[first].dtype, replicas[first].shape, chosen.tobytes())
    return Settled(stored=stored, finding=finding)


def is_equal(a: Stored, b: Stored, reader: Reader) -> bool:
    """Whether two tensors of one shape have the same bits."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    with Reader() as other:
        box = whole_box(a.shape)
        pairs = zip(read_tiles(reader, a, box), read_tiles(other, b, box), strict=True)
        return all(np.array_equal(ours, theirs) for (_, ours), (_, theirs) in pairs)


def disagreement(finding: Finding) -> EmberwardError:
    """K112 as an error that stops."""
    return EmberwardError(
        finding.message,
        code="K112",
        where=finding.site,
        expected="equal replicas",
        found="; ".join(finding.evidence),
        next=finding.next,
        cause=Cause.REPLICA_DRIFT,
    )


def _equal_groups(values: Mapping[int, UintArray]) -> list[tuple[int, ...]]:
    """Ranks whose bits are equal, the largest group first; among equal sizes, that of the lowest rank."""
    members: dict[bytes, list[int]] = {}
    for rank, bits in values.items():
        members.setdefault(bits.tobytes(), []).append(rank)
    return sorted((tuple(ranks) for ranks in members.values()), key=lambda ranks: (-len(ranks), ranks))


def _difference(
    name: str, values: Mapping[int, UintArray], groups: Sequence[tuple[int, ...]], like: Stored, policy: Replicas
) -> Finding:
    floats = {rank: to_floats(bits, like.dtype) for rank, bits in values.items()}
    most = max(_max_difference(floats[a[0]], floats[b[0]]) for a in groups for b in groups)
    sizes = Counter(map(len, groups))
    has_majority = len(groups[0]) * 2 > len(values)
    said = ", ".join("ranks " + " ".join(map(str, ranks)) for ranks in groups)
    solved = {
        Choice.REFUSE: False,
        Choice.MAJORITY: has_majority,
        Choice.AVERAGE: True,
        Choice.RANK: policy.rank in values,
    }[policy.choice]
    taken = "" if not solved else f"; {policy.choice.value}{'' if policy.rank is None else f'={policy.rank}'} taken"
    advice = "majority" if has_majority else "average"
    return Finding(
        code="K112",
        severity=Severity.WARNING if solved else Severity.ERROR,
        kind=Kind.DRIFT,
        cause=Cause.REPLICA_DRIFT,
        certainty=Certainty.OBSERVED,
        message=f"replicas of {name} disagree by up to {most:.3g}{taken}",
        site=name,
        evidence=(f"equal among themselves: {said}", f"{sum(sizes.values())} different values"),
        next="" if solved else f"choose what counts: --replicas {advice}, or --replicas rank=K",
    )


def _max_difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    with np.errstate(invalid="ignore"):
        difference = np.abs(a - b)
    return float(np.nanmax(difference)) if difference.size and not np.isnan(difference).all() else float("nan")
