"""Operations of a job: observed in this process and held against torch's own counter; steps written down here."""

import dataclasses
import json
import math

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from emberward.events import Group, Lane, LaneKind
from emberward.findings import Cause
from emberward.lens import (
    PARTS,
    Call,
    Instruction,
    Rate,
    Sources,
    checkpointed_at,
    operations_of,
    page_text,
    profile_of,
    read_operations,
    samples_of,
    wastes_of,
    work_of,
)
from emberward.lens._operations import OwnPart
from emberward.sources import _operations
from emberward.sources._operations import NUM_STEPS, OperationProbe

HEAD = {"rank": 0, "world_size": 1, "device": "cpu", "device_name": "cpu"}


class Attends(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return self.out(torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Pictures(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)

    def forward(self, x):
        return self.layer(x.reshape(8, 3, 16, 16))


class Again(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))

    def forward(self, x):
        return checkpoint(self.layers, x, use_reentrant=False)


MODELS = {
    "products": (lambda: torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)), 64),
    "attention": (Attends, (16, 32)),
    "convolution": (Pictures, 768),
    "again": (Again, 64),
}


def observed(tmp_path, name):
    """The work of NUM_STEPS steps of a model in this process, and what torch's counter says of one."""
    make, shape = MODELS[name]
    torch.manual_seed(1)
    model = make()
    x = torch.randn(8, *((shape,) if isinstance(shape, int) else shape), requires_grad=True)

    def step():
        model(x).square().mean().backward()
        model.zero_grad()

    step()
    with FlopCounterMode(display=False) as counter:
        step()
    probe = OperationProbe(tmp_path / "rank.ops", head=lambda: HEAD)
    probe.start()
    for _ in range(NUM_STEPS):
        step()
        probe.stepped()
    probe.write()
    assert not torch.nn.modules.module._global_forward_hooks
    # torch's counter (2.13) leaves the processor's fused attention out: two products forward and five backward.
    uncounted = 7 * 2 * 8 * 4 * 16 * 16 * 8 if name == "attention" else 0
    return read_operations(tmp_path / "rank.ops"), counter.get_total_flops() + uncounted


@pytest.mark.parametrize("name", MODELS)
def test_operations_are_those_of_torch_s_own_counter_and_the_parts_add_up_to_the_step(tmp_path, name):
    rank, flops = observed(tmp_path, name)
    work = work_of([rank], peak=Rate(flops_per_s=1e12, name="a peak"))
    assert sum(work.flops.values()) == sum(work.modules.values()) == flops
    assert work.recomputed == (2 * 8 * 64 * 64 if name == "again" else 0)
    assert "outside any module" not in work.modules
    assert set(work.waterfall) == set(PARTS)
    assert all(seconds >= 0 for seconds in work.waterfall.values())
    lasted_s = (rank.bounds_s[-1] - rank.bounds_s[0]) / NUM_STEPS
    assert sum(work.waterfall.values()) == pytest.approx(lasted_s, rel=0.02)
    assert work.waterfall["model"] == pytest.approx((flops - work.recomputed) / 1e12)
    assert (work.waterfall["recompute"] > 0) == (name == "again")
    assert work.num_parameters == sum(each.numel for each in rank.parameters) > 0


def test_a_penalty_on_gradients_computes_no_forward_again(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))
    x = torch.randn(8, 64, requires_grad=True)
    probe = OperationProbe(tmp_path / "rank.ops", head=lambda: HEAD)
    probe.start()
    for _ in range(NUM_STEPS):
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.norm(dim=1).mean().backward()
        model.zero_grad()
        probe.stepped()
    probe.write()
    work = work_of([read_operations(tmp_path / "rank.ops")])
    assert work.recomputed == 0 < sum(work.flops.values())


