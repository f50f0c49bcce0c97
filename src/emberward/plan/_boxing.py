"""Boxing: the cheapest route from one layout of a tensor to another, on one mesh or between two.

[Note: boxing moves]
Each move changes the placement along one axis of a mesh, or carries the tensor between meshes. `n` is the axis' size,
`L` what a rank holds before. Bytes are what all ranks together receive, counted for the algorithms that send least
(Chan et al. 2007, "Collective communication: theory, practice, and experience", table 1):

    S(d) to B     all_gather       what each rank lacks
    S(d) to S(e)  all_to_all       what each rank lacks
    P to S(d)     reduce_scatter   (n - 1) / n of L on each rank
    P to B        all_reduce       2 (n - 1) / n of L on each rank
    B to S(d)     slice            nothing
    B to P        zero_pad         nothing: the first rank along the axis keeps the value, the others hold zeros
    S(d) to P     zero_pad         nothing: each rank sets its chunk into zeros
    P(sum), P(avg)  scale          nothing
    mesh to mesh  transfer         what each rank of the target lacks; never of partial values

Where two axes cut one dim only the inner one can be gathered or moved, and a new cut is the innermost, so that what a
rank holds stays one box. OneFlow has the same primitives by name: eager_boxing_interpreter_mgr.cpp; its B to P and
1 to P, and the route of libai#232, are `route_of_libai_232` in the tests.
"""

import heapq
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from emberward.findings import ConfigError
from emberward.layout import Axis, Box, Broadcast, Layout, Mesh, Partial, Placement, Split, local_box
from emberward.plan._route import BoxingStep, Move, Placed, Route, overlap, volume

MAX_STATES = 100_000
"""Most layouts that a search looks at."""
MAX_SPACES = 64
"""Most tensors' spaces of layouts that are kept between searches."""


def _space_of(shape: tuple[int, ...], item_bytes: int, source: Placed, target: Placed) -> "_Space":
    return _shared_space(shape, item_bytes, source.mesh, target.mesh, _ops_of(source) | _ops_of(target))


@lru_cache(maxsize=MAX_SPACES)
def _shared_space(
    shape: tuple[int, ...], item_bytes: int, source: Mesh, target: Mesh, reduce_ops: frozenset[str]
) -> "_Space":
    """Kept, since a plan asks for the routes of like tensors often."""
    return _Space(shape, item_bytes, (source,) if source == target else (source, target), reduce_ops)


class Goal(Enum):
    """What a search makes least."""

    FEWEST_BYTES = auto()
    FEWEST_MOVES = auto()


@dataclass(frozen=True, slots=True)
class _State:
    """A layout for the search: placements in the mesh's order of axes, and for each dim its cutters, outer first."""

    mesh: int
    placements: tuple[Placement, ...]
    cuts: tuple[tuple[int, ...], ...]


