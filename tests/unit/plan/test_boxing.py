"""Routes between all pairs of layouts: values exact, bytes counted, never dearer than gathering everything."""

import numpy as np
import pytest
from unit.plan.boxing_numpy import check_holds, layouts, run, scatter

from emberward.findings import ConfigError
from emberward.layout import Axis, Broadcast, Layout, Mesh, Partial, Split
from emberward.plan import (
    CSV_HEADER,
    Move,
    Placed,
    advise_partial,
    find_route,
    naive_route,
    route_through,
    transfer_pieces,
)

DP, TP = Axis.DP_SHARD, Axis.TP
ITEM = 4


def line(size: int, first: int = 0, axis: Axis = TP) -> Mesh:
    return Mesh(axes=((axis, size),), first_rank=first)


def grid(first: int = 0) -> Mesh:
    return Mesh(axes=((DP, 2), (TP, 2)), first_rank=first)


PAIRS = {
    "2": (line(2), line(2)),
    "4": (line(4), line(4)),
    "2x2": (grid(), grid()),
    "2 to 2 elsewhere": (line(2), line(2, 2)),
    "4 to 2 elsewhere": (line(4), line(2, 4)),
    "2x2 to 2x2 elsewhere": (grid(), grid(4)),
    "4 to 2x2 on the same ranks": (line(4), grid()),
    "2x2 to 3 that overlap": (grid(), line(3, 2)),
}


@pytest.mark.parametrize("shape", [(5, 3), (4, 4)], ids=str)
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_all_ordered_pairs(name: str, shape: tuple[int, ...]):
    rng = np.random.default_rng(0)
    value = rng.integers(-99, 99, shape).astype(float)
    here, there = PAIRS[name]
    for before in layouts(here, len(shape)):
        source = Placed(mesh=here, layout=before)
        held = scatter(value, source, rng)
        for after in layouts(there, len(shape)):
            target = Placed(mesh=there, layout=after)
            route = find_route(source, target, shape=shape, item_bytes=ITEM)
            found, received = run(route, held)
            check_holds(found, value, target)
            exact = [s for s in route.steps if s.move in (Move.ALL_GATHER, Move.ALL_TO_ALL, Move.TRANSFER)]
            assert received * ITEM == sum(step.received_bytes for step in exact)
            naive = naive_route(source, target, shape=shape, item_bytes=ITEM)
            assert route.received_bytes <= naive.received_bytes, (str(source), str(target))
            check_holds(run(naive, held)[0], value, target)


@pytest.mark.parametrize("op", ["avg", "max", "min"])
def test_other_reductions(op: str):
    rng = np.random.default_rng(1)
    value = rng.integers(-9, 9, (5, 3)).astype(float)
    mesh = line(4)
    for before in layouts(mesh, 2, partials=(op,)):
        for after in layouts(mesh, 2, partials=(op,)):
            source, target = Placed(mesh=mesh, layout=before), Placed(mesh=mesh, layout=after)
            route = find_route(source, target, shape=value.shape, item_bytes=ITEM)
            check_holds(run(route, scatter(value, source, rng))[0], value, target)


def test_sum_and_avg_differ_by_a_factor_that_costs_nothing():
    mesh = line(2)
    source, target = (Placed(mesh=mesh, layout=Layout({TP: Partial(op)})) for op in ("sum", "avg"))
    route = find_route(source, target, shape=(4,), item_bytes=ITEM)
    assert [step.move for step in route.steps] == [Move.SCALE] and route.received_bytes == 0
    value = np.arange(4.0)
    check_holds(run(route, scatter(value, source, np.random.default_rng(2)))[0], value, target)


def test_nothing_to_do_is_an_empty_route():
    placed = Placed(mesh=grid(), layout=Layout({DP: Split(0)}))
    route = find_route(placed, placed, shape=(4, 4), item_bytes=ITEM)
    assert route.steps == () and route.log_lines()[0] == "Boxing route: identity"


@pytest.mark.parametrize(
    ("before", "after", "moves", "items"),
    [
        (Partial(), Broadcast(), [Move.ALL_REDUCE], 2 * 3 * 8),
        (Partial(), Split(0), [Move.REDUCE_SCATTER], 3 * 8),
        (Split(0), Broadcast(), [Move.ALL_GATHER], 4 * 6),
        (Split(0), Split(1), [Move.ALL_TO_ALL], 4 * 1),
        (Broadcast(), Split(0), [Move.SLICE], 0),
        (Broadcast(), Partial(), [Move.ZERO_PAD], 0),
        (Split(0), Partial(), [Move.ZERO_PAD], 0),
    ],
)
def test_the_cost_of_each_move_on_four_ranks(before, after, moves, items):
    mesh = line(4)
    shape = (4, 2)
    source, target = (Placed(mesh=mesh, layout=Layout({TP: place})) for place in (before, after))
    route = find_route(source, target, shape=shape, item_bytes=ITEM)
    assert [step.move for step in route.steps] == moves
    expected = items if moves != [Move.ALL_TO_ALL] else _lacking_s0_to_s1()
    assert route.received_bytes == ITEM * expected


def _lacking_s0_to_s1() -> int:
    """4x2 over 4 ranks: columns go to ranks 0 and 1 only (chunks of one), each lacks 3 of its 4 items."""
    return 2 * 3


def test_two_partials_are_scattered_and_gathered_instead_of_reduced_twice():
    mesh = grid()
    source = Placed(mesh=mesh, layout=Layout({DP: Partial(), TP: Partial()}))
    target = Placed(mesh=mesh, layout=Layout({}))
    route = find_route(source, target, shape=(8, 8), item_bytes=ITEM)
    twice = route_through(
        [source, Placed(mesh=mesh, layout=Layout({DP: Partial()})), target], shape=(8, 8), item_bytes=ITEM
    )
    # 2 (n - 1) / n of the tensor for 4 ranks at once is 1.5, for 2 ranks twice it is 2
    assert route.received_bytes == 4 * 1.5 * 64 * ITEM
    assert twice.received_bytes == 4 * 2 * 64 * ITEM