def test_memory_is_not_gone_through_for_steps_without_a_collective(tmp_path, monkeypatch):
    def walked(result):
        raise AssertionError("gone through")

    monkeypatch.setattr(_operations, "accesses_of", walked)
    probe = OperationProbe(tmp_path / "rank.ops", head=lambda: HEAD)
    probe.start()
    for _ in range(NUM_STEPS):
        torch.ones(3).mul(2)
        probe.stepped()
    probe.write()
    assert read_operations(tmp_path / "rank.ops").num_steps == NUM_STEPS


def test_a_profiler_of_the_program_ends_ours_and_runs(tmp_path):
    probe = OperationProbe(tmp_path / "rank.ops", head=lambda: HEAD)
    probe.start()
    torch.ones(3).sum()
    with torch.profiler.profile() as own:
        torch.ones(3).mul(2)
    assert not probe.stepped()
    assert any(event.name == "aten::mul" for event in own.events())
    with torch.profiler.profile():
        late = OperationProbe(tmp_path / "late.ops", head=lambda: HEAD)
        late.start()
        assert not late.is_on
    probe.write()
    assert "profiler of its own" in read_operations(tmp_path / "rank.ops").why_short


def test_a_net_that_follows_another_one_without_no_grad_is_observed(tmp_path):
    model, slow = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4).requires_grad_(False)
    torch._foreach_lerp_(list(slow.parameters()), list(model.parameters()), 0.1)
    assert not slow.weight.is_leaf  # An operation has written into it, so it is the graph's now.
    probe = OperationProbe(tmp_path / "rank.ops", head=lambda: HEAD)
    probe.start()
    for _ in range(NUM_STEPS):
        (model(torch.ones(4)) - slow(torch.ones(4)).detach()).square().mean().backward()
        probe.stepped()
    probe.write()
    rank = read_operations(tmp_path / "rank.ops")
    assert (rank.num_steps, rank.why_short) == (NUM_STEPS, None)


def test_a_hook_that_fails_ends_the_observation_and_not_the_program(tmp_path, monkeypatch):
    def fails(watch, module):
        raise ValueError("no such thing")

    monkeypatch.setattr(_operations.GradientWatch, "watch", fails)
    probe = OperationProbe(tmp_path / "rank.ops", head=lambda: HEAD)
    probe.start()
    assert torch.nn.Linear(4, 4)(torch.ones(4)).shape == (4,)
    assert not probe.is_on and not torch.nn.modules.module._global_forward_pre_hooks
    assert not probe.stepped()
    probe.write()
    assert read_operations(tmp_path / "rank.ops").why_short == "ValueError while it was observed: no such thing"


# -- steps that are written down ---------------------------------------------------------------------------------------

STEP_MS = 10.0
MM = json.dumps([[[64, 64], [64, 64]], ["float", "float"]])
BUCKET = json.dumps([[[1000]], ["float"]])
GATHER = json.dumps([[[250_000], [125_000]], ["float", "float"]])
TINY = json.dumps([[[200], [100]], ["float", "float"]])


def rank_of(number, rows, *, steps=NUM_STEPS, parameters=(), free=1 << 40, some=(), some_steps=0):
    """`rows`: name, shapes, begin and length in ms of a step, sequence, whether it is asynchronous; in each step.

    `some` of them are in the first `some_steps` alone.
    """
    words = ["emberward::at start", "[[], []]"]
    ops = [[0, 1, 1, 0, 1000, -1, 0, 0]]
    for step in range(steps):
        for name, shapes, begin, length, sequence, is_async in [*rows, *(some if step < some_steps else ())]:
            for word in (name, shapes):
                if word not in words:
                    words.append(word)
            at = int((step * STEP_MS + begin) * 1e6)
            kind = words.index(shapes)
            ops.append(
                [words.index(name), kind, 2 if is_async else 1, at, int(length * 1e6), sequence, 0, int(is_async)]
            )
    head = {
        **HEAD,
        "form": 1,
        "rank": number,
        "offset_ns": 0,
        "bounds_ns": [int(k * STEP_MS * 1e6) for k in range(steps + 1)],
        "threads": 1,
        "free_bytes": free,
        "why_short": None,
        "is_cut": False,
    }
    rest = [{"parameter": list(each)} for each in parameters]
    return operations_of([head, *rest, *({"word": w} for w in words), *({"op": o} for o in ops), {"end": True}])


