"""Programs of many ranks by role: what one rank of a mesh does, said relative to where it sits.

[Note: roles]
A role is a program recorded on one rank, its representative, and the ranks that run the same program modulo their
coordinates. Groups and peers of the representative are read as places: along each axis a place is "where I am", the
whole axis, fixed coordinates (when all ranks of the role share theirs, as a pipeline stage does), or offsets from where
I am. Groups that are no product of such sets (ranks 0 and 5 of a 2x4 mesh) can only stand in a role of one rank. A
group that is created by all ranks of the world names fixed ranks on each of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from emberward.events import Barrier, Collective, Event, Group, GroupCreate, Observer, Recv, Send
from emberward.layout import Axis, Mesh

Offsets = tuple[int, ...]
_NOBODY = Group(ranks=())


@dataclass(frozen=True, slots=True)
class Along:
    """A place along one axis: `offsets` from one's own coordinate, or `fixed` coordinates; exactly one is given."""

    offsets: Offsets | None = None
    fixed: Offsets | None = None

    def at(self, coordinate: int, size: int) -> tuple[int, ...]:
        """The coordinates meant, ascending, for a rank at `coordinate` of an axis of `size`."""
        if self.fixed is not None:
            return self.fixed
        if self.offsets is not None and len(self.offsets) == size:
            return self.offsets
        return tuple(sorted((coordinate + offset) % size for offset in self.offsets or ()))


@dataclass(frozen=True, slots=True)
class Place:
    """A set of ranks relative to one's own: a product of places along the axes, or `ranks` as they are."""

    axes: tuple[Along, ...] = ()
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTrace:
    """Traces of a whole mesh by role. See [Note: roles].

    `programs`: for each representative rank its events. `representative_of`: for each rank of the world (the mesh,
    which starts at rank 0) the representative whose program it runs; each representative represents itself.
    `credits` as in a trace, by representative.
    """

    mesh: Mesh
    programs: Mapping[int, tuple[Event, ...]]
    representative_of: Sequence[int]
    observer: Observer
    credits: Mapping[tuple[int | None, str], int] = field(default_factory=lambda: MappingProxyType({}))
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mesh.first_rank != 0 or len(self.representative_of) != self.mesh.size:
            raise ValueError(
                f"roles need one representative for each of the {self.mesh.size} ranks of a mesh from rank 0, "
                f"found {len(self.representative_of)}"
            )
        for rank in self.programs:
            if self.representative_of[rank] != rank:
                raise ValueError(f"rank {rank} has a program and is represented by {self.representative_of[rank]}")
        if unknown := sorted(set(self.representative_of) - set(self.programs)):
            raise ValueError(f"representatives without a program: {unknown[:8]}")

    def with_program(self, rank: int, events: Iterable[Event]) -> "RoleTrace":
        """The same with `rank` alone running `events`, a role of its own.

        Where it stood for others, the least of them takes its place.
        """
        programs = dict(self.programs)
        owners = list(self.representative_of)
        others = [other for other, owner in enumerate(owners) if owner == rank and other != rank]
        if others:
            programs[others[0]] = self.program_of(others[0])
            for other in others:
                owners[other] = others[0]
        owners[rank] = rank
        programs[rank] = tuple(events)
        credits = dict(self.credits)
        for (owner, name), capacity in self.credits.items():
            if others and owner == rank:
                credits[(others[0], name)] = capacity
            if owner == self.representative_of[rank]:
                credits[(rank, name)] = capacity
        return replace(self, programs=programs, representative_of=tuple(owners), credits=credits)

    def program_of(self, rank: int) -> tuple[Event, ...]:
        """The events of `rank` itself, its own groups and peers named."""
        representative = self.representative_of[rank]
        places = Places(self.mesh, representative, self.fixed_axes(representative))
        return tuple(places.localized(event, rank) for event in self.programs[representative])

    def fixed_axes(self, representative: int) -> frozenset[Axis]:
        """Axes along which all ranks of the role share one coordinate."""
        return _fixed_axes(
            self.mesh, [rank for rank, owner in enumerate(self.representative_of) if owner == representative]
        )


