"""What the supervisors of several hosts tell each other, and what follows for links and hosts: pure.

[Note: whose link]
Each host's agent tries to reach every other on the job's own link, and posts what it sees over another way: a folder
that all share, or a collector. A pair is cut when either side does not reach the other. A host is named when it is cut
from all others that it tried, two at least, while these reach each other: that leaves one explanation. Of two hosts
nobody can tell which end is cut: both are named, and no culprit; nor of two groups of hosts. A host whose posts have
stopped and that nobody reaches is down, or cut off by both ways.

[Note: whom a host tries]
Up to MAX_PEERS others it tries all. Of more, half of MAX_PEERS are the next ones by name, which share its switch where
names follow the racks, and half lie evenly over all others: each host is tried by as many as it tries.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emberward.findings import Cause, Finding, Severity, host_down, observed
from emberward.supervise._agreement import NOTHING, Agreed

SILENT_S = 10.0
"""Ten posts that did not come."""
FRESH_S = 2.0
MAX_NAMED = 8
MAX_PEERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """This host among several: its name, its address on the job's link, and the mailbox (a folder or a URL).

    `agreed`: what the hosts agreed on for the attempt that it makes. Those left out may still post: the end of their
    part takes as long as it takes. `port`: where its agent listened last, and is to again.
    """

    host: str
    address: str
    mailbox: str
    agreed: Agreed = NOTHING
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePost:
    """What one host's agent last said.

    `reached`: by the other host's name, whether it was reached on the job's link at the last two tries; a host of
    which there is no news is left out. `is_still`: whether ranks here stand still. `is_between`: no attempt runs
    here, and it tries nobody. `silent_s`: seconds since the post was last renewed, by the reader's own clock.
    `fetch_s`: by the other host's name, seconds to fetch MAX_LOAD_BYTES from it. `lost`: by the other host's name,
    the share of the segments to it that had to be sent again.
    """

    host: str
    ranks: tuple[int, ...] = ()
    reached: Mapping[str, bool]
    is_still: bool = False
    is_between: bool = False
    silent_s: float = 0.0
    fetch_s: Mapping[str, float] = field(default_factory=dict)
    lost: Mapping[str, float] = field(default_factory=dict)


def speaker(posts: Sequence[NodePost]) -> str | None:
    """The host that tells people what all found: the first by name of those that post; None when none does.

    All judge alike and each writes down what it found; told to people it is once.
    """
    return min((post.host for post in posts if post.silent_s <= SILENT_S), default=None)


def judge_nodes(
    posts: Sequence[NodePost], *, known_cut: frozenset[str] = frozenset(), num_hosts: int = 0
) -> tuple[Finding, ...]:
    """What follows about hosts and the links between them; empty when all answer and reach each other.

    `known_cut`: hosts of links that were called cut before. Of a link is said that it is cut while both its hosts post:
    a host that has just ceased to may be down, which SILENT_S will tell. `num_hosts`: how many the job is known to
    have; one of which no post tells may be in the group of a host that seems to be alone.
    """
    down = {post.host for post in posts if post.silent_s > SILENT_S and _is_unreached(post.host, posts)}
    found = [_host_down(post, posts) for post in posts if post.host in down]
    up = {post.host: post for post in posts if post.silent_s <= SILENT_S and not post.is_between}
    fresh = {host for host, post in up.items() if post.silent_s <= FRESH_S} | known_cut
    bad = {
        frozenset((host, other))
        for host, post in up.items()
        if not all(post.reached.values())
        for other, is_reached in post.reached.items()
        if not is_reached and other in up
    }
    cut = {pair for pair in bad if pair <= fresh}
    if not cut:
        return tuple(found)
    core, *others = _groups(up, bad)
    for group in others if len(core) > 1 else []:
        if len(group) == 1 and not (len(posts) >= num_hosts and _is_alone(up[group[0]], core, posts, bad, down)):
            continue
        if len(group) > 1:
            found.append(_split([up[host] for host in group], [up[host] for host in core], list(up.values())))
        elif len([pair for pair in cut if group[0] in pair and not pair.isdisjoint(core)]) > 1:
            found.append(_host_cut(up[group[0]], [up[host] for host in core]))
        else:
            continue
        cut = {pair for pair in cut if pair.isdisjoint(group) or pair <= set(group)}
    found += [_link_cut(up[a], up[b], list(up.values())) for a, b in sorted(map(sorted, cut))[:MAX_NAMED]]
    return tuple(found)


def _is_alone(
    post: NodePost, core: Collection[str], posts: Sequence[NodePost], bad: Collection[frozenset[str]], down: set[str]
) -> bool:
    """Whether of every other host it is known that this one does not reach it, or that it is with the others.

    Else a host that is silent, or has tried nobody yet, may be with this one: two groups, and not a host that is cut.
    """
    with_core = {*core, *down}
    for other in posts:
        if other.host in core:
            with_core |= {host for host, is_reached in other.reached.items() if is_reached}
    return not any(post.reached.values()) and all(
        other.host in with_core or post.reached.get(other.host) is False or frozenset((post.host, other.host)) in bad
        for other in posts
        if other is not post
    )


def peers_of(host: str, hosts: Iterable[str]) -> tuple[str, ...]:
    """Whom `host` tries of all `hosts`. See [Note: whom a host tries]."""
    ring = sorted({host, *hosts})
    return peers_in(ring, ring.index(host))


def peers_in(ring: Sequence[str], here: int) -> tuple[str, ...]:
    """The same for the host at `here` of all hosts, sorted."""
    if len(ring) <= MAX_PEERS + 1:
        return (*ring[:here], *ring[here + 1 :])
    half = MAX_PEERS // 2
    steps = {*range(1, half + 1), *(half + number * (len(ring) - half) // (half + 1) for number in range(1, half + 1))}
    return tuple(ring[(here + step) % len(ring)] for step in sorted(steps))


def _groups(up: Mapping[str, NodePost], bad: Collection[frozenset[str]]) -> list[tuple[str, ...]]:
    """The hosts that reach each other, over others too; the largest group first, of equal ones the first by name."""
    group = {host: [host] for host in up}
    for host, post in up.items():
        for other, is_reached in post.reached.items():
            if not is_reached or other not in up or group[host] is group[other] or frozenset((host, other)) in bad:
                continue
            small, large = sorted((group[host], group[other]), key=len)
            large += small
            for member in small:
                group[member] = large
    unique = {id(members): tuple(sorted(members)) for members in group.values()}
    return sorted(unique.values(), key=lambda members: (-len(members), members))


def is_connected(host: str, posts: Sequence[NodePost]) -> bool:
    """Whether anybody who posts reaches the host on the job's link, or it anybody."""
    return any(
        any(post.reached.values()) if post.host == host else post.reached.get(host) is True
        for post in posts
        if post.silent_s <= SILENT_S
    )


