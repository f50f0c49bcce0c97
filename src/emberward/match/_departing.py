"""Names the ranks whose transfers depart from what the others do, where sends and receives do not pair up.

[Note: whose transfers depart]
The two ends of a channel are no majority; all transfers together often are one. Counts are those of all tags between
two ranks. In this order: (1) a rank that alone has a part in everything that does not pair up departs; (2) in a chain,
as pipelines are, both ends see the data by themselves, so where they agree the ranks between them that make another
number of transfers depart; (3) of the two ends, the one departs whose count none of their other transfers has, when the
other's is there; (4) where all ranks have as many neighbours, as in a ring, those depart that do not do what most do.
Where none of these tells, nobody is named.

Where it is known what the ranks executed, that is asked first: two ranks' programs are aligned, and where they part so
that their transfers with each other differ, (1) a rank that parts from all others departs, (2) else the one that goes
another way than each time before, or leaves a loop in which the other goes on.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from emberward.events import Recv, Send
from emberward.match._divergence import Alignment, Divergence, Token, first_unbalanced, leaving_side
from emberward.match._flow import Executed
from emberward.match._table import Table

Ends = tuple[int, int]
"""(source, destination)."""
Counts = Mapping[Ends, tuple[int, int]]
"""(sends, receives) between two ranks, over all groups and tags."""


@dataclass(frozen=True, slots=True)
class PartedTransfers:
    """Two ranks whose programs part so that their transfers differ. `events`: the first that one side makes alone.

    `culprits` depart, at `site` and by `why`; empty where that is not known.
    """

    ranks: tuple[int, ...]
    events: tuple[int, ...]
    culprits: tuple[int, ...]
    site: str
    why: str


def parted_transfers(table: Table, flows: Mapping[int, Executed], wrong: Sequence[Ends]) -> Iterator[PartedTransfers]:
    """Yields, for each set of connected ranks with `wrong` ends, where the first pair of them parts, if one does.

    Nothing where that names nobody and the numbers of transfers do: see `departing_ranks`.
    """
    totals = _totals(table)
    for ranks in _connected(totals):
        if not any(ends[0] in ranks for ends in wrong):
            continue
        pairs = sorted({(min(ends), max(ends)) for ends in totals if ends[0] in ranks and ends[0] != ends[1]})
        parted = {pair: each for pair in pairs if (each := _first_parting(table, flows, pair)) is not None}
        if not parted:
            continue
        pair, (found, tokens) = next(iter(parted.items()))
        site, why = str(found.decision), f"the ranks go different ways at {found.decision}"
        common = set.intersection(*map(set, parted))
        leaving = leaving_side(found, pair, tokens)
        if len(parted) > 1 and len(common) == 1:
            culprits = tuple(common)
        elif leaving is not None:
            culprits, site, why = (pair[leaving.side],), leaving.site, leaving.why
        elif _by_counts(totals, ranks):
            continue
        else:
            culprits = ()
        starts = [table.node_events[_node(table, rank)].start for rank in pair]
        events = tuple(starts[side] + found.calls[side][0] for side in (0, 1) if found.calls[side])
        yield PartedTransfers(tuple(sorted(ranks)), events, culprits, site, why)


def _first_parting(
    table: Table, flows: Mapping[int, Executed], pair: tuple[int, int]
) -> tuple[Divergence, tuple[Token, Token]] | None:
    """Where the transfers of two ranks with each other begin to differ, before the program stopped."""
    if any(rank not in flows for rank in pair):
        return None
    tokens = (_transfers(table, pair[0], pair[1]).get, _transfers(table, pair[1], pair[0]).get)
    alignment = Alignment(*tokens, is_ordered=False)
    alignment.frames(flows[pair[0]].program, flows[pair[1]].program)
    real = [
        each
        for each in alignment.found
        if any(calls and calls[0] < flows[rank].num_real for calls, rank in zip(each.calls, pair, strict=True))
    ]
    found = first_unbalanced(real, max((max(each.before) for each in real), default=0))
    return None if found is None else (found, tokens)


def _transfers(table: Table, rank: int, peer: int) -> dict[int, Hashable]:
    """For each transfer of `rank` with `peer`, by its place in the rank's events, what both ends of it share."""
    span = table.node_events[_node(table, rank)]
    found: dict[int, Hashable] = {}
    for n, event in enumerate(table.events[span.start : span.stop]):
        body = event.body
        if isinstance(body, Send | Recv) and body.peer == peer:
            found[n] = ((rank, peer) if isinstance(body, Send) else (peer, rank), body.tag)
    return found


