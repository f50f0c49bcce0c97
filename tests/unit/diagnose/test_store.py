"""Keys of a store that nobody sets: who was to set them, and when nobody is accused."""

from dataclasses import replace

import pytest

from emberward.diagnose import (
    Frame,
    GroupPart,
    ProcessStacks,
    RankFlight,
    Reading,
    StackSource,
    ThreadStack,
    in_store,
    store_calls,
)
from emberward.diagnose._store import store_findings
from emberward.events import HostState
from emberward.findings import Cause, Certainty, Kind

TEXT = """\
class Turns:
    def write(self, number, rows):
        if self.rank > 0:
            self.store.wait([f"turn/{number}/{self.rank}"])
        if not rows:
            return 0
        self.store.set(f"turn/{number}/{self.rank + 1}", "go")


class Fence:
    def enter(self, name):
        self.store.add(name, 1)

    def wait(self, name):
        while self.store.add(name, 0) < self.world:
            sleep(0.2)


def main():
    for number in range(50):
        rows = label(number)
        turns.write(number, rows)
    for epoch in range(8):
        if skips(epoch):
            continue
        fence.enter(epoch)
        fence.wait(epoch)


def publish(book):
    book.set(name_of(rank), "here")
    book.wait([name_of(each) for each in range(world)])
"""
FILE = "/job/keys.py"
THREADING = "/py/lib/python3.11/threading.py"
WAIT, SET, ADD, ASK, PUBLISH, READ = 4, 7, 12, 15, 30, 31
NAMES = {WAIT: "write", SET: "write", ADD: "enter", ASK: "wait", PUBLISH: "publish", READ: "publish"}


def line_of(frame: Frame) -> str | None:
    lines = TEXT.splitlines()
    return lines[frame.line - 1] if frame.line is not None and 0 < frame.line <= len(lines) else None


def row(line: int, *keys: str, is_waiting: bool = False) -> list:
    way = {WAIT: "wait", READ: "wait", ASK: "ask"}.get(line, "set")
    return [way, list(keys), FILE, line, NAMES[line], is_waiting]


def flight(rank: int, rows: list | None) -> RankFlight:
    return RankFlight(
        rank=rank, path="", version=(2, 10), backend=None, groups={}, pending=[], p2p_pending=[], num_entries=0,
        thread_ids=frozenset(), store=store_calls(rows),
    )  # fmt: skip


def reading(rank: int, kind: HostState) -> Reading:
    process = ProcessStacks(pid=100 + rank, rank=rank, threads=(), path="", source=StackSource.PY_SPY)
    return Reading(process=process, kind=kind, site="keys.py:99", function="main", source_line=None, path=())


def found(rows: dict[int, list | None], **kinds: HostState):
    """What is found where the ranks do what `kinds` says, by ``r2``; else they wait for their peers."""
    read = {rank: reading(rank, kinds.get(f"r{rank}", HostState.COLLECTIVE)) for rank in rows}
    return store_findings({rank: flight(rank, each) for rank, each in rows.items()}, read, tuple(rows), line_of)


def turns(*, last: int, breaks_at: int) -> dict[int, list]:
    """Four ranks take turns; in the last round rank `breaks_at` does not hand its turn on."""
    rows: dict[int, list] = {rank: [] for rank in range(4)}
    for number in range(last + 1):
        for rank in range(4):
            is_open = number == last and rank > breaks_at
            if rank > 0:
                rows[rank].append(row(WAIT, f"turn/{number}/{rank}", is_waiting=is_open))
            if not is_open and not (number == last and rank == breaks_at):
                rows[rank].append(row(SET, f"turn/{number}/{rank + 1}"))
    return rows


@pytest.mark.parametrize(("last", "certainty"), [(3, Certainty.OBSERVED), (0, Certainty.INFERRED)])
def test_who_set_the_key_before_or_whose_peers_set_theirs_was_to_set_it(last, certainty):
    (one,) = found(turns(last=last, breaks_at=2))
    assert (one.code, one.kind, one.cause, one.certainty) == ("H134", Kind.MISSING, Cause.STORE_WAIT, certainty)
    assert (one.culprit_ranks, one.waiting_ranks, one.site) == ((2,), (3,), "keys.py:5")