def _is_unreached(host: str, posts: Sequence[NodePost]) -> bool:
    """Whether nobody who still posts reaches the host. One that has tried nobody yet may; who tries others may not
    try this one."""
    others = [post for post in posts if post.host != host and post.silent_s <= SILENT_S]
    return all(post.reached for post in others) and not any(post.reached.get(host) for post in others)


def _ranks(posts: Sequence[NodePost]) -> tuple[int, ...]:
    return tuple(sorted(rank for post in posts for rank in post.ranks))


def _names(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - MAX_NAMED} more" if len(hosts) > MAX_NAMED else ""
    return ", ".join(hosts[:MAX_NAMED]) + more


def _cut(message: str, concerned: Sequence[NodePost], hosts: Sequence[str], **others: Any) -> Finding:
    """L112 about these hosts; an error when ranks stand still meanwhile: a link that nobody needs now is a warning.

    `concerned`: the posts of those whose ranks need the link.
    """
    return observed(
        "L112",
        message,
        severity=Severity.ERROR if any(post.is_still for post in concerned) else Severity.WARNING,
        cause=Cause.LINK_DOWN,
        hosts=tuple(hosts),
        **{"waiting_ranks": _ranks(concerned), **others},
    )


def _host_cut(post: NodePost, others: Sequence[NodePost]) -> Finding:
    names = _names([other.host for other in others])
    return _cut(
        f"host {post.host} is cut off on the job's link: {names} reach each other and not {post.host}",
        [post, *others],
        (post.host,),
        culprit_ranks=post.ranks,
        waiting_ranks=_ranks(others),
        evidence=(f"{post.host} still posts over the other way",),
        ruled_out=(f"{names}: they reach each other",),
        next=f"check cable, port and driver of {post.host}; restart without it: srun --exclude={post.host}",
    )


def _split(group: Sequence[NodePost], core: Sequence[NodePost], up: Sequence[NodePost]) -> Finding:
    names, others = ([post.host for post in posts] for posts in (group, core))
    return _cut(
        f"hosts {_names(names)} reach each other on the job's link, and none of {_names(others)}",
        up,
        names,
        evidence=("all of them still post over the other way",),
        ruled_out=("each host's own link: each still reaches another host",),
        next=f"look at the switch between {names[0]} and {others[0]}",
    )


def _link_cut(a: NodePost, b: NodePost, up: Sequence[NodePost]) -> Finding:
    is_lone, pair = len(up) == 2, f"{a.host} and {b.host}"
    why = "which end is cut cannot be told from two hosts" if is_lone else "each still reaches another host"
    return _cut(
        f"hosts {pair} do not reach each other on the job's link; {why}",
        up,
        (a.host, b.host),
        evidence=(f"{pair} still post over the other way",),
        ruled_out=() if is_lone else (f"{pair} themselves: {why}",),
        next=f"from {pair} try a third host on that link; then the switch between them",
    )


def _host_down(post: NodePost, posts: Sequence[NodePost]) -> Finding:
    others = [other for other in posts if other is not post and other.silent_s <= SILENT_S]
    return host_down(
        post.host,
        f"is silent for {post.silent_s:.0f} s, and nobody reaches it on the job's link",
        severity=Severity.ERROR if others else Severity.WARNING,
        ranks=post.ranks,
        waiting_ranks=_ranks(others),
        ruled_out=(f"{_names([other.host for other in others])}: they post",) if others else (),
        next=f"look at the console of {post.host}; restart without it: srun --exclude={post.host}",
    )
