"""Gathers of which a rank reads its own part: followed on ranks that gather from themselves, and told."""

import json
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from unit.lens.test_work import NONE, rank_of, work_of

from emberward.findings import Cause
from emberward.lens import wastes_of
from emberward.lens._operations import OwnPart
from emberward.sources._alike import AlikeWatch
from emberward.sources._parts import PartsWatch

STEPS = 2
X = torch.randn(6, 8)


@pytest.fixture(scope="module")
def mesh():
    """Two ranks, of which this is the second; what the first gives is never there, and nobody reads it right."""
    dist.init_process_group("fake", rank=1, world_size=2, store=FakeStore())
    yield init_device_mesh("cpu", (2,))
    dist.destroy_process_group()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x, between):
        hidden = self.up(x)  # Asks.
        return self.down(between(hidden))


def found(mesh, plan, between):
    net = parallelize_module(Net(), mesh, plan)
    watch = PartsWatch()
    watch.start()
    for _ in range(STEPS):
        net(X, between).sum().backward()
        watch.stepped()
    watch.stop()
    assert _get_current_dispatch_mode_stack() == []
    return [line["parts"] for line in watch.lines()]


WHOLE_BETWEEN = {
    "up": ColwiseParallel(output_layouts=Replicate()),
    "down": RowwiseParallel(input_layouts=Replicate()),
}
KEPT = {"up": ColwiseParallel(), "down": RowwiseParallel()}


@pytest.mark.parametrize(
    "between",
    [
        torch.relu,
        lambda x: torch.nn.functional.dropout(torch.nn.functional.gelu(x), 0.1),
        lambda x: x.view(2, 3, 16).mul(2).flatten(0, 1),
    ],
    ids=["relu", "gelu and dropout", "views"],
)
def test_what_is_gathered_between_layers_that_split_it_again_is_seen_forward_and_backward(mesh, between):
    parts = found(mesh, WHOLE_BETWEEN, between)
    assert [of_gather for _, *of_gather, _ in parts] == [
        [6 * 16 * 4, 6 * 8 * 4, False, False, 1.0],
        [6 * 16 * 4, 6 * 8 * 4, True, False, 1.0],
    ]
    assert all(took_ns > 0 for *_, took_ns in parts)


@pytest.mark.parametrize(
    ("plan", "between"),
    [
        (KEPT, torch.relu),
        (WHOLE_BETWEEN, lambda x: torch.softmax(x, -1)),
        (WHOLE_BETWEEN, lambda x: x - x.mean(-1, keepdim=True)),
        ({"up": ColwiseParallel(output_layouts=Replicate())}, torch.relu),
    ],
    ids=["parts that are kept", "a softmax over all", "a mean over all", "a layer after it that is whole"],
)
def test_what_reads_all_parts_needs_the_gather(mesh, plan, between):
    assert found(mesh, plan, between) == []


def test_a_gather_that_is_read_whole_besides_is_needed(mesh):
    kept = []
    assert found(mesh, WHOLE_BETWEEN, lambda x: kept.append(x.sum(0)) or torch.relu(x)) == []


def gathered(mesh, reads):
    weight = distribute_tensor(torch.randn(16, 8), mesh, [Shard(1)])
    watch = PartsWatch()
    watch.start()
    with torch.no_grad():
        reads(weight.full_tensor())
    watch.stepped()
    watch.stop()
    return [(num_bytes, gathers) for _, num_bytes, *_, gathers, _ in (line["parts"] for line in watch.lines())]


@pytest.mark.parametrize(
    "reads",
    [lambda x: x.square().sum(), lambda x: x.norm(), lambda x: torch._foreach_norm([x]), lambda x: x.abs().max()],
    ids=["a sum of squares", "a norm", "norms of several", "the largest"],
)
def test_what_is_gathered_for_one_number_is_seen(mesh, reads):
    assert gathered(mesh, reads) == [(16 * 8 * 4, 1.0)]


@pytest.mark.parametrize(
    "reads",
    [lambda x: x.sum(1), lambda x: x @ torch.ones(8, 2), lambda x: (x.norm(), x.mean(0)), lambda x: x.numpy()],
    ids=["sums of rows", "a product", "a norm and means", "nothing that is seen"],
)
def test_what_is_gathered_for_more_is_not(mesh, reads):
    assert gathered(mesh, reads) == []


def test_what_another_watch_reads_counts_for_nothing(mesh):
    weight = distribute_tensor(torch.randn(16, 8), mesh, [Shard(0)])
    is_own = []
    watch = PartsWatch(lambda: bool(is_own))
    watch.start()
    whole = weight.full_tensor()
    is_own.append(True)
    whole.detach().reshape(-1).clone()
    is_own.clear()
    whole.norm()
    watch.stepped()
    watch.stop()
    assert len([*watch.lines()]) == 1


