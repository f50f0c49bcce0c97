"""What moved between two snapshots at one rank. See [Note: motion]."""

from collections.abc import Sequence
from dataclasses import dataclass

from emberward.diagnose import ProcessStacks, may_act
from emberward.diagnose.live._process import ProcessFacts, ProcessState, WaitingIn
from emberward.diagnose.live._snapshot import RankSnapshot, Snapshot

TICKS_PER_S = 100.0
"""Clock ticks of proc(5); 100 on every Linux that Python runs on (USER_HZ)."""
MIN_CPU_SHARE = 0.05
"""A thread that burns less of the time between two snapshots than this idles: heartbeats and pollers do."""
MIN_CPU_TICKS = 4
MIN_BYTES = 64 << 10
"""Fewer bytes between two snapshots are no work: a recorder's and a rendezvous store's small talk."""
FOR_EVER = (WaitingIn.FUTEX, WaitingIn.EVENT, WaitingIn.JOIN)
"""Waits without a time-out that only a thread of the process can end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """What one rank did between two snapshots `apart_s` apart. `is_known` False when it was seen once only."""

    apart_s: float
    is_known: bool
    has_called: bool = False
    has_stack_moved: bool = False
    main_cpu_share: float = 0.0
    is_main_busy: bool = False
    is_other_busy: bool = False
    is_child_busy: bool = False
    is_process_busy: bool = False
    """Whether its threads, the recorder's and libraries' own included, together compute."""
    has_io: bool = False
    has_returned: frozenset[int] = frozenset()
    """Its threads whose system calls returned: that slept, and ran again, between the snapshots."""

    @property
    def is_lively(self) -> bool:
        """Whether anything of the rank or its children computes, reads or writes."""
        return self.is_main_busy or self.is_other_busy or self.is_child_busy or self.has_io

    @property
    def text(self) -> str:
        """What moved, in a few words."""
        words = [
            f"its main thread used {100 * self.main_cpu_share:.0f}% of a core" if self.is_main_busy else "",
            "another of its threads computes" if self.is_other_busy else "",
            "a child of it computes" if self.is_child_busy else "",
            "it reads or writes" if self.has_io else "",
        ]
        said = [word for word in words if word]
        return ", ".join(said) if said else "neither it nor a child of it computes, reads or writes"


def _ticks(process: ProcessFacts) -> dict[int, int]:
    return {thread.tid: thread.cpu_ticks for thread in process.threads}


def _burnt(ticks: float, apart_s: float) -> bool:
    return ticks >= MIN_CPU_TICKS and ticks / TICKS_PER_S >= MIN_CPU_SHARE * apart_s


def _bytes(process: ProcessFacts) -> int:
    return (process.read_bytes or 0) + (process.written_bytes or 0)


def _read(process: ProcessFacts, threads: frozenset[int]) -> int:
    return sum(thread.read_bytes or 0 for thread in process.threads if thread.tid in threads)


def same_frames(left: ProcessStacks | None, right: ProcessStacks | None) -> bool:
    """Whether the main thread stands at the same place; True when either was not seen."""
    if left is None or right is None or left.main is None or right.main is None:
        return True
    return left.main.frames == right.main.frames


def _user_threads(snapshot: RankSnapshot) -> frozenset[int]:
    """Threads that may do something for the program. The recorder's, autograd's and gloo's own burn a little always."""
    stacks = snapshot.own_stacks
    if stacks is None:
        return frozenset(_ticks(snapshot.process))
    found = (t.os_thread_id for t in stacks.threads if may_act(t.frames))
    return frozenset(tid for tid in found if tid is not None)


def motion_of(early: RankSnapshot | None, late: RankSnapshot, *, apart_s: float) -> Motion:
    """What moved between two snapshots at one rank."""
    if early is None or early.process.pid != late.process.pid or apart_s <= 0:
        return Motion(apart_s=0.0, is_known=False)
    before, after = _ticks(early.process), _ticks(late.process)
    burnt = {tid: ticks - before.get(tid, 0) for tid, ticks in after.items()}
    main = burnt.pop(late.process.pid, 0)
    own = _user_threads(late)
    past = {child.pid: child for child in early.children}
    children = [(past[child.pid], child) for child in late.children if child.pid in past]
    # The recorder's own thread loads what it needs when the job first stands still: only the program's reads count.
    moved = _read(late.process, own) - _read(early.process, own)
    moved += (late.process.written_bytes or 0) - (early.process.written_bytes or 0)
    moved += sum(_bytes(new) - _bytes(old) for old, new in children)
    calls = early.ring is not None and late.ring is not None
    return Motion(
        apart_s=apart_s,
        is_known=True,
        has_called=calls and (early.ring.num_calls, early.ring.num_done) != (late.ring.num_calls, late.ring.num_done),  # type: ignore[union-attr]
        has_stack_moved=not same_frames(early.own_stacks, late.own_stacks),
        main_cpu_share=main / TICKS_PER_S / apart_s,
        is_main_busy=_burnt(main, apart_s),
        is_other_busy=any(_burnt(ticks, apart_s) for tid, ticks in burnt.items() if tid in own),
        is_child_busy=any(_burnt(new.cpu_ticks - old.cpu_ticks, apart_s) for old, new in children)
        or {c.pid for c in late.children} != set(past),
        is_process_busy=_burnt(main + sum(burnt.values()), apart_s),
        has_io=moved >= MIN_BYTES,
        has_returned=frozenset(
            t.tid
            for t in late.process.threads
            if t.switches is not None and t.switches > early.switches_after.get(t.tid, t.switches)
        ),
    )


def motions(early: Snapshot | None, late: Snapshot) -> dict[int, Motion]:
    """What moved of every rank."""
    apart = 0.0 if early is None else late.taken_s - early.taken_s
    return {
        rank: motion_of(None if early is None else early.ranks.get(rank), snapshot, apart_s=apart)
        for rank, snapshot in late.ranks.items()
    }


def sits_in(process: ProcessFacts) -> WaitingIn | None:
    """The system call in which the main thread sits; None while it runs, or when that may not be read."""
    main = process.main
    return None if main is None or main.state is ProcessState.RUNNING else main.waiting_in


def waits_for_ever(snapshots: Sequence[RankSnapshot | None]) -> bool:
    """Whether the main thread sat in a wait without a time-out in every snapshot that was had."""
    return all(snapshot is not None and sits_in(snapshot.process) in FOR_EVER for snapshot in snapshots)
