"""The gathers and scatters of a job's steps: how many, of what, who asked for them, how long before use. Pure."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from emberward.lens._operations import RankOperations
from emberward.lens._spans import Spans, both, length_of
from emberward.lens._work import RankWork, Transfer, Work

Unit = tuple[str, int]
COPY_OUT = "FSDP::all_gather_copy_out ("


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitGathers:
    """A unit's gathers in a step of one rank. `lead_s`: from issue to use, where that is known, the median."""

    unit: str
    num_bytes: int
    gathers: float
    asked_at: str
    lead_s: float | None
    exposed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """Figures a step of the rank that gathers most. `unique_bytes`: of each unit once."""

    gathers: float
    gathered_bytes: float
    unique_bytes: int
    scatters: float
    scattered_bytes: float
    units: tuple[UnitGathers, ...]
    order_changes: int
    of_steps: int

    def to_json(self) -> dict[str, Any]:
        """As it stands in the document of ``--json``, milliseconds and bytes a step."""
        return {
            "gathers_per_step": round(self.gathers, 2),
            "gathered_bytes_per_step": round(self.gathered_bytes),
            "unique_bytes": self.unique_bytes,
            "scatters_per_step": round(self.scatters, 2),
            "scattered_bytes_per_step": round(self.scattered_bytes),
            "order_changed_steps": self.order_changes,
            "observed_steps": self.of_steps,
            "units": [
                {
                    "unit": each.unit,
                    "bytes": each.num_bytes,
                    "gathers_per_step": round(each.gathers, 2),
                    "asked_at": each.asked_at,
                    "issued_before_use_ms": None if each.lead_s is None else round(1000 * each.lead_s, 4),
                    "exposed_ms_per_step": round(1000 * each.exposed_s, 4),
                }
                for each in self.units
            ],
        }


def sharding_of(work: Work, ranks: Sequence[RankOperations]) -> Sharding | None:
    """The sharding of the rank with most gathers; None where no rank gathers or scatters anything."""
    worst = max(work.ranks, key=lambda rank: len(gathers_of(rank)))
    operations = next(rank for rank in ranks if rank.rank == worst.rank)
    gathers, steps = gathers_of(worst), work.num_steps
    scatters = [each for each in worst.transfers if each.op.startswith("reduce_scatter")]
    if not gathers and not scatters:
        return None
    by_unit: dict[Unit, list[Transfer]] = defaultdict(list)
    for each in gathers:
        by_unit[unit_of(each)].append(each)
    orders = [[unit_of(each) for each in within(gathers, operations, step)] for step in range(operations.num_steps)]
    return Sharding(
        gathers=len(gathers) / steps,
        gathered_bytes=sum(each.num_bytes for each in gathers) / steps,
        unique_bytes=sum(num_bytes for _, num_bytes in by_unit),
        scatters=len(scatters) / steps,
        scattered_bytes=sum(each.num_bytes for each in scatters) / steps,
        units=tuple(_unit_gathers(unit, own, worst, operations) for unit, own in by_unit.items()),
        order_changes=sum(before != now for before, now in pairwise(orders)),
        of_steps=operations.num_steps,
    )


def gathers_of(rank: RankWork) -> list[Transfer]:
    """Those of the observed steps."""
    return [each for each in rank.transfers if each.op.startswith("allgather")]


def unit_of(each: Transfer) -> Unit:
    """Who asked for a gather, else its line, and its size."""
    return each.asked or each.site, each.num_bytes


def within(transfers: Sequence[Transfer], rank: RankOperations, step: int) -> list[Transfer]:
    """The transfers of one observed step."""
    begin, end = rank.bounds_s[step], rank.bounds_s[step + 1]
    return [each for each in transfers if begin <= each.began_s < end]


def _unit_gathers(unit: Unit, own: Sequence[Transfer], work: RankWork, rank: RankOperations) -> UnitGathers:
    uses = sorted(op.began_s for op in rank.operations if op.name == f"{COPY_OUT}{unit[0]})")
    leads = [next((use - each.began_s for use in uses if use >= each.began_s), None) for each in own]
    known = [lead for lead in leads if lead is not None]
    return UnitGathers(
        unit=unit[0],
        num_bytes=unit[1],
        gathers=len(own) / rank.num_steps,
        asked_at=Counter(each.site for each in own).most_common(1)[0][0],
        lead_s=statistics.median(known) if known else None,
        exposed_s=length_of(both(work.exposed, times(own))) / rank.num_steps,
    )


def times(transfers: Sequence[Transfer]) -> Spans:
    """Begin and end of each."""
    return [(each.began_s, each.ended_s) for each in transfers]
