"""How severe a finding is, by what moved between two snapshots. See [Note: two tiers] in `_judge`.

[Note: progress]
A rank goes on as long as anything of it does: bytes that it or a child reads or writes, a thread or child that uses
the processor, a main thread at another line, a system call that returns. The last is all that shows of an upload: what
goes through a socket is in no count of bytes. Threads of the recorder and of torch do not count, nor a wait that
library code makes in slices (a queue's, a data loader's), which returns and begins again.
"""

from dataclasses import replace

from emberward.diagnose import ThreadStack, arrival_as, met_apart, read_process, stuck_worker, waits
from emberward.diagnose.live._motion import FOR_EVER, sits_in, waits_for_ever
from emberward.diagnose.live._pair import SnapshotPair
from emberward.diagnose.live._process import ProcessFacts, ProcessState, WaitingIn
from emberward.diagnose.live._reading import kept_by, other_threads
from emberward.diagnose.live._snapshot import RankSnapshot
from emberward.events import WAITING, HostState
from emberward.findings import Cause, Certainty, Finding, Kind, Severity

_DIFFER = frozenset({"M101", "M102", "H152"})
_CERTAIN = frozenset({Kind.MISMATCH, Kind.MISSING, Kind.DEADLOCK, Kind.CRASH})
_SLICES = frozenset({HostState.LOCK, HostState.DATALOADER, HostState.STORE_WAIT, *WAITING})
"""Waits that library code makes in slices of time: that a slice ended is no progress."""
_NATIVE_WAITS = (*FOR_EVER, WaitingIn.FUTEX_TIMED, WaitingIn.FUTEX_SHARED, WaitingIn.POLL)
"""Where a thread is that waits for the interpreter, for work of a pool, or for a message of a peer."""
_FILE_AGES = ("the files do not tell how long", "the job had stood still for")
"""What the judge of files says about their age; a snapshot knows better."""


def with_severity(finding: Finding, pair: SnapshotPair, *, is_asked: bool) -> Finding | None:
    """The finding with the severity that the snapshots bear out; None when those concerned went on meanwhile."""
    finding = replace(finding, evidence=tuple(line for line in finding.evidence if not line.startswith(_FILE_AGES)))
    if finding.kind is Kind.CRASH or finding.cause is Cause.STOPPED:
        return finding
    concerned = finding.culprit_ranks or tuple(m.rank for m in finding.cycle or ()) or finding.waiting_ranks
    moved = [r for r in concerned if pair.has_moved(r)]
    is_past = finding.kind is Kind.MISMATCH and finding.cause in (Cause.DTYPE, Cause.DIFFERENT_ROOT, Cause.DIFFERENT_OP)
    if met_apart(finding):
        return finding
    if moved and not is_past:
        return None
    may_come = Severity.WARNING if is_asked else Severity.NOTICE
    if is_past and finding.code in ("M101", "M102"):
        return replace(finding, severity=Severity.ERROR)
    has_two = pair.early is not None
    if finding.certainty is Certainty.UNKNOWN:
        return _lasting(finding, pair, may_come)
    is_free = finding.kind is Kind.MISSING and any(_may_come(rank, pair) for rank in finding.culprit_ranks)
    if finding.kind in _CERTAIN and not is_free:
        # Calls that differ and have killed somebody will not come right: one snapshot is enough.
        touched = {*finding.culprit_ranks, *finding.waiting_ranks} if finding.code in _DIFFER else set()
        is_over = any(not pair.snapshot.ranks[r].process.is_alive for r in touched if r in pair.snapshot.ranks)
        is_seen_twice = (has_two or is_over) and not _any_busy(finding, pair)
        return replace(finding, severity=Severity.ERROR if is_seen_twice else may_come)
    finding = _with_motion(finding, pair)
    why = _proof(finding, pair) if has_two else None
    if why is not None:
        evidence = (*finding.evidence, why)
        proved = replace(finding, certainty=Certainty.OBSERVED, evidence=evidence)
        return arrival_as(proved, Severity.ERROR)
    return _lasting(finding, pair, may_come)


def _any_busy(finding: Finding, pair: SnapshotPair) -> bool:
    """Whether a rank that is said to wait computes, or had not come to where it waits at the first snapshot.

    A rank with a ring counts its calls; of one without, the stack alone tells whether it made any.
    """
    ranks = (*finding.culprit_ranks, *(m.rank for m in finding.cycle or ()))
    if any(pair.motions[r].is_main_busy for r in ranks if r in pair.motions):
        return True
    unrecorded = [
        r for r in (*ranks, *finding.waiting_ranks) if r in pair.snapshot.ranks and not pair.snapshot.ranks[r].ring
    ]
    return any(pair.motions[r].has_stack_moved for r in unrecorded)


