"""What a rank is expected to do next, by its own earlier rounds or by its peers' calls, and how it left that. Pure.

[Note: expected order]
A training program makes the same calls round after round: its own past says what comes next, and so do ranks that run
the same program. A *round* lies between two calls that are alike, whatever they are; nobody needs to say where a step
begins. All rules about an order ask here, and one number says how much past makes a usual order; a rule that knows
more, such as that others wait in that very call, may ask for less (`newest`).
"""

import operator
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TypeVar

MIN_ROUNDS = 3
"""Fewest earlier rounds or calls that make a usual order: what came twice may have come by chance."""
MAX_SHIFT = 3
"""Most places that two orders are looked for apart."""
MAX_STRETCH = 256
"""Longest stretch of an order that is looked for again."""

Call = TypeVar("Call")


class Newest(StrEnum):
    """How the newest round compares with the earlier ones."""

    USUAL = "usual"
    FEWER = "fewer"
    """Fewer calls than any earlier round had."""
    MORE = "more"
    OTHER = "other"
    """Between what the earlier ones had, and like none of them."""


class Standing(StrEnum):
    """How a call that met another one stands in the order that is known: by the rank's past and by its peers'."""

    AHEAD = "ahead"
    """In earlier rounds it followed the call that its peers are in: that one was left out."""
    NEW = "new"
    """Nobody made it before, here or elsewhere."""
    KNOWN = "known"
    """It was made before, at another place of the order."""


def standing(
    ours: Call, theirs: Call, past: Sequence[Call], others: Iterable[Call], *, are_alike: Callable[[Call, Call], bool]
) -> Standing:
    """The standing of `ours`. `past`: the rank's earlier calls of the group; `others`: all that count as made."""
    if not are_alike(theirs, ours) and has_followed(past, theirs, ours, are_alike=are_alike):
        return Standing.AHEAD
    return Standing.KNOWN if any(are_alike(call, ours) for call in others) else Standing.NEW


def rounds(
    calls: Iterable[Call], *, is_mark: Callable[[Call], bool], is_counted: Callable[[Call], bool], is_open: bool
) -> list[int]:
    """How many counted calls each round has, oldest first; a round begins with a mark and ends with the next one.

    `is_open`: the round that the last mark began is the newest one, though it has not ended.
    """
    counts: list[int] = []
    count: int | None = None
    for call in calls:
        if is_mark(call):
            counts += [] if count is None else [count]
            count = 0
        elif count is not None and is_counted(call):
            count += 1
    return counts if count is None or not is_open else [*counts, count]


def newest(counts: Sequence[int], *, least: int = MIN_ROUNDS) -> Newest | None:
    """How the last of the counts of `rounds` compares with the others; None when these are fewer than `least`."""
    *earlier, now = counts or [0]
    if len(earlier) < least:
        return None
    if now > max(earlier):
        return Newest.MORE
    if now < min(earlier):
        return Newest.FEWER
    return Newest.USUAL if now in earlier else Newest.OTHER


def came_early(ours: Call, theirs: Call, past: Sequence[Call], *, are_alike: Callable[[Call, Call], bool]) -> bool:
    """Whether `ours`, which came after calls like `theirs` in earlier rounds, comes now after fewer than in each.

    A round lies between two calls like `ours`. What comes before the first one counts where few rounds are known: its
    oldest calls may not be known any more, and a job may begin with a round of its own. Of a row of calls like `ours`
    the first alone ends one, unless none came now.
    """
    first = next((n for n, call in enumerate(past) if are_alike(call, ours)), None)
    if first is None or are_alike(ours, theirs):
        return False

    def is_counted(call: Call) -> bool:
        return are_alike(call, theirs)

    known = rounds(past[first:], is_mark=lambda call: are_alike(call, ours), is_counted=is_counted, is_open=True)
    *earlier, now = known if len(known) > MIN_ROUNDS else (sum(map(is_counted, past[:first])), *known)
    return newest([*(count for count in earlier if count or not now), now], least=1) is Newest.FEWER


def lacked(places: Sequence[Call]) -> Call | None:
    """The place that was to come before the newest one: it came next each time before, or ended up short of its rounds.

    None where nothing is lacked, or too little past tells.
    """
    if len(places) < 2:
        return None
    *past, now = places
    after = [late for early, late in pairwise(past) if early == past[-1]]
    if len(set(after)) <= 1:
        return after[0] if len(after) >= MIN_ROUNDS and after[0] != now else None
    short = [place for place in set(past) if came_early(now, place, past, are_alike=operator.eq)]
    return next((place for place in after if place in short), short[0] if len(short) == 1 else None)


