"""A rank's samples from stacks that were counted outside of it, and the steps that its ring knows. Pure."""

from collections.abc import Callable, Mapping, Sequence

from emberward.lens._samples import USER, Instruction, RankSamples, Sampled
from emberward.lens._source import Sources

Line = tuple[str, str, int]
"""A frame: file, function, line."""


def outside_samples(
    stacks: Mapping[tuple[Line, ...], int],
    *,
    rank: int,
    pid: int,
    world_size: int | None,
    first_step: int,
    bounds_s: Sequence[float],
    owner: Callable[[str], str],
    sources: Sources,
) -> RankSamples:
    """The samples of a rank whose stacks, outermost first, were counted while the steps between the bounds went by.

    What was seen is spread evenly over them, as time on a processor: whether the thread waited is not known.
    """
    total, lasted_s = sum(stacks.values()), bounds_s[-1] - bounds_s[0] if len(bounds_s) > 1 else 0.0
    steps = range(first_step, first_step + max(len(bounds_s) - 1, 0))
    sampled = []
    for stack, count in stacks.items():
        each_s = lasted_s * count / max(total * len(steps), 1)
        places = [_place(line, owner(line[0]), sources) for line in reversed(stack)]
        sampled.append(Sampled(stack=tuple(places), flag="", steps=dict.fromkeys(steps, (each_s, each_s))))
    return RankSamples(
        rank=rank,
        pid=pid,
        world_size=world_size,
        first_step=first_step,
        bounds_s=tuple(bounds_s),
        period_s=lasted_s / max(total, 1),
        queue_s=0.0,
        has_cpu_time=True,
        device="cpu",
        loop=_loop([*stacks], owner),
        outputs=frozenset(),
        stacks=tuple(sampled),
        is_whole=True,
        is_spread=True,
    )


def _place(line: Line, owned: str, sources: Sources) -> Instruction:
    file, function, number = line
    column, last_line, last_column = (owned == USER and sources.only_call(file, number)) or (None, number, None)
    return Instruction(file, function, 0, owned, number, last_line, column, last_column, "CALL")


def _loop(stacks: Sequence[tuple[Line, ...]], owner: Callable[[str], str]) -> tuple[tuple[str, str, int], ...]:
    """The functions that all stacks have, outermost first, up to the last of the program's."""
    shared: list[Line] = []
    for frames in zip(*stacks, strict=False):
        if len({(file, function) for file, function, _ in frames}) > 1:
            break
        shared.append(frames[0])
    last = max((i for i, (file, _, _) in enumerate(shared) if owner(file) == USER), default=-1)
    return tuple((file, function, 0) for file, function, _ in shared[: last + 1])


def line_shares(stacks: Mapping[tuple[Line, ...], int], owner: Callable[[str], str]) -> list[tuple[str, float]]:
    """The program's innermost lines with their share of the samples, the most first."""
    seen: dict[str, int] = {}
    for stack, count in stacks.items():
        site = next(
            (f"{file}:{line}" for file, _, line in reversed(stack) if owner(file) == USER), "outside the program"
        )
        seen[site] = seen.get(site, 0) + count
    total = max(sum(seen.values()), 1)
    return sorted(((site, count / total) for site, count in seen.items()), key=lambda each: -each[1])