def test_what_it_asks_of_tensors_itself_the_program_is_not_taken_to_ask(mesh):
    watch, other = PartsWatch(), AlikeWatch()
    watch.start()
    other.start()
    try:
        dist._broadcast_coalesced(mesh.get_group(), [torch.ones(16), torch.ones(16)], 1 << 20, 0)
        assert other._lent == set()
    finally:
        other.stop()
        watch.stop()


class LeavesAll(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_under_a_mode_of_the_program_s_nothing_is_followed(mesh):
    watch = PartsWatch()
    with LeavesAll():
        watch.start()
        assert len(_get_current_dispatch_mode_stack()) == 1
    watch.stop()
    assert [*watch.lines()] == []


def test_results_are_the_same(mesh):
    given = distribute_tensor(X, mesh, [Shard(0)])
    plain = given.redistribute(mesh, [Replicate()]).to_local()
    watch = PartsWatch()
    watch.start()
    watched = given.redistribute(mesh, [Replicate()]).to_local()
    watch.stop()
    assert torch.equal(plain[3:], watched[3:])


HIDDEN = json.dumps([[[3, 16], [6, 16]], ["float", "float"]])


class Heads(torch.nn.Module):
    def __init__(self, between):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(8, 16)
        self.between = between

    def forward(self, x):
        asks, keys = self.up(x), self.down(self.between(x))  # Asks twice.
        return (asks * keys).relu()


def added_to(x):
    with torch.no_grad():
        return x.add_(1)


@pytest.mark.parametrize(
    ("between", "again"), [(lambda x: x, 1.0), (added_to, 0), (lambda x: x + 1, 0)], ids=["one", "written", "another"]
)
def test_what_the_step_has_gathered_already_is_seen_unless_it_was_written(mesh, between, again):
    split = ColwiseParallel(input_layouts=Shard(0))
    net = parallelize_module(Heads(between), mesh, {"up": split, "down": split})
    watch = PartsWatch()
    watch.start()
    for _ in range(STEPS):
        net(torch.rand(6, 8)).sum().backward()
        watch.stepped()
    watch.stop()
    parts = [line["parts"] for line in watch.lines()]
    line = Heads.forward.__code__.co_firstlineno + 1
    assert [(where[0], is_again, number) for where, _, _, _, is_again, number, _ in parts] == (
        [((__file__, line), True, again)] if again else []
    )


def told(number, parts):
    rows = [("emberward::at train.py:5", NONE, 0.0, 9.0, -1, False)]
    for index in range(2):
        rows += [
            ("c10d::_allgather_base_", HIDDEN, 1.0 + index, 0.1, -1, False),
            ("_c10d_functional::wait_tensor", NONE, 1.1 + index, 0.5, -1, False),
            ("gloo:all_gather", HIDDEN, 1.0 + index, 0.6, -1, True),
        ]
    return replace(rank_of(number, rows), own_parts=parts)


def test_they_are_told_at_the_forward_s_line_with_what_they_keep_and_make_dearer():
    where = (("net.py", 13), ("train.py", 5))
    parts = (
        OwnPart(where, 384, 192, is_backward=False, gathers=1.0, took_s=0.0002),
        OwnPart((("train.py", 9),), 384, 192, is_backward=True, gathers=1.0, took_s=0.0001),
    )
    ranks = [told(number, parts) for number in (0, 1)]
    (waste,) = wastes_of(work_of(ranks), ranks)
    assert (waste.cause, waste.site) == (Cause.GATHERED_TWICE, "net.py:13")
    assert waste.cost_s == pytest.approx(2 * 0.0006 + 0.0003, rel=0.1)
    plain = [replace(rank, own_parts=()) for rank in ranks]
    assert wastes_of(work_of(plain), plain) == ()


def test_gathers_of_what_is_there_cost_their_share_of_all_of_their_size():
    parts = (OwnPart((("net.py", 17), ("train.py", 5)), 384, 192, False, gathers=1.0, took_s=0.0, is_again=True),)
    ranks = [replace(told(number, parts), free_bytes=1 << 20) for number in (0, 1)]
    (waste,) = wastes_of(work_of(ranks), ranks)
    assert (waste.cause, waste.site) == (Cause.GATHERED_TWICE, "net.py:17")
    assert waste.cost_s == pytest.approx(0.5 * 2 * 0.0006, rel=0.1)
