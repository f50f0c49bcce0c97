"""One host's part among several: posts what it sees, judges what all have posted, agrees on the next attempt."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from emberward.diagnose.live import Snapshot, join_snapshots
from emberward.findings import Finding
from emberward.sources.live import WatchReport, judge_with_progress
from emberward.supervise._agreement import Agreed, Seat, short
from emberward.supervise._mailbox import Heard, Mailbox, Posts, open_mailbox
from emberward.supervise._nodes import SILENT_S, Node, NodePost, is_connected, judge_nodes, peers_of, speaker
from emberward.supervise._post_office import PLACE
from emberward.supervise._probe import Links, PeerAddress, ProbedLinks
from emberward.supervise._slow_hosts import HostsAlike, maybe_slow
from emberward.supervise._slow_links import LinkWatch, links_beside

SNAPSHOT_EVERY_S = 3.0
MANY_HOSTS = 64
NOTHING_NEW = WatchReport()
OWN_CODES = frozenset({"H140", "H141", "H142", "P104"})
"""What each host alone can tell of its own ranks, beside what all tell together."""


class NodeAgent:
    """Exchanges posts. `step` it about once a second; it may block as long as the mailbox does."""

    def __init__(
        self,
        node: Node,
        *,
        mailbox: Mailbox | None = None,
        links: Links | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without them: the mailbox that `node` names, and tries of the real links. `clock`: monotonic seconds."""
        self._node = node
        self._mailbox = open_mailbox(node.mailbox) if mailbox is None else mailbox
        self._links = ProbedLinks(node.address, node.port) if links is None else links
        self._clock = clock
        self._number = 0
        self._snapshot: Snapshot | None = None
        self._early: Snapshot | None = None
        self._joined_s = 0.0
        self._held: dict[tuple[Any, ...], Finding] = {}
        self._alone: dict[str, Finding] = {}
        """Hosts that were named alone, cut off, and that nobody has reached since."""
        self.problem: str | None = None
        self.is_speaker = True
        """Whether this host tells people what all hosts found: one of them does."""
        self._alike = HostsAlike()
        self._slow_links = LinkWatch()
        self._facts: Mapping[str, str] | None = None
        self._was_read: dict[str, tuple[Mapping[str, Any], NodePost]] = {}
        self._joint: tuple[str, ...] = ()
        self._progress: Mapping[int, str] = {}
        self._seat = Seat(node.host, node.agreed)
        self._left_out = frozenset(node.agreed.out)
        self._verdicts: list[Mapping[str, Any]] = []
        """What this host found, for those that hear only judges."""
        self._taken: tuple[object, tuple[Finding, ...]] = (None, ())

    @property
    def agreed(self) -> Agreed:
        """What this host knows of the register; see `_agreement.py`."""
        return self._seat.agreed

    @property
    def next(self) -> Agreed | None:
        """The attempt that the hosts agreed on after the one that this host makes; None while there is none."""
        return self._seat.next

    @property
    def port(self) -> int | None:
        """Where other hosts try to reach this one."""
        return self._links.port

    @property
    def is_hopeless(self) -> bool:
        """Whether no other attempt can be agreed on: too many hosts have ended their part."""
        return self._seat.is_hopeless

    def parley(self, findings: Mapping[str, Finding] | None = None) -> Agreed | None:
        """What the hosts agreed on, once they have: call it about once a second between two attempts.

        `findings`: the hosts to be left out of the next, and why; None where no other attempt is wished.
        """
        if findings is not None:
            self._seat.wish(findings)
        self._number += 1
        try:
            self._exchange({**self._post(NOTHING_NEW, ()), "is_between": True})
            self.problem = None
        except OSError as error:
            self.problem = f"{type(error).__name__}: {error}"
        return self._seat.next

    def _exchange(self, post: Mapping[str, Any]) -> Heard:
        """What is heard of those that take part."""
        heard = self._mailbox.exchange(self._node.host, {**post, **self._seat.post()}, self._seat.proposal)
        places = {host: place for host, post in heard.posts.items() if (place := self._place(host, post))}
        for host in self._left_out:
            places.pop(host, None)
        self._links.know({host: places[host] for host in peers_of(self._node.host, places)})
        here = {host: p for host, p in heard.posts.items() if host in heard.silent_s or p.get("has_left") is True}
        self._seat.hear(heard.agreed, here, hears_all=self._hears_all(heard))
        return heard.without(self._left_out)

    def _hears_all(self, heard: Heard) -> bool:
        return heard.judges is None or self._node.host in heard.judges

    def step(
        self,
        report: WatchReport,
        *,
        ranks: Sequence[int],
        facts: Mapping[str, str] | None = None,
        steps: Sequence[Mapping[str, Any]] = (),
    ) -> WatchReport:
        """What is new of all hosts together, in place of what this host alone could tell.

        `ranks`, `facts`, `steps`: this host's, as `Watcher` tells them.
        """
        self._number += 1
        if report.snapshot is not None:
            self._snapshot = report.snapshot
        if not report.is_still:
            self._snapshot = None
        try:
            self._facts = facts or self._facts
            heard = self._exchange({**self._post(report, ranks), "steps": list(steps), "facts": self._facts})
        except OSError as error:
            self.problem = f"{type(error).__name__}: {error}"
            self.is_speaker, self._joint = True, ()
            return report
        self.problem = None
        posts = heard.posts
        if not self._hears_all(heard):
            self.is_speaker, self._verdicts = False, []
            return self._news(self._as_judged(heard), report)
        read = self._read(heard)
        self.is_speaker = self._node.host == speaker(read)
        known_cut = frozenset(host for f in self._held.values() if f.code == "L112" for host in f.hosts)
        left = frozenset(host for host, post in posts.items() if post.get("has_left") is True)
        self._alone = {host: f for host, f in self._alone.items() if not is_connected(host, read)}
        num_done = sum(post.get("is_done") is True for post in posts.values())
        num_hosts = self._seat.agreed.crew.num_hosts - num_done
        found = self._standing(
            judge_nodes(read, known_cut=known_cut, num_hosts=num_hosts), left if report.is_still else frozenset()
        ) or (
            *(self._compared(posts, read) if self.is_speaker or len(read) <= MANY_HOSTS else ()),
            *self._judge_together(posts),
        )
        self._verdicts = [short(finding) for finding in found]
        return self._news(found, report)

    def _as_judged(self, heard: Heard) -> tuple[Finding, ...]:
        """What the first judge that is heard of found. What has not changed is not read again."""
        for host in heard.judges or ():
            post = heard.posts.get(host, {})
            said = None if post.get("is_between") is True else post.get("verdicts")
            if isinstance(said, list) and heard.silent_s.get(host, SILENT_S) < SILENT_S:
                if self._taken[0] is not said:
                    self._taken = (said, tuple(findings_of(said)))
                return self._taken[1]
        return ()

    def _compared(self, posts: Posts, read: Sequence[NodePost]) -> tuple[Finding, ...]:
        """What is slow or differs beside the others: no job is ended for it, so that of many hosts one asks."""
        now_s = self._clock()
        hosts = self._alike.poll(posts, now_s=now_s)
        links = self._slow_links.poll(read, now_s=now_s)
        return (*(links_beside(hosts, links, maybe=maybe_slow(posts)) if links else ()), *hosts)

    @property
    def told_elsewhere(self) -> tuple[str, ...]:
        """The codes of what the last `step` gave that another host tells people."""
        return () if self.is_speaker else self._joint

    def leave(self, *, is_done: bool = False) -> None:
        """Says that this host has ended its part, with `is_done` in all attempts to come: it is not missed."""
        self._number += 1
        with contextlib.suppress(OSError):
            post = {"number": self._number, "has_left": True, "is_done": is_done, **self._seat.post()}
            self._mailbox.exchange(self._node.host, post)

    def _post(self, report: WatchReport, ranks: Sequence[int]) -> dict[str, Any]:
        return {
            "number": self._number,
            "address": self._node.address,
            "port": self._links.port,
            "listener": self._links.listener,
            "ranks": sorted(ranks),
            "tried": self._links.tried(),
            "fetch_s": self._links.fetch_s(),
            "lost": self._links.lost(),
            "is_still": report.is_still,
            "snapshot": None if self._snapshot is None else self._snapshot.to_json(),
            "verdicts": self._verdicts,
        }

    def _place(self, host: str, post: Mapping[str, Any]) -> PeerAddress | None:
        address, port, listener = (post.get(name) for name in PLACE)
        if host == self._node.host or not isinstance(address, str) or not isinstance(port, int):
            return None
        return PeerAddress(address, port, str(listener))

    def _read(self, heard: Heard) -> list[NodePost]:
        """The posts of those that renew them. One that has not changed is not read again."""
        read = []
        for host, silent_s in heard.silent_s.items():
            post = heard.posts[host]
            before, known = self._was_read.get(host, (None, None))
            if known is None or before is not post:
                known = _node_post(host, post)
            self._was_read[host] = (post, known)
            if not all(known.reached.values()):
                known = replace(known, reached=_counts(post, heard.posts))
            if known.silent_s != silent_s:
                known = replace(known, silent_s=silent_s)
            read.append(known)
        return read

    def _judge_together(self, posts: Posts) -> tuple[Finding, ...]:
        """The verdict of all hosts' snapshots joined, when every host that posts stands still."""
        snapshots = []
        for post in posts.values():
            if post.get("has_left") is True:
                continue
            try:
                snapshots.append(Snapshot.from_json(post["snapshot"]))
            except (KeyError, TypeError, ValueError):
                return ()
        now_s = self._clock()
        if now_s - self._joined_s < SNAPSHOT_EVERY_S:
            return tuple(self._held.values())
        self._joined_s = now_s
        joined = join_snapshots(snapshots)
        found, self._progress = judge_with_progress(self._early, joined)
        self._early = joined
        return found

    def _standing(self, found: Sequence[Finding], left: frozenset[str]) -> tuple[Finding, ...]:
        """A host that was named alone stays named while a link of it is cut: who showed it may have ended by now.

        `left`: hosts that have ended their part while the ranks here still wait; one that was named stays so too.
        """
        out: dict[tuple[Any, ...], Finding] = {(f.code, f.hosts): f for host, f in self._alone.items() if host in left}
        for finding in found:
            named = [host for host in finding.hosts if host in self._alone]
            is_of_one = finding.code == "L112" and len(finding.hosts) == 2 and len(named) == 1
            kept = self._alone[named[0]] if is_of_one else finding
            out.setdefault((kept.code, kept.hosts), kept)
        self._alone |= {f.hosts[0]: f for f in out.values() if f.code == "L112" and len(f.hosts) == 1}
        return tuple(out.values())

    def _news(self, found: tuple[Finding, ...], report: WatchReport) -> WatchReport:
        """What was not said yet, and what holds no more."""
        held = {(f.code, f.cause, f.culprit_ranks, f.hosts, f.severity): f for f in found}
        new = [finding for key, finding in held.items() if key not in self._held]
        self._joint = tuple(finding.code for finding in new)
        gone = [finding for key, finding in self._held.items() if key not in held]
        self._held = held
        new += [finding for finding in report.findings if self._is_own(finding)]
        gone += [finding for finding in report.resolved if self._is_own(finding)]
        return replace(
            report, findings=tuple(new), resolved=tuple(gone), progress={**self._progress, **report.progress}
        )

    def _is_own(self, finding: Finding) -> bool:
        """Whether this host tells it: of slower steps for which none of its ranks is waited for one host is enough."""
        is_shared = finding.code == "P104" and not finding.culprit_ranks
        return finding.code in OWN_CODES and (self.is_speaker or not is_shared)


