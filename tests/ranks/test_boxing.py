"""Boxing routes on real tensors over gloo: every ordered pair of layouts, uneven sizes, within and between meshes."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from unit.plan.boxing_numpy import check_holds, layouts, scatter

from emberward import boxing
from emberward.engine import groups_of_route, run_route
from emberward.layout import Axis, Mesh, local_shape
from emberward.plan import Placed, find_route

DP, TP = Axis.DP_SHARD, Axis.TP
SHAPE = (5, 3)


def line(size: int, first: int = 0) -> Mesh:
    return Mesh(axes=((TP, size),), first_rank=first)


def grid(first: int = 0) -> Mesh:
    return Mesh(axes=((DP, 2), (TP, 2)), first_rank=first)


PAIRS = {
    "2": (line(2), line(2), 2),
    "4": (line(4), line(4), 4),
    "2x2": (grid(), grid(), 4),
    "2 to 2 elsewhere": (line(2), line(2, 2), 4),
    "2x2 to 2x2 elsewhere": (grid(), grid(4), 8),
    "4 to 2x2 on the same ranks": (line(4), grid(), 4),
    "2x2 to 3 that overlap": (grid(), line(3, 2), 5),
}


def routes_between(here: Mesh, there: Mesh):
    """(source, target, route) of every ordered pair of layouts, in one order."""
    for before, after in itertools.product(layouts(here, 2), layouts(there, 2)):
        source, target = Placed(mesh=here, layout=before), Placed(mesh=there, layout=after)
        yield source, target, find_route(source, target, shape=SHAPE, item_bytes=4)


def moved_by_users(rank, world_size):
    """docs/boxing.md's program, and the same in bf16 and float32 to other ranks; None where nothing is held."""
    scope: dict[str, object] = {"print": lambda *words: None}
    text = (Path(__file__).parents[2] / "docs" / "boxing.md").read_text(encoding="utf-8")
    exec(text.split("```python\n")[1].split("```")[0], scope)
    mine = scope["mine"]
    assert (mine is None) is (rank < 2)
    assert mine is None or torch.equal(mine, torch.full((6, 4), 2.0, dtype=torch.bfloat16))
    ends = []
    for dtype in (torch.bfloat16, torch.float32):
        here = boxing.Placed(mesh=line(2), layout=boxing.Layout({TP: boxing.Partial("sum")}))
        there = boxing.Placed(mesh=line(2, 2), layout=boxing.Layout({TP: boxing.Split(0)}))
        change = boxing.Boxing(here, there, shape=SHAPE, dtype=dtype)
        held = torch.arange(15).reshape(SHAPE).to(dtype) if rank < 2 else None
        end = change(held)
        ends.append(None if end is None else (str(end.dtype), end.float().tolist()))
        with pytest.raises(ValueError, match=f"rank {rank} holds"):
            change(torch.zeros(1))
    return ends


def test_users_change_layouts_in_bf16_and_float32(pool):
    answers = pool.run(moved_by_users, 4)
    whole = (2 * np.arange(15).reshape(SHAPE)).astype(float)
    assert answers[:2] == [[None, None]] * 2
    assert answers[2:] == [
        [(name, part.tolist()) for name in ("torch.bfloat16", "torch.float32")] for part in (whole[:3], whole[3:])
    ]


PAIRED = layouts(line(2), 2, partials=("sum", "avg", "max"))


def grads_of_users(rank, world_size):
    """For every ordered pair of layouts (what autograd gave, or the ValueError; what `gradient` gave) on this rank.

    The loss is sum(weights * tensor); each rank's result gets its part of the weights as its gradient.
    """
    weights = np.arange(1.0, 16).reshape(SHAPE)
    ends = []
    for before, after in itertools.product(PAIRED, PAIRED):
        source, target = boxing.Placed(mesh=line(2), layout=before), boxing.Placed(mesh=line(2), layout=after)
        change = boxing.Boxing(source, target, shape=SHAPE)
        held = torch.zeros(local_shape(SHAPE, before, line(2), rank), requires_grad=True)
        given = torch.from_numpy(of_gradient(weights, target)[rank]).float()
        result = change(held)
        try:
            result.backward(given)
            ends.append(held.grad.numpy())
        except ValueError as error:
            ends.append(str(error))
    return ends


