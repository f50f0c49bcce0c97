"""Which host's link is slow or loses packets, from what hosts fetch from each other: pure.

[Note: rows, columns, cells]
Each host says how long it took to fetch from each other one, and how much of what it sent had to be sent again. A slow
row is what one host sends, a slow column what it gets. A cell that is slow alone is a link between two hosts, where the
rest of its row and of its column is known: else it may be the first that is told of a row. What is ordinary is the
lower quartile of all cells: so
one slow host of three leaves cells to compare with, and when all are slow alike nothing is. Of two hosts nobody tells
whose end it is. When more than a third of the hosts would be named the network is uneven by its make, and nobody is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.findings import Cause, Finding, Severity, observed
from emberward.supervise._nodes import SILENT_S, NodePost
from emberward.supervise._sent_again import KEPT_S

SLOW_FACTOR = 1.5
"""Between a link as fast as the others and one at half their speed: where all that a host sends or gets agrees."""
PAIR_FACTOR = 4.0
"""For a cell alone, which a busy host explains sooner."""
SLOW_S = 0.015
"""The least that a cell must take longer: below it a busy host explains it as well."""
LOSS_FACTOR = 4.0
LOSS_SHARE = 0.003
"""Of the segments sent. So much holds a TCP connection with a round trip of 1 ms to 260 Mb/s: Mathis et al. 1997, The
macroscopic behavior of the TCP congestion avoidance algorithm, 1.22 segments / (round trip x square root of the loss).
"""

HOLD_S = 12.0
"""Two cells that become slow at one moment are seen so within less: each is fetched every 5 s at least, and posted."""

Cell = tuple[str, str]
"""The host that sends, the host that gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """A figure by cell, which of them are bad, and what is ordinary; and how the figures are said."""

    values: Mapping[Cell, float]
    bad: frozenset[Cell]
    ordinary: float
    is_loss: bool

    def text(self, value: float) -> str:
        return f"{100 * value:.1f}%" if self.is_loss else f"{1000 * value:.0f} ms"

    def is_text(self, ways: str, value: float) -> str:
        """What is bad about a link, in words."""
        others = f"between others {self.text(self.ordinary)}"
        if self.is_loss:
            return f"loses packets: {self.text(value)} of what it {ways} comes only when it is sent again, {others}"
        return f"is slow: what it {ways} takes {self.text(value)}, {others}"


