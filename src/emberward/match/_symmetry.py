"""Which ranks of a mesh provably step alike, found by colour refinement. Exact: no hashing, no sampling.

[Note: symmetry]
Ranks start with the colour of their role. A slot is one group, or one peer and direction, as a role's program names it.
In each round a rank's colour is split by what its slots meet: the sorted (colour, slot) pairs of all who call the same
concrete group or channel. When no colour splits any more the partition is equitable: two ranks of one colour have one
program, and the k-th call of each slot meets like calls of like ranks. By induction over the rounds of the simulation
all ranks of one colour then start and complete each event in the same round, so that one of them can be simulated for
all (Berkholz, Bonsma, Grohe 2017, "Tight lower and upper bounds for the complexity of canonical colour refinement",
for the partition; the induction is ours). One rank that departs splits the others by how they relate to it: 16,384
ranks of PP16 x TP8 x DP128 become 64 classes.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from emberward.events import Barrier, Collective, Event, GroupCreate, Recv, Send
from emberward.match._roles import Place, Places, RoleTrace
from emberward.match._table import Party

Ints = NDArray[np.int64]
MAX_ROUNDS = 10_000
"""Most rounds of refinement; each splits at least one colour, so meshes of this many classes are refused."""
NO_SLOT = -1
"""The slot of a member that never calls its group."""


@dataclass(slots=True)
class _Role:
    """One role while its ranks are coloured: where its program's groups and peers lie."""

    representative: int
    places: Places
    ranks: Ints
    slot_of: dict[int, int] = field(default_factory=dict)
    """By id of a body of the program, which the role trace keeps alive."""
    bodies: list[Collective | Barrier | GroupCreate | Send | Recv] = field(default_factory=list)


def _slot_key(body: Collective | Barrier | GroupCreate | Send | Recv) -> Hashable:
    match body:
        case Collective() | Barrier():
            return ("call", body.group)
        case GroupCreate():
            return ("create", body.group, body.members)
        case Send():
            return ("send", body.peer, body.group, body.tag)
        case Recv():
            return ("recv", body.peer, body.group, body.tag)


def _packed(key: Ints, column: Ints) -> Ints:
    """Dense numbers, equal exactly where both `key` and `column` are."""
    _, dense = np.unique(column, return_inverse=True)
    width = int(dense.max(initial=0)) + 1
    _, packed = np.unique(key * width + dense, return_inverse=True)
    result: Ints = packed.astype(np.int64)
    return result


