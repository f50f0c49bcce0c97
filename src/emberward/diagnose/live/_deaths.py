"""How ranks ended, or that somebody stopped them: exit codes, the kernel's word, and the rings' last moments."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from emberward.diagnose import (
    Frame,
    cause_of_words,
    classify,
    hang_finding,
    judge_ends,
    ranks_text,
    user_frame,
    verb,
    waits,
)
from emberward.diagnose.live._process import ProcessState
from emberward.diagnose.live._snapshot import RankSnapshot, RingFacts, Snapshot
from emberward.events import RankEnd
from emberward.findings import Cause, Certainty, Finding


def rank_end(seen: RankSnapshot, exit_code: int | None) -> RankEnd:
    """What is known of a rank's end. Times are seconds before the snapshot, and so negative."""
    ring = seen.ring
    end = RankEnd(
        rank=seen.rank,
        pid=seen.process.pid,
        host=seen.host,
        exit_code=seen.process.exit_code if exit_code is None else exit_code,
        is_gone=not seen.process.is_alive,
        is_recorded=ring is not None,
        at_s=0.0,
    )
    if ring is None:
        return end
    error, left = ring.moment("exception"), ring.moment("main_exited")
    moment, call, crashed = error or left, ring.open_call, user_frame(ring.crashed)
    last = ring.before if call is None else Frame(function="", file=call.file, line=call.line)
    sites = (None if each is None else each.site for each in (crashed, moment, last))
    words, site = None if error is None else error.text or "exception", next(filter(None, sites), None)
    if words is not None and cause_of_words(words) is Cause.DATALOADER_WORKER:
        # Torch raises it by a signal, at whatever line the main thread is.
        site = ring.data_at or site
    return replace(
        end,
        words=words,
        site=site,
        has_left=left is not None,
        has_data_end=ring.moment("data_end") is not None,
        needs=_needs(ring),
        at_s=0.0 if moment is None else -moment.age_s,
        alive_s=None if ring.heartbeat_age_s is None else -ring.heartbeat_age_s,
    )


def _needs(ring: RingFacts) -> tuple[int, ...]:
    """The ranks of the group of the open call; of a backward, those of the largest one."""
    groups = {name: tuple(each["ranks"]) for name, each in ring.flight.get("pg_config", {}).items()}
    if ring.open_call is not None:
        return groups.get(ring.open_call.group, ())
    return max(groups.values(), key=len, default=()) if ring.backward is not None else ()


def death_findings(
    early: Snapshot | None,
    snapshot: Snapshot,
    exits: Mapping[int, int],
    *,
    waiting: Sequence[int],
    lacked: Collection[int] = (),
) -> list[Finding]:
    """What `judge_ends` says of those who are gone or have raised.

    How a process ended its parent tells a little later than it is gone. So what is guessed of ends counts once both
    snapshots saw them: that a process was killed, and which failure was the first where each of them followed from
    another. `waiting`: ranks that are seen to wait in a call. An end without an error is a fault only while somebody
    waits, or failed because it was gone: at a job's own end its ranks leave one after the other. `lacked`: ranks that
    are known not to have made a call in which another waits; who is none of them just came to its end.
    """
    ends = _ends_of(snapshot, exits)
    before = {end.rank for end in _ends_of(early, exits)} if early is not None else frozenset[int]()
    is_settled = before.issuperset(end.rank for end in ends)
    ends = [end for end in ends if end.rank in before or not _is_guess(end)]
    if lacked:
        ends = [end for end in ends if end.rank in lacked or end.words is not None or not end.has_left]
    ended = {end.rank for end in ends}
    endings = [ending for end in ends if (ending := classify(end)) is not None]
    if not waiting and not any(ending.is_secondary for ending in endings):
        # A program may end by os._exit, which leaves no mark: alone, that it is gone tells of no fault.
        ends = [each.end for each in endings if each.certainty is Certainty.OBSERVED or each.end.rank in exits]
    alive = [rank for rank, seen in snapshot.ranks.items() if seen.process.is_alive and rank not in ended]
    found = judge_ends(ends, alive=alive, is_needed=bool(waiting))
    return [each for each in found if is_settled or each.certainty is Certainty.OBSERVED]


def _ends_of(snapshot: Snapshot, exits: Mapping[int, int]) -> list[RankEnd]:
    """The ends of ranks whose process is gone or whose main thread has raised."""
    ends = [rank_end(seen, exits.get(rank)) for rank, seen in snapshot.ranks.items()]
    return [end for end in ends if end.is_gone or end.words is not None]


def _is_guess(end: RankEnd) -> bool:
    ending = classify(end)
    return ending is not None and ending.cause is Cause.KILLED and ending.certainty is not Certainty.OBSERVED


def stopped_findings(early: Snapshot | None, snapshot: Snapshot) -> list[Finding]:
    """A finding for the ranks that somebody stopped (SIGSTOP, a debugger), as both snapshots saw."""
    # Between two steps of a tracer, such as py-spy, a process is held for a moment: that is no stop.
    held = {ProcessState.STOPPED} if early is None else {ProcessState.STOPPED, ProcessState.TRACED}
    before = snapshot if early is None else early
    ranks = [
        r
        for r, seen in snapshot.ranks.items()
        if seen.process.state in held and r in before.ranks and before.ranks[r].process.state in held
    ]
    if not ranks:
        return []
    waiting = [r for r, seen in snapshot.ranks.items() if r not in ranks and seen.process.is_alive]
    first = snapshot.ranks[ranks[0]]
    stacks = first.own_stacks
    frame = None if stacks is None or stacks.main is None else user_frame(stacks.main.frames)
    behind = f", while {waits(waiting)}" if waiting else ""
    return [
        hang_finding(
            "H125",
            f"{ranks_text(ranks)} {verb(ranks, 'is', 'are')} stopped by a signal or a debugger{behind}",
            cause=Cause.STOPPED,
            certainty=Certainty.OBSERVED,
            ranks=ranks,
            waiting=waiting,
            hosts=[snapshot.ranks[r].host for r in ranks],
            site=None if frame is None else frame.site,
            evidence=[_held_text(snapshot.ranks[r]) for r in ranks[:8]],
            ruled_out=("a slow rank: a stopped process makes no progress at all",),
            next_step=f"kill -CONT {' '.join(str(snapshot.ranks[r].process.pid) for r in ranks[:8])}, "
            "or end the job and start it again",
        )
    ]


def _held_text(seen: RankSnapshot) -> str:
    return f"rank {seen.rank}: process {seen.process.pid} on {seen.host} is {seen.process.state.value}"
