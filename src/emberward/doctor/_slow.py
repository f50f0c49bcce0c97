"""The parts that their numbers show to be slow, and the pairs whose numbers are not decided. Pure."""

import random
from collections.abc import Mapping, Sequence
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
    cells = numbers.cells()
    for pair, each in cells.items():
        if each.is_slow and not any(n in figures for n in pair) and not _is_by_nature(fleet, pair, cells):
            found.append(Suspect(part=Part(Kind.LINK, pair), certainty=certainty, slow=each))
    return found


def _is_by_nature(fleet: Fleet, pair: Set, cells: Mapping[Set, Figure]) -> bool:
    """Whether the link of the same two devices of other hosts is slow too, or may be: two sockets part all hosts alike.

    Of a fleet of one host, and of links between hosts, nothing tells.
    """
    here, there = (fleet.devices[n] for n in pair)
    if here.host != there.host:
        return False
    at = {(device.host, device.index): n for n, device in enumerate(fleet.devices)}
    alike = [
        (at[host, here.index], at[host, there.index])
        for host in {device.host for device in fleet.devices} - {here.host}
        if (host, here.index) in at and (host, there.index) in at
    ]
    seen = [cells[same] for same in alike if same in cells]
    return bool(alike) and (not seen or any(each.is_slow for each in seen))


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
