"""Rings as dumps of torch's recorder: the calls of each rank, for the judge."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from emberward.diagnose import RankFlight, op_of
from emberward.diagnose.live import RingFacts, Snapshot
from emberward.diagnose.live import judge_with_progress as judge_pair_with_progress
from emberward.findings import Finding
from emberward.sources.dumps import DumpFormatError, FlightReader


def _past_entries(rings: Mapping[int, RingFacts]) -> dict[int, list[dict[str, Any]]]:
    """Each rank's completed calls, of each group up to the last that every rank had completed when it was read.

    Ranks are read one after the other: without a common end, a call that differs and one too many look alike.
    """
    done = {
        rank: [e for e in ring.flight.get("entries", ()) if isinstance(e, dict) and e.get("retired")]
        for rank, ring in rings.items()
    }
    ends: dict[str, int] = {}
    for entries in done.values():
        last: dict[str, int] = {}
        for entry in entries:
            if not entry["is_p2p"]:
                last[str(entry["process_group"])] = max(
                    last.get(str(entry["process_group"]), 0), entry["collective_seq_id"]
                )
        for name, seq in last.items():
            ends[name] = min(ends.get(name, seq), seq)
    return {
        rank: [e for e in entries if not e["is_p2p"] and e["collective_seq_id"] <= ends[str(e["process_group"])]]
        for rank, entries in done.items()
    }


def _blank_mixed(rows: dict[int, list[dict[str, Any]]]) -> None:
    """Leaves only operation and place in a group of which some rows are the ring's and some torch's own.

    The two do not tell the same: torch's know no root and no reduction, and count the sizes of lists in their own way.
    """
    writers: dict[str, set[bool]] = {}
    for entries in rows.values():
        for entry in entries:
            if isinstance(entry, dict):
                is_ours = str(entry.get("profiling_name")).startswith("live:")
                writers.setdefault(str(entry.get("process_group")), set()).add(is_ours)
    mixed = {name for name, found in writers.items() if len(found) > 1}
    if not mixed:
        return
    for rank, entries in rows.items():
        rows[rank] = [
            {
                **entry,
                "profiling_name": f"live:{op_of(str(entry.get('profiling_name')))}",
                "input_sizes": [],
                "output_sizes": [],
                "input_dtypes": [],
                "output_dtypes": [],
            }
            if isinstance(entry, dict) and str(entry.get("process_group")) in mixed and not entry.get("is_p2p")
            else entry
            for entry in entries
        ]


def flights_of(rings: Mapping[int, RingFacts], *, is_past: bool = False) -> dict[int, RankFlight]:
    """Each rank's calls as a dump of its own; a ring that cannot be believed is left out.

    `is_past`: only those that have completed.
    """
    reader = FlightReader()
    out = {}
    rows = _past_entries(rings) if is_past else {r: list(ring.flight.get("entries", ())) for r, ring in rings.items()}
    _blank_mixed(rows)
    for rank, ring in rings.items():
        flight = {**ring.flight, "entries": rows[rank]}
        try:
            out[rank] = reader.read(flight, rank=rank, path=f"ring of rank {rank}")
        except (DumpFormatError, KeyError, TypeError, ValueError):
            continue
        out[rank].before = () if ring.before is None else (ring.before,)
        out[rank].data, out[rank].been_at, out[rank].lacks = ring.data, ring.been_at, ring.lacks
        out[rank].step = ring.step
        blocked = ring.blocked_record
        numbers = {e["record_id"]: e.get("ring_number") for e in rows[rank] if isinstance(e.get("record_id"), int)}
        # The host waits in one call: that is its head, whatever else it left open before.
        out[rank].pending.sort(key=lambda call: (numbers.get(call.record) != blocked or blocked is None, call.record))
    return out


judge_with_progress = partial(judge_pair_with_progress, flights_of=flights_of)


def judge_snapshots(early: Snapshot | None, snapshot: Snapshot, **options: Any) -> tuple[Finding, ...]:
    """The findings of `judge_with_progress`, with its options."""
    return judge_with_progress(early, snapshot, **options)[0]
