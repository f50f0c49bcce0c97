"""Which hosts make the next attempt of a job: one register, which counts once most of the hosts hold it. Pure.

[Note: agreement]
Roles. Each host *wishes* another attempt once its own has failed, and says whom it would leave out and for which
finding. A host that hears all posts *proposes* an attempt once a quorum wishes it. The mailbox holds the *register*:
of two proposals with one number it takes the first. Hosts that hear of the entry *hold* it and say so; once a quorum
does, it *counts*, and only then does a host begin that attempt, if it is not left out. So:

- of one attempt all hosts have one team: there is one entry;
- a minority begins nothing and leaves nobody out, whatever it sees: it cannot wish for the others; nor does an entry
  leave out so many that those who stay are none;
- a host that hears nothing begins nothing. What it still runs was begun with all of its team, and makes no step without
  those that went on; a silent collector alone ends no attempt;
- a host that hears late takes the newest entry.

A quorum is more than half of the hosts, or half with the first by name: any two have a host in common. A collector
that begins anew has a later session, and takes no proposal before a quorum has written to it: one of them holds what
counted before, and the newest such entry is entered again. It is the single-decree protocol of Lamport 2001 ("Paxos
Made Simple") with the mailbox as its proposer, one instance for each attempt. A shared folder forgets nothing: there
an entry is a file that can be made once. It assumes that a restarted collector's clock is not behind its last start.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from emberward.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """How many hosts a job has, and the first by name."""

    num_hosts: int = 0
    first: str = ""

    def is_quorum(self, hosts: Collection[str]) -> bool:
        """Whether these are enough to act for all. See [Note: agreement]."""
        return 2 * len(hosts) + (self.first in hosts) > self.num_hosts > 0

    def is_quorum_without(self, hosts: Collection[str]) -> bool:
        """Whether all others are enough."""
        return 2 * (self.num_hosts - len(hosts)) + (self.first not in hosts) > self.num_hosts


NOBODY = Crew()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """An entry of the register. Number 0: nothing was agreed yet.

    `out`: by host, the finding for which it is left out from this attempt on. `crew`: the hosts before that, of which
    a quorum has to hold it. `session`: the start of the collector that entered it last.
    """

    number: int = 0
    session: str = ""
    out: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    crew: Crew = NOBODY

    @property
    def key(self) -> tuple[int, str]:
        """Of two entries the one with the larger key holds."""
        return self.number, self.session

    @property
    def findings(self) -> tuple[Finding, ...]:
        """For what hosts are left out."""
        return tuple(Finding.from_json(dict(said)) for said in self.out.values())

    def to_json(self) -> dict[str, Any]:
        """As it stands in posts."""
        crew = [self.crew.num_hosts, self.crew.first]
        return {"number": self.number, "session": self.session, "out": dict(self.out), "crew": crew}

    @classmethod
    def from_json(cls, said: Any) -> "Agreed | None":
        """The entry; None for what is none."""
        try:
            num_hosts, first = said["crew"]
            return cls(
                number=int(said["number"]),
                session=str(said["session"]),
                out=dict(said["out"]),
                crew=Crew(num_hosts=int(num_hosts), first=str(first)),
            )
        except (KeyError, TypeError, ValueError):
            return None


NOTHING = Agreed()


class Register:
    """The mailbox's part. See [Note: agreement]."""

    def __init__(self, session: str) -> None:
        """`session`: this start of the collector; later ones sort behind earlier ones."""
        self._session = session
        self._entry = Agreed(session=session)
        self._heard: set[str] = set()
        self._holders: set[str] = set()
        self._crew = Crew()
        self._is_ready = False
        self._said: dict[str, tuple[object, Agreed | None]] = {}
        """host -> what it said last, as data and as read."""

    def take(self, host: str, said: object, proposed: object) -> None:
        """`said` and `proposed`: what that host holds, and what its letter proposes, as plain data."""
        if host not in self._said or self._said[host][0] is not said:
            self._said[host] = said, Agreed.from_json(said)
        held = self._said[host][1]
        proposal = None if proposed is None else Agreed.from_json(proposed)
        if held is not None and held.number > self._entry.number:
            self._enter(held)
        if not self._is_ready:
            self._heard.add(host)
            if held is not None and held.crew.num_hosts > self._crew.num_hosts:
                self._crew = held.crew
            self._is_ready = self._crew.is_quorum(self._heard)
        if self._is_ready and proposal is not None and proposal.number == self._entry.number + 1:
            self._enter(proposal)
        if held is not None and held.key == self._entry.key:
            self._holders.add(host)

    def _enter(self, entry: Agreed) -> None:
        self._entry = replace(entry, session=self._session)
        self._holders = set()

    def said(self) -> tuple[Agreed, bool] | None:
        """The entry and whether it counts; None before there is one."""
        if self._entry.number == 0 or not self._is_ready:
            return None
        return self._entry, self._entry.crew.is_quorum(self._holders)