def _may_come(rank: int, pair: SnapshotPair) -> bool:
    """Whether a rank that lacks a call is in code of its own, from which it may come: in no call, not at its end."""
    reading, seen = pair.readings.get(rank), pair.snapshot.ranks.get(rank)
    if reading is None or seen is None or seen.ring is None or not seen.process.is_alive:
        return False
    has_left = reading.kind is HostState.EXIT or seen.ring.moment("main_exited") is not None
    waits_too = reading.kind is HostState.STORE_WAIT or pair.is_creating(seen)
    flight = pair.flights.get(rank)
    is_free = flight is not None and flight.is_free and reading.kind not in WAITING and rank not in pair.waits_for_all
    return is_free and not has_left and not waits_too


def progress_of(rank: int, pair: SnapshotPair) -> str | None:
    """What of a rank went on between the snapshots, in a few words; None when nothing was seen to. See [Note:
    progress]."""
    motion, seen, reading = pair.motions.get(rank), pair.snapshot.ranks.get(rank), pair.readings.get(rank)
    if motion is None or seen is None or not motion.is_known:
        return None
    if motion.has_called or motion.has_stack_moved or motion.is_lively:
        return motion.text if motion.is_lively else "its main thread went on to another line"
    kinds = {thread.os_thread_id: kind for thread, kind in other_threads(seen.own_stacks, pair.line_of)}
    if reading is not None:
        kinds[seen.process.pid] = reading.kind
    is_back = any(tid in motion.has_returned and kind not in _SLICES for tid, kind in kinds.items())
    return "its system calls return" if is_back else None


def all_progress(pair: SnapshotPair) -> dict[int, str]:
    """What went on between the snapshots, of each rank of which anything did."""
    found = {rank: progress_of(rank, pair) for rank in pair.snapshot.ranks}
    return {rank: text for rank, text in found.items() if text is not None}


def _lasting(finding: Finding, pair: SnapshotPair, may_come: Severity) -> Finding:
    """A notice; a warning once the rank has stood still for longer than its limit, and is not seen at work.

    One that sleeps to a time that lies behind its limit is a warning at once. Time alone makes no error: a rank that
    computes, reads, writes or sleeps may come by itself. See [Note: two tiers].
    """
    ranks = finding.culprit_ranks or finding.waiting_ranks
    rings = [pair.snapshot.ranks[r].ring for r in ranks if r in pair.snapshot.ranks]
    known = [(ring.moved_age_s, ring) for ring in rings if ring is not None and ring.moved_age_s is not None]
    left_s = _sleep_left_s(finding, pair)
    lines = [] if left_s is None else [f"the sleep that it is in ends in {left_s:.0f} s: the kernel has the time"]
    if not known:
        if ranks:
            lines.append("how long it has stood still is not known: no recorder ran in the job")
        return arrival_as(replace(finding, evidence=(*finding.evidence, *lines)), may_come)
    age, ring = max(known, key=lambda item: item[0])
    how = "by this job's own history" if ring.has_history else "a phase without a history"
    lines.append(f"it has stood still for {age:.0f} s; up to {ring.limit_s:.0f} s it could be slow and alive ({how})")
    is_at_work = any(pair.motions[rank].is_lively for rank in ranks if rank in pair.motions)
    is_past = age > ring.limit_s and not is_at_work
    will_pass = left_s is not None and age + left_s > ring.limit_s
    severity = Severity.WARNING if is_past or will_pass else may_come
    return arrival_as(replace(finding, evidence=(*finding.evidence, *lines)), severity)


def _sleep_left_s(finding: Finding, pair: SnapshotPair) -> float | None:
    """How long the culprits' main threads still sleep, the one that wakes last; None where one is in no such sleep."""
    seen = [pair.snapshot.ranks[rank].process.main for rank in finding.culprit_ranks if rank in pair.snapshot.ranks]
    left = [main.wakes_in_s for main in seen if main is not None and main.wakes_in_s is not None]
    return max(left) if left and len(left) == len(finding.culprit_ranks) else None


def _with_motion(finding: Finding, pair: SnapshotPair) -> Finding:
    lines = [
        f"rank {rank}: between two snapshots {motion.apart_s:.0f} s apart {progress_of(rank, pair) or motion.text}"
        for rank in finding.culprit_ranks[:4]
        if (motion := pair.motions.get(rank)) is not None and motion.is_known
    ]
    return replace(finding, evidence=(*finding.evidence, *lines))


def _proof(finding: Finding, pair: SnapshotPair) -> str | None:
    """Why the culprit cannot go on by itself; None when it may."""
    proofs = [_rank_proof(rank, pair) for rank in finding.culprit_ranks]
    return proofs[0] if proofs and None not in proofs else None


