"""Who died first, and of what: from exit codes, and from what the rings kept of the last moments."""

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.dumps import hang_finding, is_echo, ranks_text, user_frame, verb, waits
from emberward.sources.live._look import Look, Moment, RankLook
from emberward.sources.live._process import ProcessState

_MEMORY = re.compile(r"^memoryerror|out of memory|cannot allocate memory|bad_alloc|defaultcpuallocator", re.IGNORECASE)
_DISK = re.compile(r"no space left on device|disk quota exceeded|\[errno 28\]|\[errno 122\]", re.IGNORECASE)
_ENDS = frozenset({Cause.MAIN_EXITED, Cause.UNEVEN_DATA})
_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWord:
    """How one rank ended. `age_s`: how long ago, as far as its ring tells; `alive_age_s`: when it was last alive."""

    rank: int
    cause: Cause
    text: str
    site: str | None
    host: str
    is_echo: bool
    certainty: Certainty
    age_s: float
    alive_age_s: float | None


def exception_cause(text: str | None) -> Cause:
    """The word for an exception by its text."""
    if text is not None and _MEMORY.search(text):
        return Cause.OUT_OF_MEMORY
    if text is not None and _DISK.search(text):
        return Cause.DISK_FULL
    return Cause.EXCEPTION


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _by_signal(number: int) -> tuple[Cause, str, bool]:
    name = _signal_name(number)
    if number in _FAULTS:
        return Cause.SEGFAULT, f"it crashed with {name}", False
    if number == signal.SIGABRT:
        return Cause.EXCEPTION, f"it aborted itself ({name})", False
    # What is ended by SIGTERM was told to end: mostly by a launcher that cleans up after another one's death.
    return Cause.KILLED, f"it was killed by {name}", number == signal.SIGTERM


def last_word(look: RankLook, exit_code: int | None) -> LastWord | None:
    """How a rank ended; None while it lives and its main thread has raised nothing."""
    ring = look.ring
    error = None if ring is None else ring.moment("exception")
    left = None if ring is None else ring.moment("main_exited")
    code = look.process.exit_code if exit_code is None else exit_code
    is_gone = not look.process.is_alive
    if not is_gone and error is None:
        return None

    def made(cause: Cause, text: str, *, echo: bool = False, certainty: Certainty = Certainty.OBSERVED) -> LastWord:
        moment: Moment | None = error if error is not None else left
        raised_at = None if moment is None else moment.site
        crashed_at = None if ring is None else ring.crash_site
        return LastWord(
            rank=look.rank,
            cause=cause,
            text=text,
            site=None if cause is Cause.KILLED else crashed_at or raised_at,
            host=look.host,
            is_echo=echo,
            certainty=certainty,
            age_s=0.0 if moment is None else moment.age_s,
            alive_age_s=None if ring is None else ring.heartbeat_age_s,
        )

    if code is not None and code < 0 and (error is None or -code in _FAULTS):
        cause, text, echo = _by_signal(-code)
        return made(cause, text, echo=echo)
    if error is not None:
        lingers = "" if is_gone else "; its process is still there"
        return made(exception_cause(error.text), f"{error.text or 'an exception'}{lingers}", echo=is_echo(error.text))
    if code is not None and code > 0:
        return made(Cause.EXCEPTION, f"it ended with exit code {code}", certainty=Certainty.INFERRED)
    if code == 0 or left is not None:
        has_data_end = ring is not None and ring.moment("data_end") is not None
        cause = Cause.UNEVEN_DATA if has_data_end else Cause.MAIN_EXITED
        return made(cause, "its program ended while its peers still need it")
    return made(
        Cause.KILLED,
        "its process is gone and left no exception: it was killed, or it crashed",
        certainty=Certainty.INFERRED,
    )


def death_findings(look: Look, exits: Mapping[int, int], *, waiting: Sequence[int]) -> list[Finding]:
    """A finding for the deaths that are no echo of another; of echoes alone, for the earliest.

    `waiting`: ranks that are seen to wait in a call. An end without an error is a fault only while somebody waits, or
    failed because it was gone: at a job's own end its ranks leave one after the other.
    """
    words = [w for r, seen in look.ranks.items() if (w := last_word(seen, exits.get(r))) is not None]
    has_echo = any(word.is_echo for word in words)
    if not waiting and not has_echo:
        words = [word for word in words if word.cause not in _ENDS]
        # A program may end by os._exit, which leaves no mark: alone, that it is gone tells of no fault.
        words = [word for word in words if word.certainty is Certainty.OBSERVED or word.rank in exits]
    if not words:
        return []
    words = [replace(word, is_echo=True) if _outlived(word, words) else word for word in words]
    firsts = [word for word in words if not word.is_echo] or [max(words, key=lambda word: word.age_s)]
    firsts = [word for word in firsts if word.cause not in _ENDS] or firsts
    dead = {word.rank for word in words}
    alive = [r for r, seen in look.ranks.items() if seen.process.is_alive and r not in dead]
    echoes = [word for word in words if word.is_echo and word not in firsts]
    together: dict[tuple[Cause, str, str | None], list[LastWord]] = {}
    for word in firsts:
        together.setdefault((word.cause, word.text, word.site), []).append(word)
    return [_finding(group, alive, echoes) for group in together.values()]


def _outlived(word: LastWord, words: Sequence[LastWord]) -> bool:
    """Whether a rank that left no word was alive after another one had failed: its launcher ended it then."""
    if word.certainty is Certainty.OBSERVED or word.alive_age_s is None:
        return False
    failures = [
        other
        for other in words
        if other.certainty is Certainty.OBSERVED and not other.is_echo and other.cause not in _ENDS
    ]
    return any(other.age_s > word.alive_age_s for other in failures)


def _finding(group: Sequence[LastWord], waiting: Sequence[int], echoes: Sequence[LastWord]) -> Finding:
    first = group[0]
    ranks = [word.rank for word in group]
    behind = f" while {waits(waiting)}" if waiting else ""
    is_end = first.cause in _ENDS
    return hang_finding(
        "H105",
        f"{ranks_text(ranks)} {'ended' if is_end else 'died'}{behind}: {first.text}",
        kind=Kind.MISSING if first.cause is Cause.UNEVEN_DATA else Kind.CRASH,
        cause=first.cause,
        certainty=first.certainty,
        severity=Severity.ERROR,
        ranks=ranks,
        waiting=waiting,
        hosts=[word.host for word in group],
        site=first.site,
        evidence=[f"rank {word.rank} then failed as a consequence: {word.text[:120]}" for word in echoes[:6]],
        ruled_out=("the ranks that failed after it: they name a lost peer",) if echoes else (),
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
