"""Whole hosts that are waited for, and hosts that run something else: from what each tells of its own ranks. Pure.

[Note: hosts as ranks]
A host compares its own ranks itself (H140 to H142). What all of its ranks have in common it cannot see: a host that is
slow as a whole, or that has another version of the code. So each posts the median of its ranks' own times for the last
steps, and what one of its ranks has loaded; hosts are then compared by the rules for ranks. A host is said to be waited
for when two judgements HOLD_S apart agree.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from emberward.findings import Cause, Finding, FindingPhase, Severity, observed
from emberward.health import LateRank, late_ranks
from emberward.sources.live import skew_findings

HOLD_S = 5.0
NEWEST, NEWEST_SHARE = 3, 0.2
"""Steps of which each is longer, by that share of it, for one host's own part: it may be waited for, soon or not."""
MAX_HOSTS = 512
Posts = Mapping[str, Mapping[str, Any]]


class HostsAlike:
    """Sees what all hosts post and says which differ as a whole. `poll` it with each exchange."""

    def __init__(self) -> None:
        self._facts: dict[str, Mapping[str, str]] = {}
        self._since: dict[tuple[str, ...], float] = {}

    def poll(self, posts: Posts, *, now_s: float) -> tuple[Finding, ...]:
        """What holds now. Posts that cannot be read are left out."""
        here = {host: post for host, post in posts.items() if post.get("has_left") is not True}
        return (*self._skew(here), *self._late(here, now_s))

    def _skew(self, posts: Posts) -> tuple[Finding, ...]:
        for host, post in posts.items():
            facts = post.get("facts")
            if isinstance(facts, dict):
                self._facts[host] = {str(name): str(value) for name, value in facts.items()}
        if not posts or not all(host in self._facts for host in posts):
            return ()
        host_of = {rank: host for host, post in posts.items() for rank in _ranks(post)}
        return skew_findings({rank: self._facts[host] for rank, host in sorted(host_of.items())}, host_of)

    def _late(self, posts: Posts, now_s: float) -> tuple[Finding, ...]:
        found = slow_hosts(posts)
        key = tuple(sorted(host for each in found for host in each.hosts))
        self._since = {key: self._since.get(key, now_s)} if found else {}
        return found if found and now_s - self._since[key] >= HOLD_S else ()


def _ranks(post: Mapping[str, Any]) -> list[int]:
    return [rank for rank in post.get("ranks") or () if isinstance(rank, int)]


def slow_hosts(posts: Posts) -> tuple[Finding, ...]:
    """H144 for the hosts that the others wait for; empty when there are none. Severity: warning.

    Each post has ``steps``: a list of ``{"program", "ranks", "numbers", "own_ms", "length_ms"}``, one for each program.
    """
    return tuple(finding for parts in _programs(posts).values() for finding in _of_program(parts))


def _programs(posts: Posts) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Of each program the part of each host."""
    programs: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for host, post in sorted(posts.items())[:MAX_HOSTS]:
        for part in post.get("steps") or ():
            if isinstance(part, dict) and isinstance(part.get("program"), str):
                programs[part["program"]][host] = part
    return programs


def maybe_slow(posts: Posts) -> frozenset[str]:
    """Hosts whose own parts make the newest steps long, too few of them for H144. `posts` as in `slow_hosts`."""
    found: set[str] = set()
    for parts in _programs(posts).values():
        hosts, own, lengths = _own_times(parts)
        if len(own) < 2:
            continue
        newest = sorted(set.intersection(*(set(by_step) for by_step in own.values())))[-NEWEST:]
        for index, host in enumerate(hosts):
            others = [own[other] for other in own if other != index]
            excess = [own[index][step] - max(other[step] for other in others) for step in newest]
            if len(newest) == NEWEST and all(
                more >= NEWEST_SHARE * lengths[step] for more, step in zip(excess, newest, strict=True)
            ):
                found.add(host)
    return frozenset(found)


def _own_times(
    parts: Mapping[str, Mapping[str, Any]],
) -> tuple[list[str], dict[int, dict[int, float]], dict[int, float]]:
    """Hosts, the own seconds of each by step, and the length of each step; nothing of posts that cannot be read."""
    hosts = sorted(parts)
    own: dict[int, dict[int, float]] = {}
    lengths: dict[int, list[float]] = defaultdict(list)
    try:
        for index, host in enumerate(hosts):
            part = parts[host]
            rows = list(zip(part["numbers"], part["own_ms"], part["length_ms"], strict=True))
            own[index] = {int(number): float(mine) / 1000 for number, mine, _ in rows}
            for number, _, length in rows:
                lengths[int(number)].append(float(length) / 1000)
    except (KeyError, TypeError, ValueError):
        return [], {}, {}
    return hosts, own, {step: statistics.median(values) for step, values in lengths.items()}


def _of_program(parts: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    hosts, own, lengths = _own_times(parts)
    return [_finding(each, hosts, parts) for each in late_ranks(own, lengths)]


def _finding(late: LateRank, hosts: Sequence[str], parts: Mapping[str, Mapping[str, Any]]) -> Finding:
    host = hosts[late.rank]
    ranks = tuple(sorted(parts[host]["ranks"]))
    often = "in every step" if late.period is None else f"every {late.period} steps"
    return observed(
        "H144",
        f"host {host} is waited for {often}: {1000 * late.excess_s:.0f} ms of {late.step_s:.3f} s, "
        f"{100 * late.share:.1f}% of all",
        severity=Severity.WARNING,
        cause=Cause.SLOW_RANK if late.period is None else Cause.SLOW_PERIODIC,
        culprit_ranks=ranks,
        waiting_ranks=tuple(sorted(rank for other in hosts if other != host for rank in parts[other]["ranks"])),
        hosts=(host,),
        phase=FindingPhase(step=late.last_step if late.last_event is None else late.last_event),
        evidence=(
            f"the median of its ranks' own times is {1000 * late.excess_s:.1f} ms above that of the other hosts, "
            f"steps {late.first_step} to {late.last_step}",
        ),
        ruled_out=("one slow rank of it: the median of its ranks is what counts",),
        next=f"compare clocks, heat and other users of {host} with another host's; "
        f"restart without it: srun --exclude={host}",
    )