NONE = "[[], []]"


def ddp(number, *, compute_ms):
    """A rank whose backward issues a sum at its end, waits for it, and has 1 ms between operations after it."""
    return rank_of(
        number,
        [
            ("aten::mm", MM, 0.0, compute_ms, 3, False),
            ("emberward::backward train.py:9", NONE, compute_ms, 9.0 - compute_ms, -1, False),
            ("c10d::allreduce_", NONE, compute_ms, 0.01, -1, False),
            ("gloo:all_reduce", BUCKET, compute_ms + 0.1, 9.0 - compute_ms - 0.1, -1, True),
        ],
    )


def test_a_wait_inside_the_backward_is_exposed_and_before_the_last_rank_it_is_imbalance():
    work = work_of([ddp(0, compute_ms=2.0), ddp(1, compute_ms=6.0)], stalls_s={0: 0.0004, 1: 0.0004})
    early, late = ({name: round(1000 * seconds, 3) for name, seconds in rank.parts.items()} for rank in work.ranks)
    expected = dict.fromkeys(PARTS, 0.0) | {"stalls": 0.4, "small_kernels": 0.6}
    assert early == expected | {"products": 2.0, "exposed": 3.0, "imbalance": 4.0}
    assert late == expected | {"products": 6.0, "exposed": 3.0}
    assert work.flops == {"mm": 2 * 2 * 64**3}


def by_brute_force(rank, grid=4000):
    """Exposed milliseconds a step, asked of each of many moments: is nothing running and a call waited for?"""
    ops = [op for op in rank.operations if op.thread == rank.main]
    calls = [op for op in rank.operations if op.is_async]
    begin, end = rank.bounds_s[0], rank.bounds_s[-1]
    total = 0
    for k in range(grid):
        at = begin + (end - begin) * (k + 0.5) / grid
        here = [op.name for op in ops if op.began_s <= at < op.ended_s]
        runs = any(name.startswith("aten::") for name in here)
        waits = any(name.startswith(("emberward::backward", "c10d::", "FSDP::")) for name in here)
        total += waits and not runs and any(op.began_s - 0.0001 <= at < op.ended_s for op in calls)
    return 1000 * total * (end - begin) / grid / rank.num_steps


def test_exposed_time_is_that_of_an_independent_computation_on_the_same_trace():
    ranks = [ddp(0, compute_ms=2.0), ddp(1, compute_ms=6.0)]
    for rank, own in zip(ranks, work_of(ranks).ranks, strict=True):
        assert 1000 * (own.parts["exposed"] + own.parts["imbalance"]) == pytest.approx(by_brute_force(rank), rel=0.01)


def sharded(number, *, again, shape=GATHER, units=6, free=1 << 40, more=()):
    """`units` gathered in the forward, and `again` in the backward; each is waited for 0.4 ms."""
    rows = []
    for k in range(units * (2 if again else 1)):
        begin, unit = 0.5 * k, f"blocks.{k % units}"
        rows += [
            (f"FSDP::all_gather ({unit})", NONE, begin, 0.4, -1, False),
            ("c10d::_allgather_base_", shape, begin, 0.01, -1, False),
            ("gloo:all_gather", shape, begin + 0.01, 0.39, -1, True),
            (f"FSDP::all_gather_copy_out ({unit})", NONE, begin + 0.45, 0.01, -1, False),
        ]
    line = ("emberward::at train.py:5", NONE, 0.0, 9.0, -1, False)
    return rank_of(number, [line, *rows, *more], free=free)