class _Space:
    """The layouts of one tensor on the route's meshes and what they hold."""

    def __init__(
        self, shape: tuple[int, ...], item_bytes: int, meshes: tuple[Mesh, ...], reduce_ops: frozenset[str]
    ) -> None:
        self.shape = shape
        self.item_bytes = item_bytes
        self.meshes = meshes
        self.reduce_ops = sorted(reduce_ops | {"sum"})
        self._boxes: dict[_State, tuple[Box, ...]] = {}
        self._neighbours: dict[_State, list[tuple[_State, Move, int | None, int]]] = {}

    def state_of(self, mesh: int, layout: Layout) -> _State:
        axes = [axis for axis, _ in self.meshes[mesh].axes]
        cuts: list[list[int]] = [[] for _ in self.shape]
        for axis, placement in layout.placements.items():
            if axis in axes and isinstance(placement, Split):
                cuts[placement.dim].append(axes.index(axis))
        return _State(mesh, tuple(layout.on(axis) for axis in axes), tuple(map(tuple, cuts)))

    def placed(self, state: _State) -> Placed:
        axes = [axis for axis, _ in self.meshes[state.mesh].axes]
        ordered = [i for cut in state.cuts for i in cut]
        ordered += [i for i in range(len(axes)) if i not in ordered]
        layout = Layout(
            {axes[i]: state.placements[i] for i in sorted(ordered, key=lambda i: self._rank_of_cut(state, i))}
        )
        return Placed(mesh=self.meshes[state.mesh], layout=layout)

    @staticmethod
    def _rank_of_cut(state: _State, i: int) -> int:
        """Axes in the mesh's order, but cutters of one dim in their order of cutting."""
        for cut in state.cuts:
            if i in cut:
                return sorted(cut)[cut.index(i)]
        return i

    def boxes(self, state: _State) -> tuple[Box, ...]:
        found = self._boxes.get(state)
        if found is None:
            placed = self.placed(state)
            mesh = placed.mesh
            found = tuple(local_box(self.shape, placed.layout, mesh, rank) for rank in mesh.ranks)
            self._boxes[state] = found
        return found

    def with_axis(self, state: _State, axis: int, placement: Placement) -> _State:
        cuts = [tuple(i for i in cut if i != axis) for cut in state.cuts]
        if isinstance(placement, Split):
            cuts[placement.dim] += (axis,)
        placements = (*state.placements[:axis], placement, *state.placements[axis + 1 :])
        return _State(state.mesh, placements, tuple(cuts))

    def neighbours(self, state: _State) -> list[tuple[_State, Move, int | None, int]]:
        """(state after, move, axis or None, bytes received) for each move out of `state`."""
        found = self._neighbours.get(state)
        if found is None:
            found = self._neighbours[state] = list(self._find_neighbours(state))
        return found

    def _find_neighbours(self, state: _State) -> Iterator[tuple[_State, Move, int | None, int]]:
        for axis, old in enumerate(state.placements):
            if isinstance(old, Split) and state.cuts[old.dim][-1] != axis:
                continue
            for new in self._choices():
                move = _move(old, new)
                if move is not None:
                    after = self.with_axis(state, axis, new)
                    yield after, move, axis, self._bytes(state, after, move, axis)
        for mesh in range(len(self.meshes)):
            if mesh != state.mesh:
                yield from self._transfers(state, mesh)

    def _choices(self) -> Iterator[Placement]:
        yield Broadcast()
        for dim in range(len(self.shape)):
            yield Split(dim)
        for reduce_op in self.reduce_ops:
            yield Partial(reduce_op)

    def _bytes(self, before: _State, after: _State, move: Move, axis: int) -> int:
        size = self.meshes[before.mesh].axes[axis][1]
        match move:
            case Move.SLICE | Move.ZERO_PAD | Move.SCALE:
                return 0
            case Move.ALL_GATHER | Move.ALL_TO_ALL | Move.TRANSFER:
                pairs = zip(self.boxes(before), self.boxes(after), strict=True)
                return self.item_bytes * sum(volume(new) - volume(overlap(old, new)) for old, new in pairs)
            case Move.REDUCE_SCATTER | Move.ALL_REDUCE:
                held = sum(volume(box) for box in self.boxes(before))
                factor = 1 if move is Move.REDUCE_SCATTER else 2
                return self.item_bytes * factor * held // size * (size - 1)

    def _transfers(self, state: _State, mesh: int) -> Iterator[tuple[_State, Move, int | None, int]]:
        """Yields transfers of whole values to every layout of `mesh`, and of one rank's value to partials around it."""
        if any(isinstance(placement, Partial) for placement in state.placements):
            return
        here, there = self.meshes[state.mesh], self.meshes[mesh]
        held = dict(zip(here.ranks, self.boxes(state), strict=True))
        for after in self._whole_states(mesh):
            lacking = 0
            for rank, box in zip(there.ranks, self.boxes(after), strict=True):
                own = held.get(rank)
                lacking += volume(box) - (0 if own is None else volume(overlap(own, box)))
            yield after, Move.TRANSFER, None, self.item_bytes * lacking
        if here.size == 1 and here.first_rank in there.ranks:
            partial = tuple(Partial() for _ in there.axes)
            yield _State(mesh, partial, tuple(() for _ in self.shape)), Move.ZERO_PAD, None, 0

    def _whole_states(self, mesh: int) -> Iterator[_State]:
        """Every layout of `mesh` without partials; outer axes cut first."""
        choices: list[Placement] = [Broadcast(), *(Split(dim) for dim in range(len(self.shape)))]
        for placements in itertools.product(choices, repeat=len(self.meshes[mesh].axes)):
            cuts = tuple(
                tuple(i for i, placement in enumerate(placements) if placement == Split(dim))
                for dim in range(len(self.shape))
            )
            yield _State(mesh, placements, cuts)


