"""What the judge knows of a rank by its ring: the one place that makes it, for a job that runs and for a folder."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from emberward.diagnose import Frame, RankFlight, op_of
from emberward.diagnose.live import RingFacts
from emberward.sources.dumps._flight import DumpFormatError, FlightReader
from emberward.sources.dumps._ring import RING_BACKEND

Rows = list[dict[str, Any]]


def flights_of(
    rings: Mapping[int, RingFacts], *, is_past: bool = False, stacks: Mapping[int, tuple[Frame, ...]] | None = None
) -> dict[int, RankFlight]:
    """Each rank's calls and what its recorder tells of them; a ring that cannot be believed is left out.

    `is_past`: only those that have completed. `stacks`: where ranks wait in a call, as their stacks tell.
    """
    if is_past:
        ends = _common_ends(rings.values())
        rings = {rank: _only_past(ring, ends) for rank, ring in rings.items()}
    reader = RingReader()
    for ring in rings.values():
        reader.note(ring)
    out = {}
    for rank, ring in rings.items():
        try:
            out[rank] = reader.read(ring, rank=rank, path=f"ring of rank {rank}", stack=(stacks or {}).get(rank, ()))
        except (DumpFormatError, KeyError, TypeError, ValueError):
            continue
    return out


@dataclass(slots=True)
class RingReader:
    """Reads the rings of one job, one after another, and shares what is alike. See [Note: rows of two writers].

    [Note: rows of two writers]
    Of a group with calls below Python the rows are those of torch's recorder, which tell no root and no reduction and
    count the sizes of lists in their own way. Where other ranks' rows of that group are the ring's, the two can be
    compared by operation and place alone.
    """

    _reader: FlightReader = field(default_factory=FlightReader)
    _writers: dict[str, set[bool]] = field(default_factory=lambda: defaultdict(set))

    def note(self, facts: RingFacts) -> None:
        """Takes down who wrote the rows of each group. Call it for every ring of the job before the first `read`."""
        for entry in _entries(facts):
            if not entry.get("is_p2p"):
                self._writers[str(entry.get("process_group"))].add(_is_own(entry))

    @property
    def mixed(self) -> frozenset[str]:
        """The groups whose rows have two writers."""
        return frozenset(name for name, writers in self._writers.items() if len(writers) > 1)

    def anew(self) -> "RingReader":
        """A reader that knows all that was noted, and has read nothing yet."""
        return RingReader(_writers=self._writers)

    def read(
        self, facts: RingFacts, *, rank: int, path: str, written_ns: int | None = None, stack: tuple[Frame, ...] = ()
    ) -> RankFlight:
        """What the judge knows of the rank. Raises DumpFormatError, KeyError, TypeError or ValueError on damage."""
        facts = _with_line(_until_error(facts), stack)
        mixed = self.mixed
        rows = [
            _blank(entry) if str(entry.get("process_group")) in mixed and not entry.get("is_p2p") else entry
            for entry in _entries(facts)
        ]
        flight = self._reader.read({**facts.flight, "entries": rows}, rank=rank, path=path, written_ns=written_ns)
        flight.is_ring, flight.step = True, facts.step
        flight.before = () if facts.before is None else (facts.before,)
        flight.data, flight.been_at, flight.lacks = facts.data, facts.been_at, facts.lacks
        flight.ever_at = frozenset(facts.ever_at)
        flight.departed, flight.has_ended = facts.departed, facts.has_ended
        numbers = {e["record_id"]: e.get("ring_number") for e in rows if isinstance(e.get("record_id"), int)}
        blocked = facts.blocked_record
        # The host waits in one call: that is its head, whatever else it left open before.
        flight.pending.sort(key=lambda call: (numbers.get(call.record) != blocked or blocked is None, call.record))
        flight.is_free = (
            blocked is None
            and not (facts.waits_for_device or facts.backward or facts.creating)
            and all(numbers.get(call.record) for call in flight.pending)
        )
        return flight


def _entries(facts: RingFacts) -> Rows:
    return [entry for entry in facts.flight.get("entries", ()) if isinstance(entry, dict)]


def _is_own(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("profiling_name")).startswith(f"{RING_BACKEND}:")


def _blank(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The row with operation and place alone. See [Note: rows of two writers]."""
    nothing: dict[str, Any] = {key: [] for key in ("input_sizes", "output_sizes", "input_dtypes", "output_dtypes")}
    return {**entry, "profiling_name": f"{RING_BACKEND}:{op_of(str(entry.get('profiling_name')))}", **nothing}