def test_a_gather_that_is_done_again_is_named_where_memory_is_there():
    ranks = [sharded(number, again=True) for number in (0, 1)]
    (waste,) = wastes_of(work_of(ranks), ranks)
    assert (waste.cause, waste.site, waste.ranks) == (Cause.GATHERED_TWICE, "train.py:5", (0, 1))
    assert waste.cost_s == pytest.approx(6 * 0.0004, rel=0.05)
    for innocent in ([sharded(n, again=False) for n in (0, 1)], [sharded(n, again=True, free=10_000) for n in (0, 1)]):
        assert wastes_of(work_of(innocent), innocent) == ()


def test_of_gathers_that_nobody_names_each_that_is_made_again_is_kept_whole():
    def unnamed(number, free):
        named = sharded(number, again=True, free=free)
        kept = [op for op in named.operations if not op.name.startswith("FSDP::")]
        return dataclasses.replace(named, operations=tuple(kept))

    def asked(number):
        steps = [(step * STEP_MS + 0.5 * k) / 1000 for step in range(NUM_STEPS) for k in range(6, 12)]
        return [
            Call(
                rank=number, lane=Lane(kind=LaneKind.HOST), group=Group(ranks=(0, 1), index=0), number=index,
                op="all_gather", num_bytes=1_000_000, issued_s=at_s, ended_s=at_s + 0.0004, blocked_s=at_s,
                free_s=at_s + 0.0004, file="train.py", line=8, wait_line=8,
            )
            for index, at_s in enumerate(steps)
        ]  # fmt: skip

    again = {number: asked(number) for number in (0, 1)}
    blocked = {number: [(call.blocked_s, call.free_s) for call in calls] for number, calls in again.items()}

    def wastes(free, own_parts=()):
        ranks = [dataclasses.replace(unnamed(number, free), own_parts=own_parts) for number in (0, 1)]
        return wastes_of(work_of(ranks, blocked=blocked), ranks, again, (), again)

    (waste,) = wastes(12_000_000)
    assert (waste.cause, waste.site) == (Cause.GATHERED_TWICE, "train.py:8")
    assert waste.evidence[1].startswith("kept whole they take 6,000,000 bytes a rank")
    assert wastes(11_999_999) == ()
    # Where the rank reads what it gave, that is what is told of these gathers.
    own = OwnPart((("train.py", 8),), 1_000_000, 500_000, is_backward=False, gathers=12.0, took_s=0.0)
    (waste,) = wastes(12_000_000, (own,))
    assert "reads the part that it gave" in waste.evidence[0]


def whole_weight(shape, *, steps=NUM_STEPS):
    """FSDP gathers a unit in each step, and the program gathers the weight in it after the optimizer in so many."""
    own = json.dumps([[], []])
    rows = [
        ("emberward::at train.py:5", NONE, 0.0, 3.0, -1, False),
        ("FSDP::all_gather (block)", NONE, 0.0, 0.4, -1, False),
        ("c10d::_allgather_base_", GATHER, 0.0, 0.01, -1, False),
        ("gloo:all_gather", GATHER, 0.01, 0.39, -1, True),
    ]
    again = [
        ("_c10d_functional::all_gather_into_tensor", shape, 5.0, 0.1, -1, False),
        ("c10d::allgather_into_tensor_coalesced_", own, 5.0, 0.05, -1, False),
        ("gloo:all_gather", shape, 5.0, 2.0, -1, True),
        ("_c10d_functional::wait_tensor", shape, 5.1, 1.9, -1, False),
    ]
    held = [("block.weight", 250_000, 125_000, None)]
    return [rank_of(number, rows, parameters=held, some=again, some_steps=steps) for number in (0, 1)]