def test_a_key_that_nobody_sets_is_told_in_these_words():
    (one,) = found(turns(last=3, breaks_at=2))
    assert one.message == (
        "rank 2 did not set the key turn/3/3, for which rank 3 waits at keys.py:4; it was to set it at keys.py:7"
    )
    assert one.evidence == (
        "rank 3 waits for the key turn/3/3 at keys.py:4",
        "the key before, turn/2/3, rank 2 set at keys.py:7",
        "rank 2 last set turn/2/3 at keys.py:7 and waits in a collective in main() at keys.py:99",
    )
    assert one.next == "read keys.py:5: on rank 2 it kept the key from being set, or gave it another name"


def test_who_waits_for_a_key_itself_is_no_culprit():
    (one,) = found(turns(last=3, breaks_at=1))
    assert (one.culprit_ranks, one.waiting_ranks) == ((1,), (2,))


@pytest.mark.parametrize("state", [HostState.CPU_LOOP, HostState.SLEEP, HostState.FILE_READ])
@pytest.mark.parametrize("busy", ["r0", "r1", "r2"])
def test_while_any_rank_is_free_it_may_set_the_key(state, busy):
    assert found(turns(last=3, breaks_at=2), **{busy: state}) == []


@pytest.mark.parametrize(
    ("inner", "may_set"), [(("sleep", "/py/lib/python3.11/time.py"), True), (("wait", THREADING), False)]
)
def test_a_thread_beside_a_rank_that_waits_may_set_the_key(inner, may_set):
    rows = turns(last=3, breaks_at=2)
    read = {rank: reading(rank, HostState.COLLECTIVE) for rank in rows}
    frames = (Frame(function=inner[0], file=inner[1], line=320), Frame(function="serve", file="/job/other.py", line=3))
    threads = (ThreadStack(name="MainThread", frames=()), ThreadStack(name="T", frames=frames, is_active=False))
    read[0] = replace(read[0], process=replace(read[0].process, threads=threads))
    flights = {rank: flight(rank, each) for rank, each in rows.items()}
    assert bool(store_findings(flights, read, tuple(rows), line_of)) is not may_set


def test_what_a_rank_did_to_its_stores_must_be_known_of_all():
    assert found({**turns(last=3, breaks_at=2), 0: None}) == []


def fence(*, skips: int | None, at: int, is_behind: bool = False) -> dict[int, list]:
    """Four ranks meet at counters; rank `skips` passes counter `at` by, or has not come to it."""
    rows: dict[int, list] = {}
    for rank in range(4):
        own = [name for name in range(at + 1) if rank != skips or name != at]
        own += [at + 1] if rank == skips and not is_behind else []
        rows[rank] = [each for name in own for each in (row(ADD, f"f/{name}"), row(ASK, f"f/{name}"))]
        if rank != skips or not is_behind:
            rows[rank][-1][-1] = True
    return rows


@pytest.mark.parametrize("at", [0, 3])
def test_of_a_counter_that_needs_all_the_rank_is_named_that_passed_it_by(at):
    (one,) = found(fence(skips=3, at=at))
    assert (one.culprit_ranks, one.waiting_ranks, one.site) == ((3,), (0, 1, 2), "keys.py:24")


def test_a_rank_that_computes_before_it_comes_to_the_counter_is_no_culprit():
    assert found(fence(skips=3, at=3, is_behind=True), r3=HostState.CPU_LOOP) == []


def book(*, names: dict[int, str], waits: bool = True) -> dict[int, list]:
    keys = [f"book/{rank}" for rank in names]
    return {r: [row(PUBLISH, f"book/{name}"), row(READ, *keys, is_waiting=waits)] for r, name in names.items()}