def _fixed_axes(mesh: Mesh, ranks: Sequence[int]) -> frozenset[Axis]:
    fixed = {axis for axis, _ in mesh.axes}
    stride = mesh.size
    for axis, size in mesh.axes:
        stride //= size
        if len({rank // stride % size for rank in ranks}) > 1:
            fixed.discard(axis)
    return frozenset(fixed)


class NoPlaceError(ValueError):
    """A set of ranks that a role of several ranks cannot name. See [Note: roles]."""


class Places:
    """Reads and writes places for one role. `fixed_axes`: axes along which the role does not vary."""

    def __init__(self, mesh: Mesh, representative: int, fixed_axes: frozenset[Axis]) -> None:
        self._mesh = mesh
        self._own = tuple(mesh.coordinates(representative).values())
        self._sizes = tuple(size for _, size in mesh.axes)
        self._fixed = tuple(axis in fixed_axes for axis, _ in mesh.axes)
        self._is_single = all(self._fixed)
        self._seen: dict[tuple[int, ...], Place] = {}
        self._ranks: dict[tuple[Place, int], tuple[int, ...]] = {}

    def place(self, ranks: tuple[int, ...], *, is_absolute: bool = False) -> Place:
        """The place of `ranks` as the representative sees them. Raises NoPlaceError when they are no product."""
        if is_absolute or self._is_single:
            return Place(ranks=tuple(sorted(ranks)))
        found = self._seen.get(ranks)
        if found is None:
            found = self._seen[ranks] = self._read(ranks)
        return found

    def _read(self, ranks: tuple[int, ...]) -> Place:
        axes = []
        count = 1
        stride = self._mesh.size
        for i, size in enumerate(self._sizes):
            stride //= size
            is_whole = len(ranks) == self._mesh.size
            used = list(range(size)) if is_whole else sorted({rank // stride % size for rank in ranks})
            count *= len(used)
            if len(used) == size or not self._fixed[i]:
                axes.append(Along(offsets=tuple(sorted((c - self._own[i]) % size for c in used))))
            else:
                axes.append(Along(fixed=tuple(used)))
        if count != len(ranks):
            raise NoPlaceError(
                f"ranks {ranks[:8]} are no product of coordinates, so a role of several ranks cannot name them"
            )
        return Place(axes=tuple(axes))

    def ranks_at(self, place: Place, rank: int) -> tuple[int, ...]:
        """The global ranks, ascending, that `place` means for `rank`."""
        if place.ranks is not None:
            return place.ranks
        found = self._ranks.get((place, rank))
        if found is None:
            own = self._mesh.coordinates(rank).values()
            total = [0]
            for along, coordinate, size in zip(place.axes, own, self._sizes, strict=True):
                total = [base * size + c for base in total for c in along.at(coordinate, size)]
            found = self._ranks[(place, rank)] = tuple(total)
        return found

    def localized(self, event: Event, rank: int) -> Event:
        """The representative's event as `rank` runs it."""
        body = event.body
        match body:
            case Collective(root=root):
                group = replace(body.group, ranks=self.ranks_at(self.place(body.group.ranks), rank))
                if root is not None:
                    # The same member of the group, not the same way from here: rank 0 of the world is one rank.
                    root = group.ranks[body.group.ranks.index(root)]
                return replace(event, rank=rank, body=replace(body, group=group, root=root))
            case Barrier() | GroupCreate():
                is_world = isinstance(body, GroupCreate) and body.members is None
                place = self.place(body.group.ranks, is_absolute=is_world)
                new = replace(body, group=replace(body.group, ranks=self.ranks_at(place, rank)))
                if isinstance(new, GroupCreate) and new.members is not None:
                    new = replace(new, members=self.ranks_at(self.place(new.members), rank))
                return replace(event, rank=rank, body=new)
            case Send() | Recv():
                peer = self.ranks_at(self.place((body.peer,)), rank)[0]
                moved = body.group
                if moved is not None:
                    moved = replace(moved, ranks=self.ranks_at(self.place(moved.ranks), rank))
                return replace(event, rank=rank, body=replace(body, peer=peer, group=moved))
            case _:
                return replace(event, rank=rank)


class RoleBuilder:
    """Finds the roles of a mesh from one rank's events after another, keeping each distinct program once.

    Ranks with different coordinates along `fixed_axes` (the pipeline stage) never share a role; along the other axes
    programs of one role must agree relative to their place. A rank that departs becomes a role of its own.
    """

    def __init__(self, mesh: Mesh, observer: Observer, *, fixed_axes: frozenset[Axis] = frozenset({Axis.PP})) -> None:
        self._mesh = mesh
        self._observer = observer
        self._fixed_axes = fixed_axes
        self._owners: dict[int, int] = {}
        self._programs: dict[int, tuple[Event, ...]] = {}
        self._known: dict[tuple[object, ...], int] = {}

    def add(self, rank: int, events: Sequence[Event]) -> int:
        """Takes the events of `rank` and returns the representative whose program it runs, maybe itself."""
        own = self._mesh.coordinates(rank)
        at = tuple(own[axis] for axis, _ in self._mesh.axes if axis in self._fixed_axes)
        places = Places(self._mesh, rank, self._fixed_axes)
        try:
            key: tuple[object, ...] = (at, *(_relative(event, places) for event in events))
        except NoPlaceError:
            key = ("alone", rank)
        owner = self._known.setdefault(key, rank)
        if owner == rank:
            self._programs[rank] = tuple(events)
        self._owners[rank] = owner
        return owner

    def build(self, *, credits: Mapping[tuple[int | None, str], int] | None = None) -> RoleTrace:
        """The roles of all ranks added. Raises ValueError when a rank of the mesh is missing."""
        if missing := [rank for rank in self._mesh.ranks if rank not in self._owners]:
            raise ValueError(f"ranks without events: {missing[:8]}")
        return RoleTrace(
            mesh=self._mesh,
            programs=dict(self._programs),
            representative_of=tuple(self._owners[rank] for rank in self._mesh.ranks),
            observer=self._observer,
            credits=dict(credits or {}),
        )


def _relative(event: Event, places: Places) -> object:
    """What two ranks of one role must share in an event."""
    body = event.body
    facts: tuple[object, ...]
    match body:
        case Collective(root=root):
            member = None if root is None else body.group.ranks.index(root)
            facts = (places.place(body.group.ranks), body.group.index, member, replace(body, group=_NOBODY, root=None))
        case Barrier():
            facts = (places.place(body.group.ranks), body.group.index)
        case GroupCreate(members=None):
            facts = (body.group,)
        case GroupCreate(members=members):
            facts = (places.place(body.group.ranks), body.group.index, places.place(members or ()))
        case Send() | Recv():
            group = None if body.group is None else (places.place(body.group.ranks), body.group.index)
            facts = (places.place((body.peer,)), group, replace(body, peer=0, group=None))
        case _:
            facts = (body,)
    return (type(body), event.lane, event.position, event.after, event.site, event.phase, facts)
