"""The parts that their numbers show to be slow, and the pairs whose numbers are not decided. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from emberward.doctor._faults import Kind, Part
from emberward.doctor._fleet import Fleet, Set
from emberward.doctor._numbers import Figure, Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A part that is bad, or may be. `slow`: by its numbers; else it fails."""

    part: Part
    certainty: float
    slow: Figure | None = None


def slow_parts(fleet: Fleet, numbers: Numbers) -> list[Suspect]:
    """Devices, hosts and links that their numbers show to be slow; a host for all of its devices together."""
    certainty = 1 - 1e-3
    figures = {n: each for n, each in numbers.devices().items() if each.is_slow}
    for number, each in numbers.ends().items():
        if each.is_slow and number not in figures:
            figures[number] = each
    found: list[Suspect] = []
    hosts: dict[str, list[int]] = {}
    for number, device in enumerate(fleet.devices):
        hosts.setdefault(device.host, []).append(number)
    for host, members in hosts.items():
        slow = [n for n in members if n in figures]
        if len(members) > 1 and len(slow) == len(members):
            figure = min((figures[n] for n in slow), key=lambda each: each.gap)
            found.append(Suspect(part=Part(Kind.HOST, (host,)), certainty=certainty, slow=figure))
        else:
            found += [Suspect(part=Part(Kind.DEVICE, (n,)), certainty=certainty, slow=figures[n]) for n in slow]
    if (cut := numbers.cut()) is not None:
        found.append(Suspect(part=Part(Kind.CUT, tuple(sorted(cut[0]))), certainty=certainty, slow=cut[1]))
    for pair, each in numbers.cells().items():
        if each.is_slow and not any(n in figures for n in pair):
            found.append(Suspect(part=Part(Kind.LINK, pair), certainty=certainty, slow=each))
    return found


def open_pairs(numbers: Numbers, free: Sequence[int], rng: random.Random) -> list[Set]:
    """Disjoint pairs whose numbers are not decided, with the other free devices paired beside them."""
    ends = {n for n, each in numbers.ends().items() if each.is_slow}
    allowed = set(free)
    wanted = sorted(
        (
            (figure.gap, pair)
            for pair, figure in numbers.cells().items()
            if figure.is_open or (figure.gap >= figure.limit and not figure.is_slow)
            if set(pair) <= allowed and ends.isdisjoint(pair) and figure.count < 40
        ),
        reverse=True,
    )
    taken: set[int] = set()
    found: list[Set] = []
    for _, pair in wanted[:8]:
        if taken.isdisjoint(pair):
            taken |= set(pair)
            found.append(pair)
    if not found:
        return []
    rest = [n for n in free if n not in taken]
    rng.shuffle(rest)
    return [*found, *((min(a, b), max(a, b)) for a, b in zip(rest[::2], rest[1::2], strict=False))]
