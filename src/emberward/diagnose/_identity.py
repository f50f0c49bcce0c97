"""Which process is which rank, by all that is told of both.

[Note: identity]
Stacks as ``pgrep`` and ``xargs`` give them carry no rank, and a recorder's dump no pid. Before anything is concluded,
processes and ranks are brought together in one assignment, by what fits best:

* a thread handle that both hold is proof;
* an open call and a stack that waits fit by the line of the call and by the lines around it;
* a rank without an open call fits a process that waits in no collective;
* a launcher starts its ranks in their order, so that their pids ascend on each host: this order is taken where nothing
  contradicts it, which is to say where no other assignment fits better.

Processes that are alike, and ranks that are alike, are exchanged without any effect on a verdict. Where processes
differ and nothing tells them apart, none of them gets a rank: it stays a set.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from emberward.events import WAITING, HostState, Observation
from emberward.findings import Certainty

_OWN_STATES = frozenset(HostState) - WAITING - {HostState.UNKNOWN, HostState.STORE_WAIT}
"""States in which a process is in no call between ranks."""
_SAME_THREAD = 1000.0
_SAME_LINE = 4.0
_SAME_OPERATION = 1.0
_CONTRARY = -4.0
MAX_HOSTS = 4
"""Most hosts whose orders are all tried; of more, the order of their names is taken."""

_OPERATIONS = (
    "reducescatter", "alltoall", "allgather", "allreduce", "broadcast", "barrier", "gather", "scatter", "reduce",
    "send", "recv",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The rank of one process. `candidates`: the ranks that it may be; `rank` is None where nothing chooses among them.

    `certainty`: OBSERVED when it is told or a thread handle proves it, INFERRED when lines and pids do.
    """

    rank: int | None
    candidates: frozenset[int]
    certainty: Certainty


_Kind = tuple[HostState | None, bool, str | None, tuple[str, ...], str | None, frozenset[str]]


def _kind(seen: Observation) -> _Kind:
    return (seen.state, seen.has_calls, seen.operation, seen.places, seen.host, seen.threads)


def operation_word(name: str | None) -> str | None:
    """The common word for an operation of torch's functions and recorders: ``_allgather_base`` is ``allgather``."""
    plain = "" if name is None else name.replace("_", "").lower()
    return next((word for word in _OPERATIONS if word in plain), None)


def fit(process: Observation, rank: Observation | None) -> float:
    """How well a process fits what is known of a rank; 0 where nothing is."""
    if rank is None:
        return 0.0
    if process.threads & rank.threads:
        return _SAME_THREAD
    if (process.threads and rank.threads) or (process.host and rank.host and process.host != rank.host):
        return -_SAME_THREAD
    if not rank.has_calls:
        return 0.0
    ours, theirs = operation_word(process.operation), operation_word(rank.operation)
    if rank.operation is None:
        return _CONTRARY if process.state is HostState.COLLECTIVE else _SAME_OPERATION
    score = 0.0
    if ours is not None and theirs is not None:
        score += _SAME_OPERATION if ours == theirs else _CONTRARY
    elif process.state in _OWN_STATES:
        score += _CONTRARY / 2
    if process.places and rank.places:
        score += _SAME_LINE * (process.places[0] == rank.places[0]) + _in_common(process.places, rank.places)
    return score


def _in_common(left: tuple[str, ...], right: tuple[str, ...]) -> float:
    """The share of lines, from the outermost on, that two stacks have in common, in [0, 1]."""
    length = 0
    for a, b in zip(reversed(left), reversed(right), strict=False):
        if a != b:
            break
        length += 1
    return length / max(len(left), len(right))


def identify(processes: Sequence[Observation], ranks: Mapping[int, Observation | None]) -> list[Identity]:
    """The identity of each process, in their order. `ranks`: what is known of each rank of the job, or None.

    A process that tells its rank keeps it. Cost: kinds of processes times kinds of ranks, both few in a job that hangs.
    See [Note: identity].
    """
    told = {seen.rank for seen in processes if seen.rank is not None}
    free = [index for index, seen in enumerate(processes) if seen.rank is None]
    open_ranks = [rank for rank in sorted(ranks) if rank not in told]
    found = [
        Identity(rank=None, candidates=frozenset(), certainty=Certainty.UNKNOWN)
        if seen.rank is None
        else Identity(rank=seen.rank, candidates=frozenset({seen.rank}), certainty=Certainty.OBSERVED)
        for seen in processes
    ]
    if not free or not any(ranks[rank] is not None for rank in open_ranks):
        return found
    fits = _Fits([processes[index] for index in free], {rank: ranks[rank] for rank in open_ranks})
    best = fits.best()
    ordered = fits.by_order()
    is_ordered = ordered is not None and fits.total(ordered) >= fits.total(best)
    chosen = ordered if ordered is not None and is_ordered else best
    for place, rank in chosen.items():
        if fits.of(place, rank) >= _SAME_THREAD:
            certainty = Certainty.OBSERVED
        elif is_ordered or fits.is_settled(place, chosen):
            certainty = Certainty.INFERRED
        else:
            certainty = Certainty.UNKNOWN
        found[free[place]] = Identity(
            rank=None if certainty is Certainty.UNKNOWN else rank,
            candidates=fits.candidates(place, chosen),
            certainty=certainty,
        )
    return found