class Seat:
    """A host's part. See [Note: agreement]."""

    def __init__(self, host: str, agreed: Agreed) -> None:
        """`agreed`: what this host began its attempt with."""
        self._host = host
        self._began = agreed.number
        self.agreed = agreed
        self.counts = False
        self._wish: Mapping[str, Any] | None = None
        self.proposal: Agreed | None = None
        self.is_hopeless = False
        """Whether so many hosts have ended their part that the others are no quorum."""
        self._said: tuple[Agreed, dict[str, Any]] = agreed, agreed.to_json()

    @property
    def next(self) -> Agreed | None:
        """The attempt that this host is to begin, if it takes part in it; None while there is none."""
        return self.agreed if self.counts and self.agreed.number > self._began else None

    def wish(self, findings: Mapping[str, Finding]) -> None:
        """Asks for another attempt, without these hosts."""
        out = {host: dict(short(finding)) for host, finding in findings.items()}
        self._wish = {"number": self._began + 1, "out": out}

    def post(self) -> dict[str, Any]:
        """This host's part of its post."""
        if self._said[0] is not self.agreed:
            self._said = self.agreed, self.agreed.to_json()
        return {"agreed": self._said[1], "wish": self._wish}

    def hear(
        self, entry: tuple[Agreed, bool] | None, posts: Mapping[str, Mapping[str, Any]], *, hears_all: bool
    ) -> None:
        """What the mailbox and the other hosts say. `posts`: of hosts that were seen to renew theirs."""
        if entry is not None and entry[0].key > self.agreed.key:
            self._adopt(entry[0])
        self.counts = entry is not None and entry[1] and entry[0].key == self.agreed.key
        crew = self.agreed.crew
        if hears_all:
            known = {self._host, *posts} - self.agreed.out.keys()
            first = min((known | {crew.first}) - self.agreed.out.keys() - {""}, default="")
            crew = Crew(num_hosts=max(crew.num_hosts, len(known)), first=first)
        else:
            crew = max([crew, *map(_crew_of, posts.values())], key=lambda each: each.num_hosts)
        if crew != self.agreed.crew:
            self.agreed = replace(self.agreed, crew=crew)
        self.proposal = self._proposal(posts) if hears_all else None
        done = {host for host, post in posts.items() if post.get("is_done") is True} - self.agreed.out.keys()
        self.is_hopeless = hears_all and not crew.is_quorum_without(done)

    def _adopt(self, entry: Agreed) -> None:
        num_hosts = entry.crew.num_hosts - len(entry.out.keys() - self.agreed.out.keys())
        self.agreed = replace(entry, crew=replace(entry.crew, num_hosts=num_hosts))

    def _proposal(self, posts: Mapping[str, Mapping[str, Any]]) -> Agreed | None:
        number = self.agreed.number + 1
        said = {host: post.get("wish") for host, post in posts.items() if host not in self.agreed.out}
        wishes = {h: w for h, w in said.items() if isinstance(w, Mapping) and w.get("number") == number}
        if not self.agreed.crew.is_quorum(wishes):
            return None
        out = dict(self.agreed.out)
        for wish in wishes.values():
            out |= wish["out"]
        if not self.agreed.crew.is_quorum_without(out.keys() - self.agreed.out.keys()):
            out = dict(self.agreed.out)  # Findings that take most of the hosts contradict each other.
        return replace(self.agreed, number=number, out=out)


def _crew_of(post: Mapping[str, Any]) -> Crew:
    entry = post.get("agreed")
    num_hosts, first = entry["crew"] if isinstance(entry, Mapping) else (0, "")
    return Crew(num_hosts=num_hosts, first=first)


def short(finding: Finding) -> Mapping[str, Any]:
    """The finding as data without the ranks that wait, which may be all of a large job."""
    return replace(finding, waiting_ranks=()).to_json()