def _move(old: Placement, new: Placement) -> Move | None:
    """The move from one placement to another along one axis; None when there is none or nothing changes."""
    match old, new:
        case Split(), Broadcast():
            return Move.ALL_GATHER
        case Split(), Split():
            return Move.ALL_TO_ALL if old != new else None
        case Split(), Partial(reduce_op="sum" | "avg"):
            return Move.ZERO_PAD
        case Broadcast(), Split():
            return Move.SLICE
        case Broadcast(), Partial():
            return Move.ZERO_PAD
        case Partial(), Broadcast():
            return Move.ALL_REDUCE
        case Partial(), Split():
            return Move.REDUCE_SCATTER
        case Partial(reduce_op="sum"), Partial(reduce_op="avg"):
            return Move.SCALE
        case Partial(reduce_op="avg"), Partial(reduce_op="sum"):
            return Move.SCALE
        case _:
            return None


def _require_legal(placed: Placed, shape: tuple[int, ...], name: str) -> None:
    ops = {place.reduce_op for place in placed.layout.placements.values() if isinstance(place, Partial)}
    if len(ops) > 1 and not ops <= {"sum", "avg"}:
        raise ConfigError(
            "one tensor is partial by several kinds of reduction",
            code="C104",
            where=f"{name} layout {placed}",
            expected="sum and avg, or one other kind",
            found=", ".join(sorted(ops)),
            next="reduce along one of the axes first",
        )
    for place in placed.layout.placements.values():
        if isinstance(place, Split) and place.dim >= len(shape):
            raise ConfigError(
                "a layout splits a dim that the tensor does not have",
                code="C104",
                where=f"{name} layout {placed}",
                expected=f"a dim below {len(shape)}",
                found=str(place.dim),
                next="split another dim",
            )


def find_route(source: Placed, target: Placed, *, shape: tuple[int, ...], item_bytes: int) -> Route:
    """The route by which all ranks together receive fewest bytes; of equals, fewest between meshes, then fewest moves.

    Pure. Meshes may be equal, disjoint or overlapping. Raises ConfigError C104 on a layout that no tensor of `shape`
    can have. Cost grows with the number of layouts, (dims + 2) ** axes, times the ranks.
    """
    _require_legal(source, shape, "source")
    _require_legal(target, shape, "target")
    space = _space_of(shape, item_bytes, source, target)
    start, goal = space.state_of(0, source.layout), space.state_of(len(space.meshes) - 1, target.layout)
    steps = _steps(space, _search(space, start, goal, Goal.FEWEST_BYTES))
    return Route(shape=shape, item_bytes=item_bytes, source=source, target=target, steps=tuple(steps))


_Edge = tuple[_State, _State, Move, int | None, int]
_Cost = tuple[int, int, int]


def _steps(space: _Space, edges: Sequence[_Edge]) -> tuple[BoxingStep, ...]:
    return tuple(
        BoxingStep(
            move=move,
            axis=None if axis is None else space.meshes[before.mesh].axes[axis][0],
            before=space.placed(before),
            after=space.placed(after),
            received_bytes=received,
        )
        for before, after, move, axis, received in edges
    )


def _search(space: _Space, start: _State, goal: _State, aim: Goal) -> list[_Edge]:
    """Dijkstra over layouts by (bytes, bytes between meshes, moves), or by moves first."""
    best: dict[_State, _Cost] = {start: (0, 0, 0)}
    came: dict[_State, _Edge] = {}
    queue: list[tuple[_Cost, int, _State]] = [((0, 0, 0), 0, start)]
    closed: set[_State] = set()
    num_pushed = 0
    for number in itertools.count(1):
        if not queue or number > MAX_STATES:
            break
        cost, _, state = heapq.heappop(queue)
        if state in closed:
            continue
        if state == goal:
            break
        closed.add(state)
        for after, move, axis, received in space.neighbours(state):
            cross = received if axis is None else 0
            added = (received, cross, 1) if aim is Goal.FEWEST_BYTES else (1, received, cross)
            total = (cost[0] + added[0], cost[1] + added[1], cost[2] + added[2])
            if after not in best or total < best[after]:
                best[after] = total
                came[after] = (state, after, move, axis, received)
                num_pushed += 1
                heapq.heappush(queue, (total, num_pushed, after))
    edges: list[_Edge] = []
    state = goal
    while state != start:
        edge = came[state]
        edges.append(edge)
        state = edge[0]
    return edges[::-1]