class _Fits:
    """How all processes fit all ranks, kind by kind."""

    def __init__(self, processes: Sequence[Observation], ranks: Mapping[int, Observation | None]) -> None:
        self.processes, self.ranks = processes, ranks
        self.kinds: dict[_Kind, list[int]] = defaultdict(list)
        self.roles: dict[_Kind | None, list[int]] = defaultdict(list)
        for place, seen in enumerate(processes):
            self.kinds[_kind(seen)].append(place)
        for rank, known in ranks.items():
            self.roles[None if known is None else _kind(known)].append(rank)
        self._role_of = {rank: role for role, members in self.roles.items() for rank in members}
        self._fit: dict[tuple[_Kind, _Kind | None], float] = {
            (kind, role): fit(processes[places[0]], ranks[members[0]])
            for kind, places in self.kinds.items()
            for role, members in self.roles.items()
        }

    def of(self, place: int, rank: int) -> float:
        return self._fit[_kind(self.processes[place]), self._role_of[rank]]

    def total(self, chosen: Mapping[int, int]) -> float:
        return sum(self.of(place, rank) for place, rank in chosen.items())

    def best(self) -> dict[int, int]:
        """An assignment that takes the best pair of kinds first; pairs that contradict each other are left out."""
        places = {kind: sorted(found, key=self._key) for kind, found in self.kinds.items()}
        ranks = {role: sorted(found) for role, found in self.roles.items()}
        chosen: dict[int, int] = {}
        # Of pairs that fit alike, the kinds with fewer members first: the odd ones meet before the crowds.
        pairs = sorted(self._fit.items(), key=lambda item: (-item[1], len(places[item[0][0]]), len(ranks[item[0][1]])))
        for (kind, role), score in pairs:
            while score > _CONTRARY / 2 and places[kind] and ranks[role]:
                chosen[places[kind].pop(0)] = ranks[role].pop(0)
        return chosen

    def _key(self, place: int) -> tuple[str, int]:
        seen = self.processes[place]
        return (seen.host or "", -1 if seen.pid is None else seen.pid)

    def by_order(self) -> dict[int, int] | None:
        """The assignment by ascending pids, host by host; None when some process has no pid, or the numbers differ."""
        if len(self.processes) != len(self.ranks) or any(seen.pid is None for seen in self.processes):
            return None
        hosts: dict[str, list[int]] = defaultdict(list)
        for place in sorted(range(len(self.processes)), key=self._key):
            hosts[self._key(place)[0]].append(place)
        orders = permutations(hosts) if len(hosts) <= MAX_HOSTS else iter([tuple(hosts)])
        ranks = sorted(self.ranks)
        found = [dict(zip((place for host in order for place in hosts[host]), ranks, strict=True)) for order in orders]
        return max(found, key=self.total)

    def candidates(self, place: int, chosen: Mapping[int, int]) -> frozenset[int]:
        """The ranks with which the process fits as well as with its own, and which no certain pair has taken."""
        own = self.of(place, chosen[place])
        return frozenset(
            other
            for role, members in self.roles.items()
            if self._fit[_kind(self.processes[place]), role] >= own
            for other in members
        )

    def is_settled(self, place: int, chosen: Mapping[int, int]) -> bool:
        """Whether its role was taken by processes of its kind alone: then it does not matter which is which."""
        kind, role = _kind(self.processes[place]), self._role_of[chosen[place]]
        partners = {_kind(self.processes[other]) for other, rank in chosen.items() if self._role_of[rank] == role}
        num = sum(self._role_of[rank] == role for rank in chosen.values())
        return partners == {kind} and (num == len(self.roles[role]) or len(self.kinds[kind]) == 1 == num)
