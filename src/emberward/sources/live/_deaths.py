"""Who died first, and of what: from exit codes, and from what the rings kept of the last moments."""

from collections.abc import Mapping, Sequence

from emberward.diagnose import LEFT, Ending, classify, first_endings
from emberward.events import RankEnd
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.dumps import hang_finding, ranks_text, user_frame, verb, waits
from emberward.sources.live._look import Look, RankLook
from emberward.sources.live._process import ProcessState


def rank_end(seen: RankLook, exit_code: int | None) -> RankEnd:
    """What is known of a rank's end. Times are seconds before the look, and so negative."""
    ring = seen.ring
    error = None if ring is None else ring.moment("exception")
    left = None if ring is None else ring.moment("main_exited")
    moment = error if error is not None else left
    crashed_at = None if ring is None else ring.crash_site
    return RankEnd(
        rank=seen.rank,
        pid=seen.process.pid,
        host=seen.host,
        exit_code=seen.process.exit_code if exit_code is None else exit_code,
        words=None if error is None else error.text or "exception",
        site=crashed_at or (None if moment is None else moment.site),
        is_gone=not seen.process.is_alive,
        has_left=left is not None,
        has_data_end=ring is not None and ring.moment("data_end") is not None,
        is_recorded=ring is not None,
        at_s=0.0 if moment is None else -moment.age_s,
        alive_s=None if ring is None or ring.heartbeat_age_s is None else -ring.heartbeat_age_s,
    )


def ending_of(seen: RankLook, exit_code: int | None) -> Ending | None:
    """How a rank ended; None while it lives and its main thread has raised nothing."""
    end = rank_end(seen, exit_code)
    return classify(end) if end.is_gone or end.words is not None else None


def death_findings(look: Look, exits: Mapping[int, int], *, waiting: Sequence[int]) -> list[Finding]:
    """A finding for the ends that are causes; of secondary failures alone, for the earliest.

    `waiting`: ranks that are seen to wait in a call. An end without an error is a fault only while somebody waits, or
    failed because it was gone: at a job's own end its ranks leave one after the other.
    """
    endings = [found for r, seen in look.ranks.items() if (found := ending_of(seen, exits.get(r))) is not None]
    if not waiting and not any(ending.is_secondary for ending in endings):
        # A program may end by os._exit, which leaves no mark: alone, that it is gone tells of no fault.
        endings = [each for each in endings if each.certainty is Certainty.OBSERVED or each.end.rank in exits]
    firsts, _ = first_endings(endings, is_needed=bool(waiting))
    ended = {ending.end.rank for ending in endings}
    alive = [r for r, seen in look.ranks.items() if seen.process.is_alive and r not in ended]
    known = {ending.end.rank for ending in firsts}
    victims = [ending for ending in endings if ending.end.rank not in known and ending.has_failed]
    together: dict[tuple[Cause, str, str | None], list[Ending]] = {}
    for ending in firsts:
        together.setdefault((ending.cause, ending.text, ending.end.site), []).append(ending)
    return [_finding(group, alive, victims) for group in together.values()]


def _finding(group: Sequence[Ending], waiting: Sequence[int], victims: Sequence[Ending]) -> Finding:
    first = group[0]
    ranks = [ending.end.rank for ending in group if ending.end.rank is not None]
    behind = f" while {waits(waiting)}" if waiting else ""
    has_left = first.cause in LEFT
    text = f"{first.text} while its peers still need it" if has_left and not first.has_failed else first.text
    lingers = "" if first.end.is_gone or has_left else "; its process is still there"
    return hang_finding(
        "H105",
        f"{ranks_text(ranks)} {'ended' if has_left else 'died'}{behind}: {text}{lingers}",
        kind=Kind.MISSING if first.cause is Cause.UNEVEN_DATA else Kind.CRASH,
        cause=first.cause,
        certainty=first.certainty,
        severity=Severity.ERROR,
        ranks=ranks,
        waiting=waiting,
        hosts=[ending.end.host for ending in group if ending.end.host is not None],
        site=None if first.cause is Cause.KILLED else first.end.site,
        evidence=[f"rank {each.end.rank} then failed as a consequence: {each.text[:120]}" for each in victims[:6]],
        ruled_out=("the ranks that failed after it: they name a lost peer",) if victims else (),
        next_step="read that rank's log; the others cannot go on: end the job and start it from its last save",
    )


def stopped_findings(early: Look | None, look: Look) -> list[Finding]:
    """A finding for the ranks that somebody stopped (SIGSTOP, a debugger), as both looks saw."""
    held = (ProcessState.STOPPED, ProcessState.TRACED)

    def is_held(seen: Look, rank: int) -> bool:
        found = seen.ranks.get(rank)
        return found is not None and found.process.state in held

    ranks = [r for r, seen in look.ranks.items() if seen.process.state in held and (early is None or is_held(early, r))]
    if early is None:
        ranks = [r for r in ranks if look.ranks[r].process.state is ProcessState.STOPPED]
    if not ranks:
        return []
    waiting = [r for r, seen in look.ranks.items() if r not in ranks and seen.process.is_alive]
    first = look.ranks[ranks[0]]
    stacks = first.own_stacks
    frame = None if stacks is None or stacks.main is None else user_frame(stacks.main.frames)
    behind = f", while {waits(waiting)}" if waiting else ""
    return [
        hang_finding(
            "H125",
            f"{ranks_text(ranks)} {verb(ranks, 'is', 'are')} stopped by a signal or a debugger{behind}",
            kind=Kind.HANG,
            cause=Cause.STOPPED,
            certainty=Certainty.OBSERVED,
            ranks=ranks,
            waiting=waiting,
            hosts=[look.ranks[r].host for r in ranks],
            site=None if frame is None else frame.site,
            evidence=[_held_text(look.ranks[r]) for r in ranks[:8]],
            ruled_out=("a slow rank: a stopped process makes no progress at all",),
            next_step=f"kill -CONT {' '.join(str(look.ranks[r].process.pid) for r in ranks[:8])}, "
            "or end the job and start it from its last save",
        )
    ]


def _held_text(seen: RankLook) -> str:
    return f"rank {seen.rank}: process {seen.process.pid} on {seen.host} is {seen.process.state.value}"
