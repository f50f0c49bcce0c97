"""What an end was, and which of several ends of one attempt is the cause.

[Note: secondary failures]
When one rank fails, its peers fail within a tenth of a second: their connections break (torch 2.13, gloo: ``Connection
closed by peer``), and the launcher ends what is left with SIGTERM. So the first message is rarely the cause's. An end
is *secondary* when its exception is a broken or timed-out connection of torch.distributed, when it says of itself that
another rank failed, or when it came by SIGTERM. A connection of the user's own that broke, such as one to a file
server, raises another type (``ConnectionResetError``) and is a cause.

An exception that left the program is believed before the signal that ended the process later; the signal of a crash
(SIGSEGV and its like) before an exception. A process that ended with another code than 0 and without an exception
that a recorder would have kept has left by itself.
"""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from emberward.diagnose._say import hang_finding, shortened, waits
from emberward.events import RankEnd
from emberward.findings import Cause, Certainty, Finding, Kind, ranks_text

LEFT = frozenset({Cause.MAIN_EXITED, Cause.UNEVEN_DATA})
"""Ends without an error: a fault only where somebody still needs the rank."""
SEEN_LATE_S = 2.0
"""How much later than it happened an end may have been seen."""
FATAL = "Fatal Python error: "
"""What ``faulthandler`` writes first."""
_ALWAYS_SECONDARY = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError", "SignalException"})
_MAY_BE_SECONDARY = frozenset({"RuntimeError", "DistError"})
_OURS = "EmberwardError"
_SAYS_ANOTHER = "another rank could not"
_LOST_PEER = re.compile(
    r"connection (?:was )?(?:likely )?(?:reset|closed|refused)|closed by peer|broken pipe|connectfullmesh"
    r"|timed? ?out waiting|remote (?:process|side) (?:exited|closed)|socket (?:closed|timeout)"
    r"|peer.*(?:closed|reset|lost|left)|no bytes read|wait timeout after|monitoredbarrier|recvvalue failed"
    r"|failed to recv|watchdog caught collective",
    re.IGNORECASE,
)
_MEMORY = re.compile(
    r"\bmemoryerror|out ?of ?memory|(?:can't|cannot) allocate memory|bad_alloc|defaultcpuallocator", re.IGNORECASE
)
# torch/utils/data/dataloader.py and torch/csrc/DataLoader.cpp, torch 2.13.
_DATA_WORKER = re.compile(r"^RuntimeError: DataLoader worker \(pid")
_DISK = re.compile(r"no space left on device|disk quota exceeded|\[errno (?:28|122)\]", re.IGNORECASE)
# gloo checks the parts of an all_to_all and the size of what comes against what the call has room for.
_SIZES = re.compile(r"enforce fail at \S*gloo/\S*\] .*(?:length|nbytes|size)", re.IGNORECASE)
_CRASH = re.compile(r"segmentation fault|bus error|illegal instruction|floating.point exception", re.IGNORECASE)
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What an end was. `text` continues a sentence: ``killed by SIGKILL``, ``exit code 1``, ``ValueError: a label``."""

    end: RankEnd
    cause: Cause
    text: str
    certainty: Certainty
    is_secondary: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether it is an error by itself: it raised, crashed, was killed, or left with another code than 0."""
        return self.cause not in LEFT or bool(self.end.exit_code)


def is_secondary(words: str | None) -> bool:
    """Whether an exception, as ``Type: message``, says that another rank failed. See [Note: secondary failures]."""
    kind, _, message = (words or "").partition(":")
    name = kind.strip().rpartition(".")[2]
    if name == _OURS:
        return _SAYS_ANOTHER in message
    return name in _ALWAYS_SECONDARY or (name in _MAY_BE_SECONDARY and _LOST_PEER.search(message) is not None)


def cause_of_words(words: str) -> Cause:
    """The cause that an exception or a fatal error names; EXCEPTION when its text tells nothing better."""
    if words.startswith(FATAL) and _CRASH.search(words):
        return Cause.SEGFAULT
    if _DATA_WORKER.search(words):
        return Cause.DATALOADER_WORKER
    if _MEMORY.search(words):
        return Cause.OUT_OF_MEMORY
    if _SIZES.search(words):
        return Cause.SHAPE
    return Cause.DISK_FULL if _DISK.search(words) else Cause.EXCEPTION