def follower(past: Sequence[Call], later: Sequence[Call] = ()) -> Call | None:
    """What is to come after `past`: what came each time after the shortest stretch like its end that decides.

    Such a stretch must have come `MIN_ROUNDS` times, earlier in `past` or in `later`, which need not follow at once.
    None where no stretch came so often, or what came after it changed.
    """
    ends = [(row, n) for row in (past, later) for n in range(1, len(row))]
    for length in range(1, min(len(past), MAX_STRETCH) + 1):
        ends = [(row, n) for row, n in ends if n >= length and row[n - length] == past[-length]]
        after = {row[n] for row, n in ends}
        if len(ends) < MIN_ROUNDS or len(after) == 1:
            return after.pop() if len(ends) >= MIN_ROUNDS else None
    return None


def only_in(
    here: Sequence[Call],
    there: Sequence[Call],
    *,
    ever: tuple[Container[Call], Container[Call]],
    without: Container[Call],
) -> Call | None:
    """The newest place to which one rank has come and the other never; None where the other has places of its own too.

    Then they run different programs. `here`, `there`: where each has been lately; `ever`: all places where each is
    known to have been, as the other's may reach back further. `without`: places that do not count, such as those of
    the calls that meet.
    """
    ours, theirs = (
        [p for p in a if p not in b and p not in known and p not in without]
        for a, b, known in ((here, there, ever[1]), (there, here, ever[0]))
    )
    return ours[-1] if ours and not theirs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSeen:
    """How often a rank asked for data at each place, `runs` of one place after another, and whether they have ended.

    `num_ends`, `runs`: since its start, None and empty where that is not known any more; `has_end`: since the call
    before the newest one; `at`: where it last asked.
    """

    runs: tuple[tuple[str, int], ...] = ()
    num_ends: int | None = None
    has_end: bool = False
    at: str | None = None


NO_DATA = DataSeen()


def has_begun_more(here: DataSeen, there: DataSeen) -> bool:
    """Whether a rank asked for data once more than another at the place where that one is in its turn: none is missing
    to it, and what it lacks it left out of a turn. Who is short of a turn asks for it as often, and is told the end.
    """
    *before, ours = here.runs or ((None, 0),)
    *earlier, theirs = there.runs or ((None, 0),)
    return before == earlier and ours[0] == theirs[0] and ours[1] > theirs[1]


def is_out_of_data(here: DataSeen, there: DataSeen) -> bool:
    """Whether the data of one rank ended before another's: it was told the end of what the other still has, or went on
    to a place that the other knows after fewer of the same, by more than the one that a rank in step may be ahead.
    """
    if has_begun_more(here, there):
        return False
    for n, (ours, theirs) in enumerate(zip(here.runs, there.runs, strict=False)):
        if ours != theirs:
            then = here.runs[n + 1][0] if n + 1 < len(here.runs) else None
            if ours[0] == theirs[0] and then in dict(there.runs):
                return ours[1] + 1 < theirs[1]
            break
    if here.at != there.at:
        # What one rank alone goes through, as in an evaluation of its own, ends for it alone.
        return False
    if here.num_ends is not None and there.num_ends is not None:
        return here.num_ends > there.num_ends
    return here.has_end and not there.has_end


def has_followed(calls: Sequence[Call], early: Call, late: Call, *, are_alike: Callable[[Call, Call], bool]) -> bool:
    """Whether a call like `late` came next after one like `early`."""
    return any(are_alike(a, early) and are_alike(b, late) for a, b in pairwise(calls))


def continues(numbers: Sequence[int]) -> bool | None:
    """Whether the last number, such as a tag, follows the one before as it did earlier; None when too few are known.

    After a number that came before, what followed it then; after a new one, as in a count, one as far from it as the
    last one was, after two that were as far apart as the two before now.
    """
    pairs = list(pairwise(numbers))
    if len(pairs) <= MIN_ROUNDS:
        return None
    known = {late for early, late in pairs[:-1] if early == pairs[-1][0]}
    if known:
        return pairs[-1][1] in known
    steps = [late - early for early, late in pairs]
    runs = list(zip(steps, steps[1:], steps[2:], strict=False))
    return runs[-1] in runs[:-1]


def shift(odd: Mapping[int, object], usual: Mapping[int, object]) -> tuple[int, int] | None:
    """Where two numbered orders part, and how many calls the odd one left out there (negative: made too many).

    None when they agree, or when they are not alike again some places apart: then one took another way, or made one
    call instead of another.
    """
    common = sorted(odd.keys() & usual.keys())
    place = next((number for number in common if odd[number] != usual[number]), None)
    if place is None or place - common[0] < MIN_ROUNDS or _runs_on(odd, usual, place + 1, place + 1):
        return None
    for count in range(1, MAX_SHIFT + 1):
        if _runs_on(odd, usual, place, place + count):
            return place, count
        if _runs_on(odd, usual, place + count, place):
            return place, -count
    return None


def _runs_on(odd: Mapping[int, object], usual: Mapping[int, object], odd_from: int, usual_from: int) -> bool:
    """Whether two orders go on alike from two places to the end of either, for more than `MIN_ROUNDS` calls."""
    length = 0
    while odd_from + length in odd and usual_from + length in usual:
        if odd[odd_from + length] != usual[usual_from + length]:
            return False
        length += 1
    return length > MIN_ROUNDS