def test_a_weight_that_the_program_gathers_itself_beside_fsdp_is_gathered_twice():
    ranks = whole_weight(json.dumps([[[125_000]], ["float"]]))
    work = work_of(ranks)
    assert 1000 * work.waterfall["exposed"] == pytest.approx(2.4, rel=0.05)
    (waste,) = wastes_of(work, ranks)
    assert (waste.cause, waste.cost_s) == (Cause.GATHERED_TWICE, pytest.approx(0.002, rel=0.05))
    frames = tuple(
        Instruction(file, "f", 1, owner, 8, 8, 4, 9, "CALL")
        for file, owner in (("/x/torch/distributed/tensor/_api.py", "platform"), ("health.py", "user"))
    )
    looks = tuple(((step * STEP_MS + 6.0) / 1000, frames) for step in range(NUM_STEPS))
    (waste,) = wastes_of(work, [dataclasses.replace(rank, looks=looks) for rank in ranks])
    assert waste.site == "health.py:8", "a functional collective is in no ring: looks show who waits for it"
    others = whole_weight(json.dumps([[[90_000]], ["float"]]))  # Of another size: numbers of the batch, no weight.
    assert wastes_of(work_of(others), others) == ()
    report = whole_weight(json.dumps([[[125_000]], ["float"]]), steps=1)
    assert wastes_of(work_of(report), report) == ()


def test_all_that_a_line_does_for_such_a_gather_is_its_cost():
    ranks = whole_weight(json.dumps([[[125_000]], ["float"]]))
    frames = (Instruction("health.py", "f", 1, "user", 8, 8, 4, 9, "CALL"),)
    looks = tuple(((step * STEP_MS + 6.0) / 1000, frames) for step in range(NUM_STEPS))
    ranks = [dataclasses.replace(rank, looks=looks) for rank in ranks]
    bounds = [int(step * STEP_MS * 1e6) for step in range(NUM_STEPS + 1)]
    places = [
        ["health.py", "f", 1, "user", 8, 8, 4, 9, "CALL"],
        ["train.py", "<module>", 1, "user", 5, 5, 0, 9, "CALL"],
    ]
    cells = {step: [int(5e6), int(5e6), bounds[step], 0] for step in range(NUM_STEPS)}
    head = {
        "form": 1, "pid": 1, "first_step": 0, "period_ns": 1, "queue_ns": 0, "has_cpu_time": True, "outputs": [],
        "loop": [], "is_last": True, "world_size": 2, "device": "cpu", "bounds_ns": bounds,
    }  # fmt: skip
    samples = [
        samples_of(
            [
                {**head, "rank": rank},
                *({"place": place} for place in places),
                {"stack": [0, 1], "flag": "", "steps": cells, "beside": []},
                {"end": True},
            ]
        )
        for rank in (0, 1)
    ]
    (waste,) = wastes_of(work_of(ranks, samples), ranks, {}, samples)
    assert (waste.cause, waste.site) == (Cause.GATHERED_TWICE, "health.py:8")
    assert waste.cost_s == pytest.approx(0.005)  # 2 ms of it are the gather.


def test_small_units_are_told_at_the_line_that_makes_them():
    ranks = [sharded(number, again=False, shape=TINY) for number in (0, 1)]
    units = (("build.py:3", 800), ("build.py:3", 800), ("build.py:5", 400), ("build.py:7", 1 << 20))
    made = [dataclasses.replace(rank, units=units) for rank in ranks]
    assert [each.site for each in wastes_of(work_of(made), made)] == ["build.py:3"]
    large = [dataclasses.replace(rank, units=(("build.py:7", 1 << 20),)) for rank in ranks]
    assert [each.site for each in wastes_of(work_of(large), large)] == ["train.py:5"]


def test_parameters_too_small_to_be_sharded_are_named_and_large_ones_are_not():
    ranks = [sharded(number, again=False, shape=TINY) for number in (0, 1)]
    (waste,) = wastes_of(work_of(ranks), ranks)
    assert (waste.cause, waste.site) == (Cause.SMALL_PARAMETERS, "train.py:5")