def classify(end: RankEnd) -> Ending | None:
    """What `end` was; None while the process lives and its program has neither returned nor raised."""
    code = end.exit_code
    if code is not None and code < 0 and (end.words is None or -code in _CRASHES):
        return _by_signal(end, -code)
    if end.words is not None:
        first = (end.words.splitlines() or [""])[0].rstrip(": ")
        secondary = is_secondary(end.words)
        return Ending(
            end=end,
            cause=Cause.UNKNOWN if secondary else cause_of_words(end.words),
            text=first or "exception",
            certainty=Certainty.OBSERVED,
            is_secondary=secondary,
        )
    if code is not None and code > 0:
        cause, certainty = (
            (Cause.MAIN_EXITED, Certainty.OBSERVED) if end.is_recorded else (Cause.UNKNOWN, Certainty.INFERRED)
        )
        return Ending(end=end, cause=cause, text=f"exit code {code}", certainty=certainty)
    if code == 0 or end.has_left:
        cause = Cause.UNEVEN_DATA if end.has_data_end else Cause.MAIN_EXITED
        return Ending(end=end, cause=cause, text="its program ended", certainty=Certainty.OBSERVED)
    if not end.is_gone:
        return None
    if end.is_recorded:
        text = "its process is gone and left no exception: it was killed, or it crashed"
        return Ending(end=end, cause=Cause.KILLED, text=text, certainty=Certainty.INFERRED)
    return Ending(end=end, cause=Cause.UNKNOWN, text="gone, nobody saw how", certainty=Certainty.UNKNOWN)


def _by_signal(end: RankEnd, number: int) -> Ending:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    cause, text = Cause.KILLED, f"killed by {name}"
    if number in _CRASHES:
        cause = Cause.SEGFAULT
    elif number == signal.SIGABRT:
        cause, text = Cause.EXCEPTION, f"aborted itself ({name})"
    # What SIGTERM ends was asked to end: mostly by a launcher that cleans up after another rank's failure.
    is_asked = number == signal.SIGTERM
    return Ending(end=end, cause=cause, text=text, certainty=Certainty.OBSERVED, is_secondary=is_asked)


def failures_of_ranks(ends: Sequence[RankEnd]) -> dict[int, Ending]:
    """By rank the ends that are failures of their own: neither secondary nor without an error."""
    endings = [ending for end in ends if (ending := classify(end)) is not None]
    return {
        each.end.rank: each
        for each in endings
        if each.end.rank is not None and each.has_failed and not each.is_secondary
    }


def first_endings(endings: Sequence[Ending], *, is_needed: bool = False) -> tuple[list[Ending], Certainty]:
    """The ends that are causes, the first one first, and how sure that is; empty when none is a failure.

    Failures that are not secondary, by their time. Else those that left without an error before the secondary
    failures, or at all where `is_needed`: somebody still waits. Else, inferred, the earliest secondary failure.
    """
    known = [_outlived(each, endings) for each in endings]
    failed = [each for each in known if each.has_failed and each.certainty is not Certainty.UNKNOWN]
    causes = [each for each in failed if not each.is_secondary]
    if causes:
        return sorted(causes, key=_order), Certainty.OBSERVED
    earliest = min(failed, key=_order, default=None)
    left = [each for each in known if each.cause in LEFT and (is_needed or _is_before(each, earliest))]
    if left:
        return sorted(left, key=_order), Certainty.OBSERVED
    return ([], Certainty.UNKNOWN) if earliest is None else ([earliest], Certainty.INFERRED)


def _order(ending: Ending) -> tuple[float, bool]:
    """By time; where none is known, what ends a process at once before an exception."""
    at_s = ending.end.at_s
    return (float("inf") if at_s is None else at_s, ending.cause is Cause.EXCEPTION)


def _is_before(left: Ending, failure: Ending | None) -> bool:
    if failure is None:
        return False
    return left.end.at_s is None or failure.end.at_s is None or left.end.at_s <= failure.end.at_s + SEEN_LATE_S