def _rank_proof(rank: int, pair: SnapshotPair) -> str | None:
    seen, reading = pair.snapshot.ranks.get(rank), pair.readings.get(rank)
    motion = pair.motions.get(rank)
    if seen is None or motion is None or not motion.is_known:
        return None
    if seen.ring is not None and seen.ring.moment("main_exited") is not None:
        return f"the main thread of rank {rank} has ended: it will make no call any more"
    if reading is None:
        return None
    early = None if pair.early is None else pair.early.ranks.get(rank)
    match reading.kind:
        case HostState.EXIT:
            return f"the main thread of rank {rank} has left its program: it will make no call any more"
        case HostState.LOCK | HostState.SUBPROCESS:
            return _lock_proof(reading.kind, rank, seen, early, pair)
        case HostState.INTERPRETER:
            return _interpreter_proof(rank, seen, early, pair)
        case HostState.DATALOADER:
            return _worker_proof(rank, seen, pair)
        case HostState.STORE_WAIT:
            others = [r for r in pair.snapshot.ranks if r != rank]
            is_last = others and set(others) <= set(pair.waiting())
            is_over = is_last and progress_of(rank, pair) is None
            return f"nobody is left to set the key: {waits(others)} too" if is_over else None
        case _:
            return None


def _lock_proof(
    kind: HostState, rank: int, seen: RankSnapshot, early: RankSnapshot | None, pair: SnapshotPair
) -> str | None:
    if progress_of(rank, pair) is not None:
        return None
    call = sits_in(seen.process)
    if (call is not None or kind is HostState.SUBPROCESS) and not waits_for_ever((early, seen)):
        return None
    if call is WaitingIn.JOIN and not _all_wait(rank, seen, pair):
        return None
    if not all(_is_idle(thread, kind, seen) for thread, kind in other_threads(seen.own_stacks, pair.line_of)):
        return None
    if any(_may_end(child) for child in seen.children):
        return None
    return f"rank {rank} waits without a time-out, and no thread or child of it moves: nobody is left to wake it"


def _interpreter_proof(rank: int, seen: RankSnapshot, early: RankSnapshot | None, pair: SnapshotPair) -> str | None:
    """A main thread that keeps the interpreter and waits for the end of a thread, when all that are left wait too.

    The thread then waits for the interpreter. One that computes, reads or sleeps below Python may end by itself.
    """
    if progress_of(rank, pair) is not None or early is None or not _all_wait(rank, seen, pair):
        return None
    if any(sits_in(each.process) is not WaitingIn.JOIN for each in (early, seen)):
        return None
    return f"rank {rank} waits for a thread that needs the interpreter, and keeps it: neither can go on"


def _all_wait(rank: int, seen: RankSnapshot, pair: SnapshotPair) -> bool:
    """Whether no thread of a rank, native ones included, computes, reads or sleeps."""
    waits_all = all(thread.waiting_in in _NATIVE_WAITS for thread in seen.process.threads)
    return waits_all and not pair.motions[rank].is_process_busy


def end_proof(rank: int, pair: SnapshotPair) -> str | None:
    """Why a rank will not end by itself, which nobody waits for in a call; None when it may."""
    seen = pair.snapshot.ranks[rank]
    if seen.ring is None or seen.ring.moment("main_exited") is None:
        return _rank_proof(rank, pair)
    early, stacks = None if pair.early is None else pair.early.ranks.get(rank), seen.own_stacks
    if early is None or stacks is None:
        return None
    others = other_threads(stacks, pair.line_of)
    is_idle = all(_is_idle(thread, kind, seen) for thread, kind in others)
    kept = kept_by(seen.ring)
    waits_on = [t.waiting_in in FOR_EVER for each in (early, seen) for t in each.process.threads if t.tid in kept]
    if not (is_idle and waits_on and all(waits_on)) or seen.children or progress_of(rank, pair) is not None:
        return None
    return f"the main thread of rank {rank} has left, and the threads that keep the process wait without a time-out"


def _is_idle(thread: ThreadStack, kind: HostState, seen: RankSnapshot) -> bool:
    """Whether a thread beside the main one waits too: one that sleeps, reads or calls out may free the main one."""
    if kind is HostState.LOCK:
        return True
    facts = next((t for t in seen.process.threads if t.tid == thread.os_thread_id), None)
    return kind is HostState.UNKNOWN and facts is not None and facts.waiting_in is WaitingIn.FUTEX


def _may_end(child: ProcessFacts) -> bool:
    """Whether a child is in a call that returns by itself; a pipe is silent as long as nobody writes to it."""
    if not child.is_alive or child.main is None or "pipe" in (child.main.channel or ""):
        return False
    return sits_in(child) in (WaitingIn.NANOSLEEP, WaitingIn.READ, WaitingIn.WRITE, WaitingIn.OPEN)


def _worker_proof(rank: int, seen: RankSnapshot, pair: SnapshotPair) -> str | None:
    """A data worker that is stopped or gone, or that waits for ever itself."""
    for child in seen.children:
        if child.state is ProcessState.STOPPED:
            return f"process {child.pid}, a child of rank {rank}, is stopped"
    if progress_of(rank, pair) is not None:
        return None
    workers = [read_process(s, pair.line_of) for s in seen.stacks if s.pid != seen.process.pid]
    worker = stuck_worker(tuple(workers))
    if worker is None:
        return None
    facts = next((child for child in seen.children if child.pid == worker.process.pid), None)
    if worker.kind is HostState.WORKER and facts is not None and sits_in(facts) is WaitingIn.FUTEX:
        return f"the data worker (process {facts.pid}) of rank {rank} waits without a time-out at {worker.site}"
    return None