@pytest.mark.parametrize(("marks", "wanted"), [((1.5, 2.5), [Cause.SMALL_PARAMETERS]), ((1.5, 1.5), [])])
def test_gathers_as_large_as_a_parameter_are_of_it_where_ranks_hold_parts_of_it_and_not_where_each_has_it_whole(
    marks, wanted
):
    def own(number):
        asked = sharded(number, again=False, shape=TINY)
        kept = tuple(op for op in asked.operations if not op.name.startswith("FSDP::"))
        parameters = rank_of(number, [], parameters=[("head.bias", 100, 100, marks[number])]).parameters
        return dataclasses.replace(asked, operations=kept, parameters=parameters)

    ranks = [own(number) for number in (0, 1)]
    blocked = {number: [(op.began_s, op.ended_s) for op in ranks[0].operations if op.is_async] for number in (0, 1)}
    assert [each.cause for each in wastes_of(work_of(ranks, blocked=blocked), ranks)] == wanted


def test_a_small_unit_costs_all_that_fsdp_does_for_it_and_nothing_of_what_it_does_for_a_large_one_then():
    hooks = [
        ("FSDP::pre_backward (blocks.0)", NONE, 6.0, 1.0, -1, False),
        ("FSDP::all_gather (large)", NONE, 6.2, 0.4, -1, False),
        ("FSDP::post_backward_reduce (blocks.0)", NONE, 7.5, 0.5, -1, False),
        ("FSDP::post_backward_reduce (large)", NONE, 8.5, 0.5, -1, False),
    ]
    bare, whole = ([sharded(n, again=False, shape=TINY, more=more) for n in (0, 1)] for more in ((), hooks))
    twice = [sharded(n, again=True, shape=TINY) for n in (0, 1)]
    assert [each.cause for each in wastes_of(work_of(twice), twice)] == [Cause.SMALL_PARAMETERS]
    (less,), (waste,) = wastes_of(work_of(bare), bare), wastes_of(work_of(whole), whole)
    assert (waste.cause, waste.site) == (Cause.SMALL_PARAMETERS, "train.py:5")
    assert 1000 * (waste.cost_s - less.cost_s) == pytest.approx(0.6 + 0.5, rel=0.02)
    half = [dataclasses.replace(seen(("train.py", "main", "user", 9), step_ms=STEP_MS / 2), rank=n) for n in (0, 1)]
    (sampled,) = wastes_of(work_of(whole, half), whole, samples=half)
    assert sampled.cost_s == pytest.approx(waste.cost_s / 2)  # The same share of a step without torch's profiler.


def test_the_sharding_says_who_asked_how_long_before_use_and_how_often():
    ranks = [sharded(number, again=True) for number in (0, 1)]
    document = profile_of([], Sources(), asked_warmup=5, operations=ranks).sharding.to_json()
    units = document.pop("units")
    assert document == {
        "gathers_per_step": 12.0, "gathered_bytes_per_step": 12_000_000, "unique_bytes": 6_000_000,
        "scatters_per_step": 0.0, "scattered_bytes_per_step": 0, "order_changed_steps": 0, "observed_steps": NUM_STEPS,
    }  # fmt: skip
    assert units[0] == {
        "unit": "blocks.0", "bytes": 1_000_000, "gathers_per_step": 2.0, "asked_at": "train.py:5",
        "issued_before_use_ms": pytest.approx(0.45, abs=0.01), "exposed_ms_per_step": pytest.approx(0.8, abs=0.02),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("held", "total"),
    [
        ([("w", 2_020_000_000, 394_000_000, None)] * 5, 2_020_000_000),
        ([("w", 100, 100, 1.5)] * 4, 100),
        ([("w", 100, 100, 1.5), ("w", 100, 100, 2.5)], 200),
    ],
    ids=["shards that know the whole", "replicas", "parts that do not"],
)
def test_parameters_are_counted_once(held, total):
    ranks = [rank_of(number, [], parameters=[each]) for number, each in enumerate(held)]
    assert work_of(ranks).num_parameters == total