def _node(table: Table, rank: int) -> int:
    node = table.linker.node_of(rank)
    assert node is not None, "a rank whose statements are known was observed"
    return node


def _totals(table: Table) -> dict[Ends, tuple[int, int]]:
    totals: dict[Ends, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for channel in table.channels:
        ends = (channel.source, channel.destination)
        sends, recvs = totals[ends]
        totals[ends] = (sends + len(channel.sends), recvs + len(channel.recvs))
    return totals


def _by_counts(totals: Counts, ranks: set[int]) -> set[int]:
    """Who departs among connected ranks, by how many transfers each makes. See [Note: whose transfers depart]."""
    counts = {ends: pair for ends, pair in totals.items() if ends[0] in ranks}
    wrong = [ends for ends, (sends, recvs) in counts.items() if sends != recvs]
    if not wrong:
        return set()
    return _only_common(wrong) or _inside_chain(counts) or _odd_ends(counts, wrong) or _minority(counts)


def departing_ranks(table: Table) -> dict[int, tuple[int, ...]]:
    """For each rank with transfers that do not pair up, the ranks among those it is connected with that depart."""
    if not table.is_plain:
        return {}
    totals = _totals(table)
    found: dict[int, tuple[int, ...]] = {}
    for ranks in _connected(totals):
        is_wrong = any(sends != recvs for ends, (sends, recvs) in totals.items() if ends[0] in ranks)
        if is_wrong and all(table.linker.node_of(rank) is not None for rank in ranks):
            found |= dict.fromkeys(ranks, tuple(sorted(_by_counts(totals, ranks))))
    return found


def _connected(ends: Mapping[Ends, object]) -> list[set[int]]:
    """The ranks in sets that are connected by transfers."""
    sets: dict[int, set[int]] = {}
    for left, right in ends:
        joined = sets.get(left, {left}) | sets.get(right, {right})
        sets |= dict.fromkeys(joined, joined)
    return list({id(ranks): ranks for ranks in sets.values()}.values())


def _only_common(wrong: Sequence[Ends]) -> set[int]:
    common = set.intersection(*map(set, wrong))
    return common if len(common) == 1 and len(set().union(*wrong)) > 2 else set()


def _own(counts: Counts) -> dict[int, set[int]]:
    """For each rank the different numbers of transfers that it makes itself, by peer and direction."""
    own: dict[int, set[int]] = defaultdict(set)
    for (source, destination), (sends, recvs) in counts.items():
        own[source].add(sends)
        own[destination].add(recvs)
    return own


def _neighbours(counts: Counts) -> dict[int, set[int]]:
    peers: dict[int, set[int]] = defaultdict(set)
    for source, destination in counts:
        peers[source].add(destination)
        peers[destination].add(source)
    return peers


def _inside_chain(counts: Counts) -> set[int]:
    peers, own = _neighbours(counts), _own(counts)
    ends = [rank for rank, found in peers.items() if len(found) == 1]
    is_chain = len(ends) == 2 < len(peers) and all(len(found) <= 2 for found in peers.values())
    if not is_chain or own[ends[0]] != own[ends[1]] or len(own[ends[0]]) != 1:
        return set()
    return {rank for rank, found in own.items() if found != own[ends[0]]}


def _odd_ends(counts: Counts, wrong: Sequence[Ends]) -> set[int]:
    found = set()
    for source, destination in wrong:
        sends, recvs = counts[(source, destination)]
        touching = [pair for ends, pair in counts.items() if {source, destination} & set(ends)]
        others = {left for left, right in touching if left == right}
        if (sends in others) == (recvs in others):
            return set()
        found.add(destination if sends in others else source)
    return found


def _minority(counts: Counts) -> set[int]:
    peers, own = _neighbours(counts), _own(counts)
    if len({len(found) for found in peers.values()}) > 1:
        return set()
    [(usual, votes)] = Counter(map(frozenset, own.values())).most_common(1)
    return {rank for rank, found in own.items() if found != usual} if 2 * votes > len(own) else set()
