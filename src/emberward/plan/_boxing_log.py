"""Every change of layout that the engine makes in a training step: which tensor, from where to where, at what cost.

[Note: boxing decisions]
One row stands for all changes of a kind on a pipeline rank: those that its blocks declare over tp, each way, an edge to
the next stage, the weights and gradients over dp, what tp ranks hold alike, and the tied ends. `times` counts them in a
step, recomputation included. `runs` is the route that the engine's code takes, the one with fewest
moves; `best` the one by which all ranks receive least, and of these fewest between meshes. Where they differ, or where
a Split would serve better than the layout that is used, `advice` says so.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from emberward.layout import Axis, Direction, Edge, Layout, Mesh, Partial, Placement, Split, TpChange
from emberward.plan._boxing import find_route, route_through
from emberward.plan._memory import StepShape, summed_numel
from emberward.plan._route import CSV_HEADER, Placed, Route
from emberward.plan._traffic import changes_of, gathered_units, splits, tied_numel

MAX_MESH = 256
"""Most ranks of a stage whose routes over dp are worked out; a larger stage's are left out, and said to be."""
_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxingDecision:
    """One kind of change on pipeline rank `pp_rank`. See [Note: boxing decisions]."""

    pp_rank: int
    tensor: str
    source_op: str
    target_op: str
    dtype: str
    times: int
    runs: Route
    best: Route
    advice: str | None

    @property
    def step_bytes(self) -> int:
        """Bytes that all ranks of the change together receive in a step."""
        return self.times * self.runs.received_bytes

    @property
    def csv_row(self) -> str:
        """The row of the boxing log; its columns are CSV_HEADER's."""
        return self.runs.csv_row(
            source_op=self.source_op,
            target_op=self.target_op,
            tensor=self.tensor,
            dtype=self.dtype,
            comment=f"x{self.times} a step" + ("" if self.advice is None else f"; {self.advice}"),
        )


def boxing_csv(decisions: tuple[BoxingDecision, ...]) -> str:
    """The boxing log: CSV_HEADER and a row for each decision."""
    return "\n".join([CSV_HEADER, *(decision.csv_row for decision in decisions)]) + "\n"


def boxing_decisions(shape: StepShape, *, dtype: str) -> tuple[BoxingDecision, ...]:
    """What the engine decides for a training step, pipeline rank by pipeline rank; `dtype` is the compute type."""
    found: list[BoxingDecision] = []
    for pp_rank in range(shape.schedule.num_ranks):
        each = _Rank(shape, pp_rank, dtype)
        found += [*each.over_tp(), *each.between_stages(), *each.over_dp(), *each.tied_ends()]
    return tuple(found)