def test_a_shard_of_fsdp_says_its_whole_size():
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from emberward.sources._operations import _parameter

    torch.distributed.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    try:
        model = torch.nn.Linear(64, 64, bias=False)
        fully_shard(model)
        assert _parameter("weight", model.weight) == ["weight", 4096, 1024, None]
    finally:
        torch.distributed.destroy_process_group()


def test_a_file_of_operations_that_is_cut_is_refused():
    with pytest.raises(ValueError, match="cut off"):
        operations_of([{**HEAD, "form": 1, "offset_ns": 0, "bounds_ns": [], "threads": 1}])
    with pytest.raises(ValueError, match="another version"):
        operations_of([{"form": 99}])


def seen(*frames, step_ms=STEP_MS, ms=1.0):
    """A rank that stands so many ms of a step in a stack of (file, function, owner, line), innermost first."""
    places = [{"place": [file, name, 1, owner, line, line, 0, 1, "CALL"]} for file, name, owner, line in frames]
    head = {
        **HEAD, "form": 1, "pid": 1, "warmup": 0, "is_last": True, "period_ns": 1,
        "bounds_ns": [0, int(step_ms * 1e6)], "first_step": 0, "queue_ns": 0, "has_cpu_time": True,
        "loop": [], "outputs": [],
    }  # fmt: skip
    stack = {"stack": [*range(len(frames))], "flag": "", "steps": {"0": [int(ms * 1e6), int(ms * 1e6)]}}
    return samples_of([head, *places, stack, {"end": True}])


def test_recomputed_products_are_a_waste_in_these_words():
    rows = [
        ("aten::mm", MM, 0.0, 2.0, 3, False),
        ("emberward::backward train.py:9", NONE, 2.0, 7.0, -1, False),
        ("autograd::engine::evaluate_function: MmBackward0", NONE, 2.0, 6.0, 3, False),
        ("aten::mm", MM, 2.5, 2.0, 4, False),
        ("aten::mm", MM, 5.0, 2.0, -1, False),
    ]
    ranks = [rank_of(0, rows)]
    profile = profile_of([], Sources(), asked_warmup=5, operations=ranks)
    (finding,) = [each for each in profile.findings if each.code == "P103"]
    assert finding.message == (
        "recompute: rank 0 computes the forward again in the backward, though what it would keep fits into memory: "
        "2.00 ms a step, 20.0%"
    )
    assert "computed again in the backward" in page_text(profile)
    assert math.isclose(profile.work.recomputed * 3, sum(profile.work.flops.values()))
    without = [rank_of(0, [rows[0], *rows[1:3], rows[4]])]
    assert wastes_of(work_of(without), without) == ()

    engine = ("/x/torch/autograd/graph.py", "_engine_run_backward", "torch", 1)
    again = ("model.py", "forward", "user", 7), ("/x/torch/utils/checkpoint.py", "recompute_fn", "torch", 2)
    loop = ("train.py", "main", "user", 9)
    for frames, ms, cost_s in (
        ((*again, engine, loop), 1.0, 0.001),
        ((*again, loop), 1.0, 0.002),
        ((engine, *again, loop), 7.0, 0.002),
        ((engine, loop), 3.5, 0.001),
    ):
        samples = [seen(*frames, ms=ms)]
        (waste,) = wastes_of(work_of(ranks, samples), ranks, samples=samples)
        assert waste.cost_s == pytest.approx(cost_s)  # All that runs again where samples show it, else its operations.