def findings_of(said: object) -> list[Finding]:
    """The findings in a list of such; what is none is left out."""
    found = []
    for each in said if isinstance(said, list) else ():
        try:
            found.append(Finding.from_json(each))
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _numbers(said: object) -> dict[str, float]:
    """The numbers of a post's part, by host; what is none is left out."""
    if not isinstance(said, Mapping):
        return {}
    return {str(host): float(value) for host, value in said.items() if isinstance(value, int | float)}


def _counts(post: Mapping[str, Any], posts: Posts) -> dict[str, bool]:
    """Whom a host reached or not. In vain counts while the listener is there that was tried: see `Links.listener`."""
    return {
        name: good is True
        for name, (listener, good) in post["tried"].items()
        if good is True or posts.get(name, {}).get("listener") == listener
    }


def _node_post(host: str, post: Mapping[str, Any]) -> NodePost:
    return NodePost(
        host=host,
        ranks=tuple(rank for rank in post.get("ranks") or () if isinstance(rank, int)),
        reached={name: good is True for name, (_, good) in (post.get("tried") or {}).items()},
        is_still=post.get("is_still") is True,
        is_between=post.get("is_between") is True,
        fetch_s=_numbers(post.get("fetch_s")),
        lost=_numbers(post.get("lost")),
    )