class _Rank:
    """The decisions of one pipeline rank, on the first of its meshes."""

    def __init__(self, shape: StepShape, pp_rank: int, dtype: str) -> None:
        self.shape = shape
        self.pp_rank = pp_rank
        self.dtype = dtype
        self.stages = shape.schedule.stages_of(pp_rank)
        self.num_mb = shape.schedule.num_mb

    # -- over tp -----------------------------------------------------------------------------------------------------

    def over_tp(self) -> Iterator[BoxingDecision]:
        shape = self.shape
        if shape.tiling.tp == 1:
            return
        times: dict[TpChange, tuple[int, int]] = {}
        for change, forward, backward in changes_of(shape, self.stages):
            before = times.get(change, (0, 0))
            times[change] = (before[0] + forward, before[1] + backward)
        for change, (forward, backward) in times.items():
            yield from self._tp(change, forward, backward)
        yield from self._replicated()

    def _tp(self, change: TpChange, forward: int, backward: int) -> Iterator[BoxingDecision]:
        """The rows of a change: forward and backward where positions are split, else the one of them that sums."""
        is_entering = change.direction is Direction.ENTER
        ways = (
            (change.name, change.source, change.target, forward),
            (
                change.gradient_name,
                change.target,
                change.source,
                backward,
            ),
        )
        for index, (tensor, source_op, target_op, times) in enumerate(ways):
            sums = is_entering == (index == 1)
            if splits(self.shape, change):
                assert change.positions is not None
                split = Split(1 + change.positions)
                yield self._over_tp(change, tensor, source_op, target_op, times, Partial() if sums else split,
                                    split if sums else None)  # fmt: skip
            elif sums:
                yield self._over_tp(change, tensor, source_op, target_op, times, Partial(), None)

    def _over_tp(
        self, change: TpChange, tensor: str, source_op: str, target_op: str, times: int,
        old: Placement, new: Placement | None,
    ) -> BoxingDecision:  # fmt: skip
        mesh, tiling = self._mesh(Axis.TP, self.shape.tiling.tp), self.shape.tiling
        source, target = _placed(mesh, old), _placed(mesh, new)
        of_shape = (tiling.micro_batch, *change.shape)
        advice = None
        if isinstance(old, Partial) and new is None and change.positions is not None:
            advice = _split_advice(source, target, of_shape, 1 + change.positions, tiling.compute_bytes)
        return self._decision(tensor, source_op, target_op, source, target, of_shape, times=times, advice=advice)

    def _replicated(self) -> Iterator[BoxingDecision]:
        numel = summed_numel(self.shape, self.stages, self._rank)
        if numel:
            mesh = self._mesh(Axis.TP, self.shape.tiling.tp)
            yield self._decision(
                "gradients that tp ranks know in part",
                "backward",
                "optimizer",
                _placed(mesh, Partial()),
                _placed(mesh, None),
                (numel,),
                times=1,
                item_bytes=_FLOAT_BYTES,
            )

    # -- between stages ----------------------------------------------------------------------------------------------

    def between_stages(self) -> Iterator[BoxingDecision]:
        shape, schedule = self.shape, self.shape.schedule
        for stage in self.stages:
            if shape.is_last(stage) or schedule.rank_of(stage + 1) == self.pp_rank:
                continue
            edge = shape.edge(stage)
            split = _split_of(edge) if shape.tiling.sequence_parallel else None
            here = self._mesh(Axis.TP, shape.tiling.tp)
            there = _Rank(shape, schedule.rank_of(stage + 1), self.dtype)._mesh(Axis.TP, shape.tiling.tp)
            for tensor, source, target, source_op, target_op in (
                ("stream", here, there, f"{stage}F", f"{stage + 1}F"),
                ("stream's gradient", there, here, f"{stage + 1}B", f"{stage}B"),
            ):
                yield self._decision(
                    tensor,
                    source_op,
                    target_op,
                    _placed(source, split),
                    _placed(target, split),
                    (shape.tiling.micro_batch, *edge.shape),
                    times=self.num_mb,
                )

    # -- over dp -----------------------------------------------------------------------------------------------------

    def over_dp(self) -> Iterator[BoxingDecision]:
        shape = self.shape
        replicas, sharded = shape.mesh.axis_size(Axis.DP_REPLICATE), shape.mesh.axis_size(Axis.DP_SHARD)
        size = replicas * sharded * shape.tiling.tp
        if replicas * sharded == 1 or size > MAX_MESH:
            return
        axes = ((Axis.DP_REPLICATE, replicas), (Axis.DP_SHARD, sharded), (Axis.TP, shape.tiling.tp))
        mesh = Mesh(axes=tuple(axis for axis in axes if axis[1] > 1), first_rank=self._rank)
        by_tp: dict[Axis, Placement] = {Axis.TP: Split(0)} if shape.tiling.tp > 1 else {}
        by_times: Counter[int] = Counter()
        for unit, times in gathered_units(shape, self.stages, self._rank):
            by_times[times] += shape.tiling.tp * unit
        numel = by_times.total()
        whole = Layout(by_tp)
        held = Layout({**by_tp, Axis.DP_SHARD: Split(0)}) if sharded > 1 else whole
        sums: dict[Axis, Placement] = {Axis.DP_REPLICATE: Partial()} if replicas > 1 else {}
        if sharded > 1:
            before = Layout({**by_tp, **sums, Axis.DP_SHARD: Partial()})
            after = Layout({**by_tp, **sums, Axis.DP_SHARD: Split(0)})
            forward = "forward" if shape.zero < 3 else "forward and backward"
            for times, gathered in sorted(by_times.items()):
                yield self._on(mesh, "weights", "optimizer", forward, held, whole, gathered, times)
            yield self._on(mesh, "gradients", "backward", "shards", before, after, numel, self._num_scatters)
        if replicas > 1:
            source = Layout({**held.placements, **sums})
            yield self._on(mesh, "gradients of replicas", "shards", "optimizer", source, held, numel, 1)

    @property
    def _num_scatters(self) -> int:
        return self.num_mb if self.shape.zero >= 2 else 1

    def _on(
        self, mesh: Mesh, tensor: str, source_op: str, target_op: str, old: Layout, new: Layout, numel: int, times: int
    ) -> BoxingDecision:
        """A decision on the flat parameters of the stage, float32 but where they are gathered for a compute."""
        return self._decision(
            tensor,
            source_op,
            target_op,
            Placed(mesh=mesh, layout=old),
            Placed(mesh=mesh, layout=new),
            (numel,),
            times=times,
            item_bytes=None if tensor == "weights" else _FLOAT_BYTES,
        )

    def tied_ends(self) -> Iterator[BoxingDecision]:
        shape, schedule = self.shape, self.shape.schedule
        other = schedule.rank_of(len(shape.stage_layers) - 1)
        if other == self.pp_rank or not shape.model.tied or 0 not in self.stages:
            return
        last = _Rank(shape, other, self.dtype)._rank
        # Two ranks that need not be neighbours: the mesh of a route holds consecutive ranks, so these stand for them.
        mesh = Mesh(axes=((Axis.PP, 2),), first_rank=self._rank)
        yield self._decision(
            f"gradient of {', '.join(sorted(shape.model.tied))} on ranks {self._rank} and {last}",
            "backward",
            "optimizer",
            _placed(mesh, Partial()),
            _placed(mesh, None),
            (tied_numel(shape, self._rank),),
            times=1,
            item_bytes=_FLOAT_BYTES,
        )

    # -- each --------------------------------------------------------------------------------------------------------

    @property
    def _rank(self) -> int:
        return self.shape.mesh.rank_at({Axis.PP: self.pp_rank})

    def _mesh(self, axis: Axis, size: int) -> Mesh:
        return Mesh(axes=((axis, size),), first_rank=self._rank)

    def _decision(
        self,
        tensor: str,
        source_op: str,
        target_op: str,
        source: Placed,
        target: Placed,
        of_shape: tuple[int, ...],
        *,
        times: int,
        item_bytes: int | None = None,
        advice: str | None = None,
    ) -> BoxingDecision:
        size = self.shape.tiling.compute_bytes if item_bytes is None else item_bytes
        runs = route_through([source, target], shape=of_shape, item_bytes=size)
        best = find_route(source, target, shape=of_shape, item_bytes=size)
        if advice is None and (best.received_bytes, best.cross_bytes) < (runs.received_bytes, runs.cross_bytes):
            moves = " -> ".join(step.builder for step in best.steps)
            advice = (
                f"{moves} would receive {best.received_bytes:,} bytes, {best.cross_bytes:,} of them between meshes, "
                f"not {runs.received_bytes:,} and {runs.cross_bytes:,}"
            )
        return BoxingDecision(
            pp_rank=self.pp_rank,
            tensor=tensor,
            source_op=source_op,
            target_op=target_op,
            dtype=self.dtype if item_bytes is None else "float32",
            times=times,
            runs=runs,
            best=best,
            advice=advice,
        )


def _placed(mesh: Mesh, placement: Placement | None) -> Placed:
    """A layout by one placement over the mesh's one axis; None: whole on each rank."""
    return Placed(mesh=mesh, layout=Layout({} if placement is None else {mesh.axes[0][0]: placement}))


def _split_of(edge: Edge) -> Placement | None:
    """How split positions place what passes over an edge, behind the batch's dim."""
    return None if edge.positions is None else Split(1 + edge.positions)


def _split_advice(source: Placed, target: Placed, shape: tuple[int, ...], dim: int, item_bytes: int) -> str:
    """Partial sums that are made whole at once, against sums that are split first and gathered where needed."""
    split = _placed(source.mesh, Split(dim))
    whole = find_route(source, target, shape=shape, item_bytes=item_bytes).received_bytes
    scattered = find_route(source, split, shape=shape, item_bytes=item_bytes).received_bytes
    return (
        f"{source} to {target} receives {whole:,} bytes; to {split} {scattered:,}, and as many where it is needed "
        f"whole; between, each rank holds 1/{source.mesh.size} of it (layout.sequence_parallel=true)"
    )
