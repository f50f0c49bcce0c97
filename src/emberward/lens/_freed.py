"""What a call's own instruction takes besides the functions of Python's that it calls. Pure.

[Note: freed by a call]
``next(iter(loader))`` gives back the iterator that nobody keeps: the list of a whole epoch's indices is freed when the
call ends, by C code, in the frame of the line itself. So a look that finds a line of the program at a call, with no
frame below it, has the cause of what is seen below the same call, where most of that has one.
"""

from collections import defaultdict
from collections.abc import Sequence

from emberward.lens._causes import Told
from emberward.lens._samples import USER, Instruction, RankSamples

MOST = 0.9
"""Of what is seen below a call."""


def with_freed(rank: RankSamples, told: Sequence[Told | None]) -> list[Told | None]:
    """What was told of each of the rank's stacks, and of those that end in a call what is told of what it calls."""
    own = {
        sampled.stack[0]
        for sampled, known in zip(rank.stacks, told, strict=True)
        if known is None and not sampled.flag and _is_call(sampled.stack)
    }
    below: dict[Instruction, dict[Told | None, float]] = defaultdict(lambda: defaultdict(float))
    for sampled, known in zip(rank.stacks, told, strict=True) if own else ():
        # Which of them is freed there, nobody knows of collections.
        for place in own.intersection(sampled.stack[1:]) if not sampled.flag else ():
            below[place][known] += sum(seconds for seconds, _ in sampled.steps.values())
    causes = {place: _most(spent) for place, spent in below.items()}
    return [
        known if known is not None or sampled.flag or not sampled.stack else causes.get(sampled.stack[0])
        for sampled, known in zip(rank.stacks, told, strict=True)
    ]


def _is_call(stack: Sequence[Instruction]) -> bool:
    return bool(stack) and stack[0].owner == USER and "CALL" in stack[0].operation


def _most(spent: dict[Told | None, float]) -> Told | None:
    """The cause of one line that has most of it; None without one."""
    by_key: dict[tuple[object, str], float] = defaultdict(float)
    one: dict[tuple[object, str], Told] = {}
    for told, seconds in spent.items():
        if told is not None:
            one.setdefault((told.cause, told.site), told)
            by_key[told.cause, told.site] += seconds
    longest = max(by_key, key=lambda key: by_key[key], default=None)
    return one[longest] if longest is not None and by_key[longest] >= MOST * sum(spent.values()) else None