def backwards(number, *, stall_ms, wait_ms, seen=range(10)):
    """A rank of 10 steps that sleeps before its backward and waits in it for the other. `seen`: its backward, when."""
    places = [
        ["train.py", "<module>", 1, "user", 4, 4, 4, 21, "CALL"],
        ["/torch/autograd/graph.py", "_engine_run_backward", 1, "platform", 9, 9, 0, 1, "CALL"],
        ["train.py", "<module>", 1, "user", 3, 3, 0, 1, "CALL"],
    ]

    def cells(at, length, busy):
        return {k: [int(length * 1e6), int(busy * 1e6), int((10 * k + at) * 1e6)] for k in range(10)}

    work_ms = 10 - stall_ms - wait_ms
    stacks = [
        {"stack": [0], "flag": "", "steps": cells(stall_ms / 2, stall_ms, 0)},
        {
            "stack": [1, 2],
            "flag": "",
            "steps": {k: v for k, v in cells(5 + stall_ms / 2, 10 - stall_ms, work_ms).items() if k in seen},
        },
    ]
    head = {
        **HEAD, "form": 1, "pid": number, "warmup": 0, "is_last": True, "period_ns": 5_000_000, "first_step": 0,
        "bounds_ns": [k * 10_000_000 for k in range(11)], "queue_ns": 0, "has_cpu_time": True,
        "loop": [["train.py", "<module>", 1]], "outputs": [], "rank": number, "world_size": 2,
    }  # fmt: skip
    shown = stacks if stall_ms else stacks[1:]
    return samples_of([head, *({"place": place} for place in places), *shown, {"end": True}])


def test_a_stall_before_a_backward_whose_calls_no_python_makes_gains_what_the_others_wait():
    text = "import time\nfor step in range(99):\n    loss.backward()\n    time.sleep(0.004)\n"
    samples = [backwards(0, stall_ms=0, wait_ms=4), backwards(1, stall_ms=4, wait_ms=0)]
    ranks = [ddp(0, compute_ms=2.0), ddp(1, compute_ms=6.0)]
    sources = Sources(lambda file: text)
    seen = profile_of(samples, sources, asked_warmup=0, operations=ranks)
    (stall,) = [each for each in seen.findings if each.code == "P101"]
    assert (stall.cause, stall.site) == (Cause.SLEEP, "train.py:4")
    assert stall.gain_ms_per_step == pytest.approx(4.0, rel=0.1)
    (late,) = [each for each in seen.findings if each.code == "P102"]
    assert (late.cause, late.site, late.culprit_ranks) == (Cause.LATE_PEER, "train.py:4", (1,))
    alone = profile_of(samples, sources, asked_warmup=0)
    assert [each.code for each in alone.findings] == ["P101", "P102"]


def test_a_backward_too_short_to_be_seen_each_time_is_met_by_the_others_all_the_same():
    text = "import time\nfor step in range(99):\n    loss.backward()\n    time.sleep(0.009)\n"
    samples = [backwards(0, stall_ms=0, wait_ms=9), backwards(1, stall_ms=9, wait_ms=0, seen=(1, 5))]
    ranks = [ddp(0, compute_ms=1.0), ddp(1, compute_ms=1.0)]
    seen = profile_of(samples, Sources(lambda file: text), asked_warmup=0, operations=ranks)
    (stall,) = [each for each in seen.findings if each.code == "P101"]
    assert stall.gain_ms_per_step == pytest.approx(9.0, rel=0.1)


def test_a_forward_that_runs_again_is_told_at_the_line_that_asks_for_it_and_not_at_the_backward():
    file = "/x/torch/utils/checkpoint.py"
    layer, loop = ("model.py", "forward", "user", 7), ("train.py", "main", "user", 9)
    forward = seen(layer, (file, "checkpoint", "torch", 5), ("model.py", "blocks", "user", 3), loop)
    assert checkpointed_at([forward], Sources(lambda file: "")) == "model.py:3"
    assert checkpointed_at([seen(layer, (file, "unpack_hook", "torch", 5), loop)], Sources(lambda file: "")) is None