def _outlived(ending: Ending, endings: Sequence[Ending]) -> Ending:
    """The same; secondary when it left no word and was alive after another one had failed: it was ended then.

    Where a rank had left before, so is a kill that came long after another failure, and an abort in a call that needs
    that rank.
    """
    alive_s, code, others = ending.end.alive_s, ending.end.exit_code, [each for each in endings if each is not ending]
    if ending.end.words is not None:
        return ending
    left = [each for each in others if each.cause in LEFT and not each.has_failed]
    if code == -signal.SIGABRT and ending.end.needs:
        is_lost = any(each.end.rank in ending.end.needs and _is_before(each, ending) for each in left)
        return replace(ending, is_secondary=is_lost)
    if alive_s is None:
        return ending
    if code == -signal.SIGKILL:
        failed = [each for each in others if each.has_failed and each.certainty is Certainty.OBSERVED]
        before = [e for e in failed if e.end.at_s is not None and e.end.at_s + SEEN_LATE_S < alive_s]
        return replace(ending, is_secondary=any(_is_before(each, one) for each in left for one in before))
    if ending.certainty is Certainty.OBSERVED:
        return ending
    times = [
        each.end.at_s
        for each in others
        if each.certainty is Certainty.OBSERVED and not each.is_secondary and each.has_failed
    ]
    return replace(ending, is_secondary=any(at_s is not None and at_s < alive_s for at_s in times))


_HINTS = {
    Cause.KILLED: "ask dmesg for the out-of-memory killer, or who sent the signal",
    Cause.SEGFAULT: "the output's last lines name the native frame",
    Cause.DISK_FULL: "free space on the disk",
    Cause.OUT_OF_MEMORY: "a smaller micro-batch, or more ranks",
    Cause.MAIN_EXITED: "find why it comes to its end before the others: fewer batches, an early return or break, or a "
    "call that it left out",
    Cause.UNEVEN_DATA: "give every rank the same number of batches: drop_last=True, a sampler that pads, or Join",
}
MAX_OTHERS = 6
"""Most ends that are listed behind the first one."""


def death_finding(
    group: Sequence[Ending],
    *,
    waiting: Sequence[int] = (),
    others: Sequence[Ending] = (),
    certainty: Certainty = Certainty.OBSERVED,
    evidence: Sequence[str] = (),
) -> Finding:
    """The finding on the ranks whose end is the cause, all in one way: one rule for a launcher, a watcher and files.

    `waiting`: the ranks that still run and wait for them; `others`: ends that came after. `certainty`: INFERRED where
    every failure is secondary, so that the earliest one is named.
    """
    first, end = group[0], group[0].end
    ranks = [each.end.rank for each in group if each.end.rank is not None]
    victims = [each.end.rank for each in others if each.is_secondary and each.end.rank is not None]
    who = ranks_text(ranks) if ranks else "a process"
    when = f" while {waits(waiting)}" if waiting else " first" if end.at_s is not None or others else ""
    text, hint = shortened(first.text, 200), _HINTS.get(first.cause, "fix the cause shown in the traceback")
    if not first.has_failed:
        text += f" while {ranks_text(victims) if victims else 'its peers'} still needed it"
    elif certainty is not Certainty.OBSERVED:
        text += "; every failure is secondary: it names a lost peer"
    elif end.exit_code is None and not end.is_gone:
        text += "; its process is still there"
    if end.exit_code == -signal.SIGABRT and end.words is None:
        hint = "read the output above the abort: 'terminate called' names what was raised below Python"
    if end.source is not None:
        hint = "read the log before that line; the ranks that time out later are its victims"
    told = [] if end.source is None else [f"{end.source} says so"]
    told += [
        f"rank {each.end.rank} then failed as a consequence: {shortened(each.text, 160)}"
        if each.end.source is None
        else f"also {each.end.source}: {shortened(each.text, 120)}"
        for each in others[:MAX_OTHERS]
    ]
    return hang_finding(
        "L102",
        f"{who} {'died' if first.has_failed else 'ended'}{when}: {text}",
        kind=Kind.MISSING if first.cause is Cause.UNEVEN_DATA else Kind.CRASH,
        cause=first.cause,
        certainty=first.certainty if certainty is Certainty.OBSERVED else certainty,
        ranks=ranks,
        pids=[each.end.pid for each in group if each.end.pid is not None],
        waiting=waiting or (() if first.has_failed else victims),
        hosts=[each.end.host for each in group if each.end.host is not None],
        site=None if first.cause is Cause.KILLED else end.site,
        evidence=(*evidence, *told),
        ruled_out=("the ranks that failed after it: they lost a peer",)
        if others and all(each.is_secondary for each in others)
        else (),
        next_step=f"{hint}; the others cannot go on: start the job again" if waiting else hint,
    )