def route_of_libai_232():
    """The route that seed 0 logs between two stages of 2x2, with each of its hops."""
    whole = Layout({})
    own = Layout({DP: Split(0), TP: Broadcast()})
    ones = [Mesh(axes=((DP, 1), (TP, 1)), first_rank=rank) for rank in (0, 4)]
    return [
        Placed(mesh=grid(), layout=own),
        Placed(mesh=grid(), layout=whole),
        Placed(mesh=ones[0], layout=whole),
        Placed(mesh=ones[1], layout=whole),
        Placed(mesh=grid(4), layout=Layout({DP: Partial(), TP: Partial()})),
        Placed(mesh=grid(4), layout=own),
    ]


def test_the_route_of_seed_0_is_improved():
    hops = route_of_libai_232()
    before = route_through(hops, shape=(256, 100), item_bytes=ITEM)
    after = find_route(hops[0], hops[-1], shape=(256, 100), item_bytes=ITEM)
    assert before.received_bytes == 716_800
    assert after.received_bytes == 204_800 and after.cross_bytes == 102_400
    value = np.random.default_rng(3).integers(-9, 9, (256, 100)).astype(float)
    for route in (before, after):
        held = scatter(value, hops[0], np.random.default_rng(4))
        check_holds(run(route, held)[0], value, hops[-1])
    assert before.log_lines()[2] == (
        "Altered state of sbp: (S(0), B) -> (B, B) -> (B, B) -> (B, B) -> (P, P) -> (S(0), P) -> (S(0), B)"
    )
    assert after.log_lines() == (
        "Boxing route: transfer (S(0), B) to (S(0), S(0)) -> all_gather S(0) to B on tp",
        "Logical shape: (256,100)",
        "Altered state of sbp: (S(0), B) -> (S(0), S(0)) -> (S(0), B)",
        "Altered state of placement: {0 1 2 3 (2 2)} -> {4 5 6 7 (2 2)} -> {4 5 6 7 (2 2)}",
    )


def test_the_reviewers_question_of_seed_0_is_answered():
    """(P, P) after the hop to rank 4: "would (S(0), S(0)) not be better?"."""
    hops = route_of_libai_232()
    advice = advise_partial(hops[3], hops[4], hops[5], shape=(256, 100), item_bytes=ITEM)
    assert advice is not None and str(advice.better) == "(S(0), S(0))"
    assert (advice.partial_bytes, advice.better_bytes) == (409_600, 179_200)
    assert (advice.partial_held_bytes, advice.better_held_bytes) == (409_600, 102_400)


def test_a_partial_that_is_cheapest_gets_no_advice():
    mesh = line(4)
    partial = Placed(mesh=mesh, layout=Layout({TP: Partial()}))
    whole = Placed(mesh=mesh, layout=Layout({}))
    assert advise_partial(partial, partial, whole, shape=(8, 8), item_bytes=ITEM) is None
    assert advise_partial(whole, whole, whole, shape=(8, 8), item_bytes=ITEM) is None


def test_a_row_of_the_log():
    hops = route_of_libai_232()
    route = find_route(hops[0], hops[-1], shape=(256, 100), item_bytes=ITEM)
    row = route.csv_row(source_op="layers.1", target_op="layers.2", tensor="layers.1/out_0", dtype="float32")
    import csv

    cells = next(csv.reader([row]))
    assert len(cells) == len(CSV_HEADER.split(","))
    assert dict(zip(CSV_HEADER.split(","), cells, strict=True)) == {
        "src_op_name": "layers.1",
        "dst_op_name": "layers.2",
        "src_parallel_desc": "{0 1 2 3 (2 2)}",
        "dst_parallel_desc": "{4 5 6 7 (2 2)}",
        "src_nd_sbp": "(S(0), B)",
        "dst_nd_sbp": "(S(0), B)",
        "lbi": "layers.1/out_0",
        "dtype": "float32",
        "shape": "(256 100)",
        "builder": "transfer (S(0), B) to (S(0), S(0)) -> all_gather S(0) to B on tp",
        "received_bytes": "204800",
        "comment": "-",
    }


def test_replicas_share_the_sending():
    source = Placed(mesh=line(4), layout=Layout({}))
    target = Placed(mesh=line(4, 4), layout=Layout({TP: Split(0)}))
    route = find_route(source, target, shape=(8,), item_bytes=ITEM)
    assert sorted(piece.source for piece in transfer_pieces(route.steps[0], (8,))) == [0, 1, 2, 3]


def test_groups_of_a_step():
    source = Placed(mesh=grid(), layout=Layout({DP: Split(0)}))
    route = find_route(source, Placed(mesh=grid(), layout=Layout({})), shape=(4, 4), item_bytes=ITEM)
    assert [step.groups for step in route.steps] == [((0, 2), (1, 3))]


def test_layouts_that_no_tensor_can_have_are_refused():
    mesh = grid()
    fine = Placed(mesh=mesh, layout=Layout({}))
    with pytest.raises(ConfigError, match="splits a dim that the tensor does not have"):
        find_route(Placed(mesh=mesh, layout=Layout({DP: Split(2)})), fine, shape=(4, 4), item_bytes=ITEM)
    mixed = Placed(mesh=mesh, layout=Layout({DP: Partial("max"), TP: Partial("sum")}))
    with pytest.raises(ConfigError, match="partial by several kinds of reduction"):
        find_route(mixed, fine, shape=(4, 4), item_bytes=ITEM)