def test_a_key_under_a_name_for_which_nobody_waits_is_its_rank_s():
    (one,) = found(book(names={0: "0", 1: "1", 2: "two"}))
    assert (one.culprit_ranks, one.waiting_ranks, one.site) == ((2,), (0, 1), "keys.py:30")
    assert "book/2" in one.message


def test_keys_that_all_are_there_accuse_nobody():
    assert found(book(names={0: "0", 1: "1", 2: "2"}, waits=False)) == []
    assert found(book(names={0: "0", 1: "1", 2: "2"})) == []  # the last one came this moment


def test_who_asks_a_store_again_and_again_waits_for_it():
    frames = (Frame(function="sleep", file="/py/time.py", line=1), Frame(function="Fence.wait", file=FILE, line=16))
    asleep = Reading(
        process=reading(0, HostState.SLEEP).process, kind=HostState.SLEEP, site="keys.py:16", function="wait",
        source_line=None, path=(), frames=frames,
    )  # fmt: skip
    asks = flight(0, [row(ASK, "f/1", is_waiting=True)])
    assert in_store(asleep, asks).kind is HostState.STORE_WAIT
    assert in_store(asleep, flight(0, [row(ASK, "f/1")])).kind is HostState.SLEEP
    assert in_store(reading(0, HostState.SLEEP), asks).kind is HostState.SLEEP, "it is elsewhere now"


@pytest.mark.parametrize("rows", [None, [["set"]], [["go", [], FILE, 1, "f", True]], [[1, 2, 3, 4, 5, 6]], {}])
def test_rows_of_another_form_are_no_calls(rows):
    assert store_calls(rows) is None


def asking(rank: int, *, calls: int, asks: list[tuple[int, str]], is_waiting: bool) -> RankFlight:
    """A rank that made so many calls, every fifth a barrier at line 40, and asked for keys after some of them."""
    entries = [
        {
            "record_id": n, "pg_id": 0, "process_group": ["0", "world"], "collective_seq_id": n,
            "profiling_name": "live:barrier" if n % 5 == 0 else "live:all_reduce",
            "input_sizes": [], "output_sizes": [], "input_dtypes": [], "output_dtypes": [],
            "retired": is_waiting or n < calls, "state": "completed", "is_p2p": False,
            "frames": [{"name": "main", "filename": FILE, "line": 40 if n % 5 == 0 else 39}],
        }
        for n in range(1, calls + 1)
    ]  # fmt: skip
    done = calls if is_waiting else calls - 1
    name = ("0", "world")
    part = GroupPart(name=name, ranks=(0, 1), seqs=[], signatures=[], entries=entries, enqueued=calls, completed=done)
    rows = [[*row(WAIT, key)[:5], after, is_waiting and key == asks[-1][1]] for after, key in asks]
    own = flight(rank, rows)
    own.groups[name] = part
    own.pending += [] if is_waiting else [part.as_call(entries[-1])]
    return own


@pytest.mark.parametrize(("after", "who"), [(19, (1,)), (20, (0,))], ids=["before its turn", "in its turn"])
def test_who_asks_for_a_key_before_its_turn_is_named_and_not_the_rank_that_waits_for_it(after, who):
    """Rank 0 sets a key after each barrier; rank 1 asks for the next one before it comes to that barrier."""
    keys = [(5, "k1"), (10, "k2"), (15, "k3")]
    late = asking(1, calls=after, asks=[*keys, (after, "k4")], is_waiting=True)
    setter = asking(0, calls=20 if after == 19 else 25, asks=keys, is_waiting=False)
    sets = [[*row(SET, key)[:5], number, False] for number, key in keys]
    setter.store = store_calls(sets)
    read = {rank: reading(rank, HostState.COLLECTIVE) for rank in (0, 1)}
    (one,) = store_findings({0: setter, 1: late}, read, (0, 1), line_of)
    assert (one.culprit_ranks, one.cause) == (who, Cause.STORE_WAIT)
    assert one.site == ("keys.py:4" if who == (1,) else "keys.py:5")