class Symmetry:
    """The classes of a role trace, and the linker of their quotient. See [Note: symmetry]."""

    def __init__(self, roles: RoleTrace) -> None:
        self._roles = roles
        self._mesh = roles.mesh
        self._owner = np.asarray(roles.representative_of, dtype=np.int64)
        sizes = [size for _, size in self._mesh.axes]
        strides = [int(np.prod(sizes[i + 1 :], dtype=np.int64)) for i in range(len(sizes))]
        every = np.arange(self._mesh.size, dtype=np.int64)
        self._coordinates = [every // stride % size for stride, size in zip(strides, sizes, strict=True)]
        self._strides = strides
        self._sizes = sizes
        self._set_ids: dict[Hashable, int] = {}
        self._by_owner = {owner: self._read_role(owner) for owner in sorted(roles.programs)}
        self._first_slot: dict[int, int] = {}
        self._first_pair: dict[int, int] = {}
        self._number_pairs()
        self._refine()
        self._pairs: dict[tuple[int, int], tuple[_Role, int, int]] = {}
        self._members: dict[int, list[tuple[int, Party | None]]] = {}

    def _read_role(self, owner: int) -> _Role:
        ranks = np.flatnonzero(self._owner == owner)
        fixed = frozenset(
            axis
            for (axis, _), at in zip(self._mesh.axes, self._coordinates, strict=True)
            if len(ranks) == 0 or bool((at[ranks] == at[ranks[0]]).all())
        )
        role = _Role(owner, Places(self._mesh, owner, fixed), ranks)
        slots: dict[Hashable, int] = {}
        for event in self._roles.programs[owner]:
            body = event.body
            if isinstance(body, Collective | Barrier | GroupCreate | Send | Recv) and id(body) not in role.slot_of:
                key = _slot_key(body)
                if key not in slots:
                    slots[key] = len(role.bodies)
                    role.bodies.append(body)
                role.slot_of[id(body)] = slots[key]
        return role

    # who meets whom

    def _set_id(self, key: Hashable) -> int:
        return self._set_ids.setdefault(key, len(self._set_ids))

    def _group_columns(self, role: _Role, place: Place | None) -> list[Ints]:
        """Numbers for each rank of the role, equal exactly where `place` means the same ranks."""
        count = len(role.ranks)
        num_axes = len(self._sizes)
        if place is None:
            return [np.full(count, self._set_id("none"), dtype=np.int64)] * num_axes
        if place.ranks is not None:
            used = [
                tuple(sorted({rank // stride % size for rank in place.ranks}))
                for stride, size in zip(self._strides, self._sizes, strict=True)
            ]
            if int(np.prod([len(u) for u in used])) != len(place.ranks):
                whole = np.full(count, self._set_id(("ranks", place.ranks)), dtype=np.int64)
                return [whole] * num_axes
            return [np.full(count, self._set_id((i, u)), dtype=np.int64) for i, u in enumerate(used)]
        columns = []
        for i, (along, size) in enumerate(zip(place.axes, self._sizes, strict=True)):
            if along.fixed is not None or len(along.offsets or ()) == size:
                columns.append(np.full(count, self._set_id((i, along.at(0, size))), dtype=np.int64))
                continue
            table = np.asarray([self._set_id((i, along.at(c, size))) for c in range(size)], dtype=np.int64)
            columns.append(table[self._coordinates[i][role.ranks]])
        return columns

    def _peer_column(self, role: _Role, place: Place) -> Ints:
        if place.ranks is not None:
            return np.full(len(role.ranks), place.ranks[0], dtype=np.int64)
        peer = np.zeros(len(role.ranks), dtype=np.int64)
        for i, (along, size) in enumerate(zip(place.axes, self._sizes, strict=True)):
            table = np.asarray([along.at(c, size)[0] for c in range(size)], dtype=np.int64)
            peer += table[self._coordinates[i][role.ranks]] * self._strides[i]
        return peer

    def _slot_columns(self, role: _Role, body: Collective | Barrier | GroupCreate | Send | Recv) -> list[Ints]:
        """One row for each rank of the role; equal rows, also of other roles, are one concrete meeting or channel."""
        places, own, count = role.places, role.ranks, len(role.ranks)
        nobody = np.full(count, -1, dtype=np.int64)
        if isinstance(body, Send | Recv):
            peer = self._peer_column(role, places.place((body.peer,)))
            group = None if body.group is None else places.place(body.group.ranks)
            index = "none" if body.group is None else body.group.index
            ends = [own, peer] if isinstance(body, Send) else [peer, own]
            head = np.full(count, self._set_id(("channel", body.tag, index)), dtype=np.int64)
            return [head, *self._group_columns(role, group), *self._group_columns(role, None), *ends]
        is_world = isinstance(body, GroupCreate) and body.members is None
        members = body.members if isinstance(body, GroupCreate) else None
        head = np.full(count, self._set_id((isinstance(body, GroupCreate), body.group.index)), dtype=np.int64)
        group = places.place(body.group.ranks, is_absolute=is_world)
        called = None if members is None else places.place(members)
        return [head, *self._group_columns(role, group), *self._group_columns(role, called), nobody, nobody]

    def _number_pairs(self) -> None:
        """A pair is one (rank, slot); `_pair_meet` numbers the concrete meeting or channel that it calls."""
        ranks, slots, rows = [], [], []
        first = num_pairs = 0
        for owner, role in self._by_owner.items():
            self._first_slot[owner] = first
            self._first_pair[owner] = num_pairs
            num_pairs += len(role.bodies) * len(role.ranks)
            for s, body in enumerate(role.bodies):
                ranks.append(role.ranks)
                slots.append(np.full(len(role.ranks), first + s, dtype=np.int64))
                rows.append(np.stack(self._slot_columns(role, body)))
            first += len(role.bodies)
        self._num_slots = max(first, 1)
        empty = np.zeros(0, dtype=np.int64)
        self._pair_rank: Ints = np.concatenate(ranks) if ranks else empty
        self._pair_slot: Ints = np.concatenate(slots) if slots else empty
        key = np.zeros(len(self._pair_rank), dtype=np.int64)
        if rows:
            for column in np.concatenate(rows, axis=1):
                key = _packed(key, column)
        self._pair_meet: Ints = key
        self._meet_order = np.argsort(key, kind="stable")
        self._meet_start = np.searchsorted(key[self._meet_order], np.arange(int(key.max(initial=-1)) + 2))

    # colours

    def _meet_kinds(self, colour: Ints) -> Ints:
        """For each concrete meeting a number, equal where the sorted (colour, slot) pairs of its callers are."""
        code = colour[self._pair_rank] * self._num_slots + self._pair_slot
        order = np.lexsort((code, self._pair_meet))
        code = code[order]
        lengths = np.diff(self._meet_start)
        kinds = np.zeros(len(lengths), dtype=np.int64)
        base = 0
        for length in np.unique(lengths):
            which = np.flatnonzero(lengths == length)
            rows = code[self._meet_start[which][:, None] + np.arange(length)]
            if length <= 2:
                found = (
                    rows[:, 0]
                    if length == 1
                    else _packed(_packed(np.zeros(len(rows), np.int64), rows[:, 0]), rows[:, 1])
                )
            else:
                known: dict[bytes, int] = {}
                found = np.asarray([known.setdefault(row.tobytes(), len(known)) for row in rows], dtype=np.int64)
            _, dense = np.unique(found, return_inverse=True)
            kinds[which] = base + dense
            base += int(dense.max(initial=-1)) + 1
        return kinds

    def _refine(self) -> None:
        _, colour = np.unique(self._owner, return_inverse=True)
        colour = colour.astype(np.int64)
        num_colours = int(colour.max(initial=0)) + 1
        for _ in range(MAX_ROUNDS):
            kinds = self._meet_kinds(colour)
            met = kinds[self._pair_meet]
            width = int(kinds.max(initial=0)) + 1
            split = np.zeros(len(colour), dtype=np.int64)
            base = at = 0
            for role in self._by_owner.values():
                key = colour[role.ranks]
                for _ in role.bodies:
                    _, key = np.unique(key * width + met[at : at + len(role.ranks)], return_inverse=True)
                    at += len(role.ranks)
                _, dense = np.unique(key, return_inverse=True)
                split[role.ranks] = base + dense
                base += int(dense.max(initial=-1)) + 1
            colour = split
            if base == num_colours:
                break
            num_colours = base
        else:
            raise ValueError(f"no stable classes after {MAX_ROUNDS} rounds")
        self._kinds = kinds
        first_of: dict[int, int] = {}
        for rank, c in enumerate(colour.tolist()):
            first_of.setdefault(c, rank)
        number = {c: node for node, c in enumerate(first_of)}
        self._standing = list(first_of.values())
        self._node = [number[c] for c in colour.tolist()]
        self._node_sizes = np.bincount(np.asarray(self._node), minlength=len(number)).tolist()

    # the linker

    @property
    def is_plain(self) -> bool:
        """A node stands for a class of ranks."""
        return False

    @property
    def num_nodes(self) -> int:
        """Number of classes."""
        return len(self._standing)

    def programs(self) -> list[tuple[Event, ...]]:
        """For each class the program of its role, as the representative runs it."""
        return [self._roles.programs[int(self._owner[rank])] for rank in self._standing]

    def rank_of(self, node: int) -> int:
        """The least rank of the class: it stands for all."""
        return self._standing[node]

    def size_of(self, node: int) -> int:
        """How many ranks the class has."""
        return int(self._node_sizes[node])

    def node_of(self, rank: int) -> int | None:
        """The class of `rank`."""
        return self._node[rank] if 0 <= rank < len(self._node) else None

    def _pair(self, rank: int, body: Collective | Barrier | GroupCreate | Send | Recv) -> tuple[_Role, int, int]:
        """(role, slot within the trace, concrete meeting) of a representative's call as `rank` makes it."""
        owner = int(self._owner[rank])
        role = self._by_owner[owner]
        local = role.slot_of[id(body)]
        found = self._pairs.get((rank, local))
        if found is None:
            start = self._first_pair[owner] + local * len(role.ranks)
            position = int(np.searchsorted(role.ranks, rank))
            meet = int(self._pair_meet[start + position])
            found = self._pairs[(rank, local)] = (role, self._first_slot[owner] + local, meet)
        return found

    def meeting(self, node: int, body: Collective | Barrier | GroupCreate) -> tuple[Hashable, int]:
        """The kind of meeting that the class calls, and the slot by which it does."""
        _, slot, meet = self._pair(self._standing[node], body)
        return int(self._kinds[meet]), slot

    def members(self, rank: int, body: Collective | Barrier | GroupCreate) -> Sequence[tuple[int, Party | None]]:
        """Every rank that must call with `rank`, with its party."""
        role, _, meet = self._pair(rank, body)
        found = self._members.get(meet)
        if found is None:
            if isinstance(body, GroupCreate):
                ranks = (
                    tuple(self._mesh.ranks)
                    if body.members is None
                    else role.places.ranks_at(role.places.place(body.members), rank)
                )
            else:
                ranks = role.places.ranks_at(role.places.place(body.group.ranks), rank)
            callers = self._callers(meet)
            found = [(other, (self._node[other], callers.get(other, NO_SLOT))) for other in ranks]
            self._members[meet] = found
        return found

    def _callers(self, meet: int) -> dict[int, int]:
        pairs = self._meet_order[self._meet_start[meet] : self._meet_start[meet + 1]]
        return dict(zip(self._pair_rank[pairs].tolist(), self._pair_slot[pairs].tolist(), strict=True))

    def channel(self, node: int, body: Send | Recv) -> Hashable:
        """The kind of channel; sends and receives of one kind pair."""
        _, _, meet = self._pair(self._standing[node], body)
        return int(self._kinds[meet])

    def peer(self, rank: int, body: Send | Recv) -> int:
        """The global rank at the other end, for `rank`."""
        role = self._by_owner[int(self._owner[rank])]
        return role.places.ranks_at(role.places.place((body.peer,)), rank)[0]

    def event_at(self, rank: int, event: Event) -> Event:
        """The representative's event as `rank` runs it."""
        return self._by_owner[int(self._owner[rank])].places.localized(event, rank)
