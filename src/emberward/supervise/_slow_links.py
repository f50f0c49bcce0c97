"""Which host's link is slow, from how long hosts take to fetch the same bytes from each other: pure.

[Note: rows, columns, cells]
Each host says how long it took to fetch from each other one. A cell that is slow alone is a link between two hosts; a
slow row is what one host sends, a slow column what it gets. What is ordinary is the lower quartile of all cells: so
one slow host of three leaves cells to compare with, and when all are slow alike nothing is. Of two hosts nobody tells
whose end it is. When more than a third of the hosts would be named the network is uneven by its make, and nobody is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.supervise._nodes import SILENT_S, NodePost

SLOW_FACTOR = 4.0
SLOW_S = 0.015
"""The least that a cell must take longer: below it a busy host explains it as well."""

HOLD_S = 4.0

Cell = tuple[str, str]
"""The host that sends, the host that gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """Seconds by cell, which of them are slow, and what is ordinary."""

    times_s: Mapping[Cell, float]
    slow: frozenset[Cell]
    ordinary_s: float


class LinkWatch:
    """Says what `judge_links` finds once it has held for HOLD_S: the hosts' tries do not end at one moment."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}

    def poll(self, posts: Sequence[NodePost], *, now_s: float) -> tuple[Finding, ...]:
        """What holds now, and has for a while."""
        found = judge_links(posts)
        self._since = {each.hosts: self._since.get(each.hosts, now_s) for each in found}
        return tuple(each for each in found if now_s - self._since[each.hosts] >= HOLD_S)


def judge_links(posts: Sequence[NodePost]) -> tuple[Finding, ...]:
    """H143 for each host, and each pair of hosts, whose link is slow; empty when all are alike. Severity: warning."""
    by_host = {post.host: post for post in posts if post.silent_s <= SILENT_S}
    times = {
        (sender, getter): seconds
        for getter, post in by_host.items()
        for sender, seconds in post.fetch_s.items()
        if sender in by_host and sender != getter
    }
    if len(times) < 2:
        return ()
    ordinary = sorted(times.values())[len(times) // 4]
    least = max(SLOW_FACTOR * ordinary, ordinary + SLOW_S)
    cells = _Cells(
        times_s=times, ordinary_s=ordinary, slow=frozenset(cell for cell, seconds in times.items() if seconds >= least)
    )
    named = dict(_hosts(cells, by_host))
    if 3 * len(named) > len(by_host):
        return ()
    found = [_host_finding(host, ways, cells, by_host) for host, ways in named.items()]
    left = {frozenset(cell) for cell in cells.slow if not named.keys() & set(cell)}
    found += [_pair_finding(sorted(pair), cells, by_host) for pair in sorted(left, key=sorted)]
    return tuple(found)


def _hosts(cells: _Cells, by_host: Mapping[str, NodePost]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Hosts of which all that is sent, or got, is slow, and which of the two; those that explain most first."""
    left = set(cells.slow)

    def ways(host: str) -> tuple[str, ...]:
        sent = [cell for cell in cells.times_s if cell[0] == host]
        got = [cell for cell in cells.times_s if cell[1] == host]
        rows = (("sends", sent), ("gets", got))
        return tuple(
            name for name, row in rows if len(row) >= 2 and cells.slow.issuperset(row) and not left.isdisjoint(row)
        )

    def num_slow(host: str) -> int:
        return sum(host in cell for cell in left)

    for host in sorted(by_host, key=lambda each: (-num_slow(each), each)):
        found = ways(host)
        if found:
            yield host, found
            left -= {cell for cell in left if host in cell}


def _host_finding(host: str, ways: tuple[str, ...], cells: _Cells, by_host: Mapping[str, NodePost]) -> Finding:
    own = sorted(s for cell, s in cells.times_s.items() if host in cell and cell in cells.slow)
    others = [other for other in sorted(by_host) if other != host]
    return Finding(
        code="H143",
        severity=Severity.WARNING,
        kind=Kind.LINK,
        cause=Cause.SLOW_LINK,
        certainty=Certainty.OBSERVED,
        message=f"the link of host {host} is slow: what it {' and '.join(ways)} takes {_ms(own[len(own) // 2])}, "
        f"between others {_ms(cells.ordinary_s)}",
        culprit_ranks=by_host[host].ranks,
        waiting_ranks=tuple(sorted(rank for other in others for rank in by_host[other].ranks)),
        hosts=(host,),
        evidence=_lines(cells, host),
        ruled_out=(f"{', '.join(others[:8])}: what they exchange is as fast as ever",),
        next=f"look at the port's speed and error counters of {host}; restart without it: srun --exclude={host}",
    )


def _pair_finding(pair: Sequence[str], cells: _Cells, by_host: Mapping[str, NodePost]) -> Finding:
    first, second = pair
    slow = max(cells.times_s.get((first, second), 0.0), cells.times_s.get((second, first), 0.0))
    why = "whose end it is cannot be told from two hosts" if len(by_host) == 2 else "both are fast with others"
    return Finding(
        code="H143",
        severity=Severity.WARNING,
        kind=Kind.LINK,
        cause=Cause.SLOW_LINK,
        certainty=Certainty.OBSERVED,
        message=f"the link between hosts {first} and {second} is slow: {_ms(slow)}, others {_ms(cells.ordinary_s)}; "
        f"{why}",
        waiting_ranks=tuple(sorted(rank for host in pair for rank in by_host[host].ranks)),
        hosts=(first, second),
        evidence=_lines(cells, first),
        next=f"run a bandwidth test between {first} and {second}, then look at the switch between them",
    )


def _lines(cells: _Cells, host: str) -> tuple[str, ...]:
    rows = sorted((cell, seconds) for cell, seconds in cells.times_s.items() if host in cell)
    return tuple(f"{sender} to {getter}: {_ms(seconds)}" for (sender, getter), seconds in rows[:8])


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"