def _common_ends(rings: Iterable[RingFacts]) -> dict[str, int]:
    """Of each group the last call that every rank had completed when it was read.

    Ranks are read one after the other: without a common end, a call that differs and one too many look alike.
    """
    ends: dict[str, int] = {}
    for ring in rings:
        last: dict[str, int] = {}
        for entry in _entries(ring):
            if entry.get("retired") and not entry["is_p2p"]:
                name = str(entry["process_group"])
                last[name] = max(last.get(name, 0), entry["collective_seq_id"])
        for name, seq in last.items():
            ends[name] = min(ends.get(name, seq), seq)
    return ends


def _only_past(ring: RingFacts, ends: Mapping[str, int]) -> RingFacts:
    """The ring with its completed collectives alone, up to these ends."""
    done = [e for e in _entries(ring) if e.get("retired") and not e["is_p2p"]]
    kept = [e for e in done if e["collective_seq_id"] <= ends[str(e["process_group"])]]
    return replace(ring, flight={**ring.flight, "entries": kept})


def _until_error(ring: RingFacts) -> RingFacts:
    """The ring without the calls that its rank made after one that raised: what cleans up then is not the program's
    order.
    """
    error, entries = ring.moment("exception"), _entries(ring)
    still = [entry for entry in entries if not entry.get("retired") and not entry.get("is_p2p")]
    if error is None or error.site is None or len(still) < 2 or error.site not in _sites(still[0]):
        return ring
    gone = [entry for entry in entries[entries.index(still[0]) + 1 :] if not entry.get("is_p2p")]
    status = dict(ring.flight.get("pg_status", {}))
    for name in {str(entry["pg_id"]) for entry in gone} & status.keys():
        last = min(entry["collective_seq_id"] for entry in gone if str(entry["pg_id"]) == name) - 1
        status[name] = {**status[name], "last_enqueued_collective": last}
    kept = [entry for entry in entries if entry not in gone]
    return replace(
        ring,
        flight={**ring.flight, "entries": kept, "pg_status": status},
        blocked_record=still[0].get("ring_number", ring.blocked_record),
    )


def _with_line(ring: RingFacts, stack: tuple[Frame, ...]) -> RingFacts:
    """The ring with a line for the call in which its rank waits.

    The copy of torch's recorder is taken without stacks first, and with them seconds later: without a line the judge
    cannot tell which of two calls is one too many. Until then the ring's own record of the call has its line, and the
    stack has that of a call below Python. Of a process that crashed in a call its last stack has the whole way to it.
    """
    waiting = [entry for entry in _entries(ring) if not entry.get("retired") and not entry.get("is_p2p")]
    told = {(row.get("filename"), row.get("line")) for row in _frame_rows(waiting[0])} if len(waiting) == 1 else set()
    if told & {(frame.file, frame.line) for frame in ring.crashed}:
        stack = ring.crashed
    elif len(waiting) != 1 or told:
        return ring
    elif ring.blocked_record is not None and ring.open_call is not None:
        call = ring.open_call
        stack = (Frame(function=call.function, file=call.file, line=call.line),)
    if not stack:
        return ring
    rows = [{"name": each.function, "filename": each.file, "line": each.line} for each in stack]
    filled = [{**entry, "frames": rows} if entry is waiting[0] else entry for entry in _entries(ring)]
    return replace(ring, flight={**ring.flight, "entries": filled})


def _frame_rows(entry: Mapping[str, Any]) -> Rows:
    return [row for row in entry.get("frames") or () if isinstance(row, dict)]


def _sites(entry: Mapping[str, Any]) -> list[str]:
    rows = _frame_rows(entry)
    return [Frame(function="", file=str(row.get("filename")), line=row.get("line")).site for row in rows]