def naive_route(source: Placed, target: Placed, *, shape: tuple[int, ...], item_bytes: int) -> Route:
    """Gather everything on every rank, carry it whole to every rank of the target, then cut or pad."""
    whole = [Placed(mesh=placed.mesh, layout=Layout({})) for placed in (source, target)]
    places = [source, whole[0]]
    if source.mesh != target.mesh:
        places.append(whole[1])
    return route_through([*places, target], shape=shape, item_bytes=item_bytes)


def route_through(places: Sequence[Placed], *, shape: tuple[int, ...], item_bytes: int) -> Route:
    """The route that visits all `places` in order, each leg by fewest moves, and of those by fewest bytes.

    For pricing what somebody else does.
    """
    steps: list[BoxingStep] = []
    for before, after in itertools.pairwise(places):
        space = _space_of(shape, item_bytes, before, after)
        start, goal = space.state_of(0, before.layout), space.state_of(len(space.meshes) - 1, after.layout)
        steps += _steps(space, _search(space, start, goal, Goal.FEWEST_MOVES))
    return Route(shape=shape, item_bytes=item_bytes, source=places[0], target=places[-1], steps=tuple(steps))


def _ops_of(placed: Placed) -> frozenset[str]:
    return frozenset(place.reduce_op for place in placed.layout.placements.values() if isinstance(place, Partial))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxingAdvice:
    """A layout that would serve better than a Partial: what each costs and holds, in bytes over all ranks."""

    partial: Placed
    better: Placed
    partial_bytes: int
    better_bytes: int
    partial_held_bytes: int
    better_held_bytes: int

    @property
    def text(self) -> str:
        """One line for people."""
        return (
            f"{self.partial} receives {self.partial_bytes} bytes on its way and holds {self.partial_held_bytes}; "
            f"{self.better} receives {self.better_bytes} and holds {self.better_held_bytes}"
        )


def advise_partial(
    source: Placed, via: Placed, target: Placed, *, shape: tuple[int, ...], item_bytes: int
) -> BoxingAdvice | None:
    """The cheapest layout in place of the partial `via` between `source` and `target`; None when `via` is as good.

    Each Partial of `via` is tried as each Split. What counts are the bytes of both routes; of equals, what is held.
    """
    axes = [axis for axis, _ in via.mesh.axes if isinstance(via.layout.on(axis), Partial)]
    if not axes:
        return None

    def priced(place: Placed) -> tuple[int, int]:
        legs = ((source, place), (place, target))
        received = sum(find_route(a, b, shape=shape, item_bytes=item_bytes).received_bytes for a, b in legs)
        held = sum(volume(local_box(shape, place.layout, place.mesh, rank)) for rank in place.mesh.ranks)
        return received, held * item_bytes

    own = priced(via)
    best: tuple[tuple[int, int], Placed] | None = None
    for choice in itertools.product(range(len(shape)), repeat=len(axes)):
        changed: Mapping[Axis, Placement] = {axis: Split(dim) for axis, dim in zip(axes, choice, strict=True)}
        layout = Layout({axis: changed.get(axis, via.layout.on(axis)) for axis, _ in via.mesh.axes})
        place = Placed(mesh=via.mesh, layout=layout)
        price = priced(place)
        if best is None or price < best[0]:
            best = (price, place)
    if best is None or best[0][0] >= own[0]:
        return None
    return BoxingAdvice(
        partial=via,
        better=best[1],
        partial_bytes=own[0],
        better_bytes=best[0][0],
        partial_held_bytes=own[1],
        better_held_bytes=best[0][1],
    )