def of_gradient(weights, placed):
    """The gradient of sum(weights * tensor) by each rank's part of the tensor, which lies as `placed`."""
    whole = {axis: placed.layout.on(axis) for axis, _ in placed.mesh.axes}
    shares = 1
    for axis, size in placed.mesh.axes:
        if isinstance(whole[axis], boxing.Partial):
            shares *= size if whole[axis].reduce_op == "avg" else 1
            whole[axis] = boxing.Broadcast()
    lies = boxing.Placed(mesh=placed.mesh, layout=boxing.Layout(whole))
    return scatter(weights / shares, lies, np.random.default_rng(0))


def test_autograd_goes_through_every_ordered_pair_of_layouts(pool):
    weights = np.arange(1.0, 16).reshape(SHAPE)
    answers = pool.run(grads_of_users, 2)
    pairs = list(itertools.product(PAIRED, PAIRED))
    for number, (before, after) in enumerate(pairs):
        expected = of_gradient(weights, boxing.Placed(mesh=line(2), layout=before))
        for rank, ends in enumerate(answers):
            if any(word in f"{before} {after}" for word in ("max", "min")):
                assert "has no gradient" in ends[number]
            else:
                np.testing.assert_allclose(ends[number], expected[rank], rtol=1e-6)


def grads_between_meshes(rank, world_size):
    """A stage on 2 ranks gives its columns whole to one on 3, each of which has a share of the loss."""
    here = boxing.Placed(mesh=line(2), layout=boxing.Layout({TP: boxing.Split(0)}))
    there = boxing.Placed(mesh=line(3, 2), layout=boxing.Layout({TP: boxing.Broadcast()}))
    change = boxing.Boxing(here, there, shape=SHAPE, gradient=boxing.Layout({TP: boxing.Partial("sum")}))
    result = change(torch.ones(SHAPE)[3 * rank : 3 * rank + 3] if rank < 2 else None)
    grad = change.gradient(None if result is None else torch.full(SHAPE, float(rank)))
    return None if grad is None else grad.numpy()


def test_a_gradient_goes_back_between_meshes_of_different_shape(pool):
    first, second, *others = pool.run(grads_between_meshes, 5)
    assert others == [None] * 3
    np.testing.assert_array_equal(first, np.full((3, 3), 2.0 + 3.0 + 4.0))
    np.testing.assert_array_equal(second, np.full((2, 3), 2.0 + 3.0 + 4.0))


def run_all(rank, world_size, *, here, there):
    """What this rank holds at the end of each route, or None."""
    value = np.arange(np.prod(SHAPE), dtype=float).reshape(SHAPE) - 4
    rng = np.random.default_rng(5)
    groups: dict[tuple[int, ...], dist.ProcessGroup] = {}
    routes = list(routes_between(here, there))
    for ranks in sorted({group for _, _, route in routes for group in groups_of_route(route)}):
        groups[ranks] = dist.new_group(list(ranks))
    ends = []
    for source, _, route in routes:
        held = scatter(value, source, rng)
        mine = torch.from_numpy(held[rank]).float() if rank in held else None
        end = run_route(route, mine, rank, groups.__getitem__)
        ends.append(None if end is None else end.numpy())
    return ends


@pytest.mark.parametrize("name", PAIRS)
def test_all_ordered_pairs_on_gloo(pool, name):
    here, there, world_size = PAIRS[name]
    value = np.arange(np.prod(SHAPE), dtype=float).reshape(SHAPE) - 4
    answers = pool.run(run_all, world_size, here=here, there=there)
    checked = 0
    for number, (_, target, _) in enumerate(routes_between(here, there)):
        check_holds({rank: answers[rank][number] for rank in there.ranks}, value, target)
        checked += 1
    assert checked == len(layouts(here, 2)) * len(layouts(there, 2)) >= 16