class LinkWatch:
    """Says what `judge_links` finds once it has held for HOLD_S: the hosts' tries do not end at one moment.

    That two hosts are fast with others has to hold for KEPT_S: so long a load counts that was fast before all became
    slow.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, ...], float] = {}

    def poll(self, posts: Sequence[NodePost], *, now_s: float) -> tuple[Finding, ...]:
        """What holds now, and has for a while."""
        found = judge_links(posts)
        self._since = {each.hosts: self._since.get(each.hosts, now_s) for each in found}
        is_cell = len(posts) > 2
        holds_s = {each.hosts: KEPT_S if is_cell and len(each.hosts) > 1 else HOLD_S for each in found}
        return tuple(each for each in found if now_s - self._since[each.hosts] >= holds_s[each.hosts])


def links_beside(
    hosts: Sequence[Finding], links: Sequence[Finding], *, maybe: frozenset[str] = frozenset()
) -> tuple[Finding, ...]:
    """The findings on links that those on hosts do not explain: a host that is slow in its own work gets slowly too.

    `maybe`: hosts that seem to be slow so, of which too little is known yet.
    """
    slow = maybe.union(*(finding.hosts for finding in hosts if finding.cause is Cause.SLOW_RANK))
    return tuple(each for each in links if len(each.hosts) > 1 or slow.isdisjoint(each.hosts))


def judge_links(posts: Sequence[NodePost]) -> tuple[Finding, ...]:
    """H143 for each host, and each pair of hosts, whose link is slow or loses packets. Severity: warning.

    Empty when all are alike. What is lost explains what is slow: of one host or pair one finding is made.
    """
    by_host = {post.host: post for post in posts if post.silent_s <= SILENT_S}
    lost = {
        (sender, getter): share
        for sender, post in by_host.items()
        for getter, share in post.lost.items()
        if getter in by_host and sender != getter
    }
    times = {
        (sender, getter): seconds
        for getter, post in by_host.items()
        for sender, seconds in post.fetch_s.items()
        if sender in by_host and sender != getter
    }
    found: dict[tuple[str, ...], Finding] = {}
    for values, is_loss in ((lost, True), (times, False)):
        for finding in _judge_cells(values, by_host, is_loss=is_loss):
            if not any(set(finding.hosts) & set(hosts) for hosts in found if len(hosts) == 1):
                found.setdefault(finding.hosts, finding)
    return tuple(found.values())


def _judge_cells(values: Mapping[Cell, float], by_host: Mapping[str, NodePost], *, is_loss: bool) -> Iterator[Finding]:
    if len(values) < 2:
        return
    ordinary = sorted(values.values())[len(values) // 4]
    factor, more = (LOSS_FACTOR, LOSS_SHARE) if is_loss else (SLOW_FACTOR, SLOW_S)
    least = max(factor * ordinary, ordinary + more)
    bad = frozenset(cell for cell, value in values.items() if value >= least)
    cells = _Cells(values=values, ordinary=ordinary, bad=bad, is_loss=is_loss)
    if not bad:
        return
    named = dict(_hosts(cells))
    if 3 * len(named) > len(by_host):
        return
    for host, ways in named.items():
        yield _host_finding(host, ways, cells, by_host)
    alone = max(PAIR_FACTOR * ordinary, ordinary + more)
    left = {
        frozenset(cell)
        for cell in bad
        if values[cell] >= alone and not named.keys() & set(cell) and _is_known_around(cell, values, by_host)
    }
    for pair in sorted(left, key=sorted):
        yield _pair_finding(sorted(pair), cells, by_host)


def _is_known_around(cell: Cell, values: Mapping[Cell, float], by_host: Mapping[str, NodePost]) -> bool:
    """Whether all else that the sender sends and the getter gets has a figure."""
    sender, getter = cell
    others = by_host.keys() - {sender, getter}
    return all((sender, other) in values and (other, getter) in values for other in others)


def _hosts(cells: _Cells) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Hosts of which all that is sent, or got, is slow, and which of the two; those that explain most first."""
    left = set(cells.bad)

    def ways(host: str) -> tuple[str, ...]:
        sent = [cell for cell in cells.values if cell[0] == host]
        got = [cell for cell in cells.values if cell[1] == host]
        rows = (("sends", sent), ("gets", got))
        return tuple(
            name for name, row in rows if len(row) >= 2 and cells.bad.issuperset(row) and not left.isdisjoint(row)
        )

    def num_slow(host: str) -> int:
        return sum(host in cell for cell in left)

    for host in sorted({host for cell in cells.bad for host in cell}, key=lambda each: (-num_slow(each), each)):
        found = ways(host)
        if found:
            yield host, found
            left -= {cell for cell in left if host in cell}


def _finding(message: str, hosts: Sequence[str], cells: _Cells, **others: Any) -> Finding:
    rows = sorted((cell, value) for cell, value in cells.values.items() if hosts[0] in cell)
    return observed(
        "H143",
        message,
        severity=Severity.WARNING,
        cause=Cause.SLOW_LINK,
        hosts=tuple(hosts),
        evidence=tuple(f"{sender} to {getter}: {cells.text(value)}" for (sender, getter), value in rows[:8]),
        **others,
    )


def _host_finding(host: str, ways: tuple[str, ...], cells: _Cells, by_host: Mapping[str, NodePost]) -> Finding:
    own = sorted(value for cell, value in cells.values.items() if host in cell and cell in cells.bad)
    others = [other for other in sorted(by_host) if other != host]
    return _finding(
        f"the link of host {host} {cells.is_text(' and '.join(ways), own[len(own) // 2])}",
        (host,),
        cells,
        culprit_ranks=by_host[host].ranks,
        waiting_ranks=tuple(sorted(rank for other in others for rank in by_host[other].ranks)),
        ruled_out=(f"{', '.join(others[:8])}: what they exchange is as fast as ever",),
        next=f"look at the port's speed and error counters of {host}; restart without it: srun --exclude={host}",
    )


def _pair_finding(pair: Sequence[str], cells: _Cells, by_host: Mapping[str, NodePost]) -> Finding:
    first, second = pair
    worst = max(cells.values.get((first, second), 0.0), cells.values.get((second, first), 0.0))
    what = "loses packets" if cells.is_loss else "is slow"
    why = "whose end it is cannot be told from two hosts" if len(by_host) == 2 else "both are fast with others"
    return _finding(
        f"the link between hosts {first} and {second} {what}: {cells.text(worst)}, "
        f"others {cells.text(cells.ordinary)}; {why}",
        pair,
        cells,
        waiting_ranks=tuple(sorted(rank for host in pair for rank in by_host[host].ranks)),
        next=f"run a bandwidth test between {first} and {second}, then look at the switch between them",
    )
