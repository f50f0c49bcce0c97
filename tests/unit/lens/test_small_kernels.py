"""Loops of many small operations, run for real under probe and sampler, and loops that look like them."""

import ast
from collections import Counter, defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from unit.lens.test_logs_and_lists import RANK
from unit.lens.test_stalls import line_of, measure

from emberward.findings import Cause
from emberward.lens import Sources, _small_kernels, read_operations
from emberward.lens._small_kernels import _Seen, small_kernels
from emberward.sources._operations import NUM_STEPS, OperationProbe

HEAD = {"rank": 0, "world_size": 1, "device": "cpu", "device_name": "cpu"}
SERIES = torch.rand(8, 400, 24)
RATE = torch.tensor(0.1, requires_grad=True)
SCORES, TAGS, LENGTHS = torch.rand(64, 40, 48), torch.randint(48, (64, 40)), [*range(20, 40)] * 3
MIXES = torch.nn.Linear(24, 24)
LAYERS = torch.nn.ModuleList(torch.nn.Linear(24, 24) for _ in range(60))
PARAMETERS, MEANS = [*LAYERS.parameters()], [each.detach().clone() for each in LAYERS.parameters()]
WIDE = [torch.rand(200_000) for _ in range(40)]
CHUNKS = torch.rand(8, 400, 400)


class Leaks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = torch.nn.Parameter(torch.tensor(0.1))

    def forward(self, x, state):
        return torch.tanh(self.rate * x + (1 - self.rate) * state)


CELL = Leaks()


def smooths_each(step):
    level = SERIES[:, 0]
    for t in range(1, SERIES.shape[1]):
        level = (1 - RATE) * level + RATE * SERIES[:, t]  # here
    return level


def runs_a_cell_for_each(step):
    state = torch.zeros(8, 24)
    for t in range(SERIES.shape[1] // 2):
        state = CELL(SERIES[:, t], state)  # here
    return state


def sums_the_loss_of_each(step):
    scores = SCORES * RATE
    total = 0.0
    for i, n in enumerate(LENGTHS):
        total = total + torch.nn.functional.cross_entropy(scores[i, :n], TAGS[i, :n], reduction="sum")  # here
    total.backward()


def runs_a_cell_on_its_state(step):
    state = torch.zeros(8, 24)
    for t in range(SERIES.shape[1] // 2):
        state = torch.tanh(SERIES[:, t] + MIXES(state))
    return state


TABLES = [torch.nn.Parameter(torch.rand(24, 24)) for _ in range(60)]
PARTS = [torch.optim.Adam([each], lr=1e-3, foreach=False) for each in TABLES]


def steps_each_optimizer(parts):
    for part in parts:
        part.step()  # here


def has_an_optimizer_for_each(step):
    for each in TABLES:
        each.grad = torch.ones_like(each)
    for _ in range(4):
        steps_each_optimizer(PARTS)


class Head(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.qkv = torch.nn.Linear(24, 3 * size)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


HEADS = torch.nn.ModuleList(Head(4) for _ in range(32))
UNLIKE = torch.nn.ModuleList(Head(size) for size in range(3, 35))
FEW_STEPS = SERIES[:, :20]


LSTM = torch.nn.LSTMCell(24, 24)
READS_ON = torch.nn.LSTMCell(48, 24)


def runs_a_cell_of_torch(step):
    h, c = torch.zeros(8, 24), torch.zeros(8, 24)
    for t in range(SERIES.shape[1]):
        h, c = LSTM(SERIES[:, t], (h, c))  # here


def runs_a_cell_on_what_it_made(step):
    h, c = torch.zeros(8, 24), torch.zeros(8, 24)
    for t in range(SERIES.shape[1] // 2):
        h, c = READS_ON(torch.cat([SERIES[:, t], h], 1), (h, c))


def runs_each_head(step):
    for _ in range(4):
        torch.cat([head(FEW_STEPS) for head in HEADS], -1)  # here


def runs_heads_of_other_sizes(step):
    torch.cat([head(FEW_STEPS) for head in UNLIKE], -1)


def adds_in_one_go(step):
    return (SERIES * RATE).cumsum(1) @ torch.rand(24, 24)


def runs_its_blocks(step):
    x = SERIES
    for layer in LAYERS:
        x = layer(x).relu()
    return x


def multiplies_each_chunk(step):
    return [CHUNKS[i] @ CHUNKS[i] for i in range(len(CHUNKS))]


def keeps_means_of_parameters(step):
    with torch.no_grad():
        for _ in range(16):
            for mean, value in zip(MEANS, LAYERS.parameters(), strict=True):
                mean.lerp_(value, 0.01)  # here


def decays_large_ones(step):
    with torch.no_grad():
        for value in WIDE:
            value.mul_(0.9).add_(value, alpha=0.1).clamp_(-1, 1)


def decays_few(step):
    with torch.no_grad():
        for value in PARAMETERS[:20]:
            value.mul_(0.9).add_(value, alpha=0.1).clamp_(-1, 1)


def trains_on_each(step):
    for t in range(0, SERIES.shape[1], 10):
        loss = (RATE * SERIES[:, t]).square().mean()
        loss.backward()


def wastes(work, folder):
    probe = OperationProbe(folder / "rank.ops", head=lambda: HEAD)
    probe.start()
    for step in range(NUM_STEPS):
        work(step)
        probe.stepped()
    probe.write()
    rank = measure(folder, work)
    return small_kernels([read_operations(folder / "rank.ops")], [rank], Sources()), rank


def test_a_loop_over_time_steps_is_told_at_its_line_with_all_that_is_spent_in_it(tmp_path):
    (waste,), rank = wastes(smooths_each, tmp_path)
    assert (waste.cause, waste.site) == (Cause.SMALL_KERNELS, f"{__file__}:{line_of(smooths_each)}")
    spent: dict[int, float] = defaultdict(float)
    for each in rank.stacks:
        line = next((place.line for place in each.stack if place.function == "smooths_each"), None)
        if line is not None and not each.flag:  # Collections of garbage are told by themselves.
            spent[line] += sum(wall for wall, _ in each.steps.values()) / rank.num_steps
    # A look may find the function before its loop, or behind it.
    assert spent[line_of(smooths_each)] - 1e-9 <= waste.cost_s <= sum(spent.values()) + 1e-9
    assert spent[line_of(smooths_each)] > 0
    assert "operations a step in the loop" in waste.evidence[0]


def test_a_loop_over_many_small_parameters_is_one(tmp_path):
    (waste,), _ = wastes(keeps_means_of_parameters, tmp_path)
    assert (waste.cause, waste.site) == (Cause.SMALL_KERNELS, f"{__file__}:{line_of(keeps_means_of_parameters)}")


def test_a_cell_that_is_run_for_each_time_step_is_one_too(tmp_path):
    (waste,), _ = wastes(runs_a_cell_for_each, tmp_path)
    assert (waste.cause, waste.site) == (Cause.SMALL_KERNELS, f"{__file__}:{line_of(runs_a_cell_for_each)}")


def test_a_cell_of_torch_s_whose_inputs_are_there_before_is_one_too(tmp_path):
    (waste,), _ = wastes(runs_a_cell_of_torch, tmp_path)
    assert (waste.cause, waste.site) == (Cause.SMALL_KERNELS, f"{__file__}:{line_of(runs_a_cell_of_torch)}")


def test_heads_that_do_the_same_with_one_input_are_one(tmp_path):
    (waste,), _ = wastes(runs_each_head, tmp_path)
    assert (waste.cause, waste.site) == (Cause.SMALL_KERNELS, f"{__file__}:{line_of(runs_each_head)}")


@pytest.mark.parametrize(
    ("calls", "repeats", "is_told"),
    [(True, 12.0, True), (False, 12.0, False), (True, 2.0, False)],
    ids=["modules that do alike", "another loop", "modules of their own kinds"],
)
def test_of_modules_that_do_alike_starts_are_told_where_numbers_take_most(calls, repeats, is_told, monkeypatch):
    """A loop of 12 ms and 26 ms in its backward, of which starts take 7 and 6."""
    loop = (__file__, 28)
    seen = _Seen(
        num=550.0, start_s=2e-6, in_operations=0.4, forward=0.6, backward=0.2, backward_all=0.9,
        has_products=True, has_cells=False, repeats=repeats,
    )  # fmt: skip

    def spent(loops):
        loops.backward_s = 0.029
        loops._calling |= {loop} if calls else set()
        return {loop: 0.012}, {loop: Counter({28: 1})}

    monkeypatch.setattr(_small_kernels._Loops, "spent", spent)
    monkeypatch.setattr(_small_kernels, "_seen_in", lambda rank, loops: {loop: seen})
    rank = replace(RANK, bounds_s=(0.0, 0.052))
    operations = SimpleNamespace(rank=rank.rank, looks=((0.0, ()),), num_steps=1)
    found = small_kernels([operations], [rank], Sources(lambda file: ""))
    assert [each.cost_s for each in found] == ([pytest.approx(0.013)] if is_told else [])


@pytest.mark.parametrize(
    ("statement", "is_sum"),
    [
        ("total = total + near(x)", True),
        ("total = total + near(x).mean() + far(x).mean()", True),
        ("total = near(x) + (far(x) + total)", True),
        ("total = total + near(total)", False),
        ("total = near(x) + total * 2", False),
        ("total = total - near(x) @ total", False),
        ("state = total + near(x) + far(x)", False),
    ],
)
def test_a_sum_that_goes_on_may_have_several_terms(statement, is_sum):
    assert _small_kernels._added_to(ast.parse(statement).body[0]) == ({"total"} if is_sum else set())


def test_many_optimizers_of_few_parameters_are_one(tmp_path):
    (waste,), _ = wastes(has_an_optimizer_for_each, tmp_path)
    assert (waste.cause, waste.site) == (Cause.SMALL_KERNELS, f"{__file__}:{line_of(steps_each_optimizer)}")


def test_a_loop_of_few_turns_is_told_where_the_gradients_of_its_slices_are_as_large_as_the_whole(tmp_path):
    (waste,), rank = wastes(sums_the_loss_of_each, tmp_path)
    assert (waste.cause, waste.site) == (Cause.SMALL_KERNELS, f"{__file__}:{line_of(sums_the_loss_of_each)}")
    backward_s = sum(
        wall
        for each in rank.stacks
        if any(place.function == "_engine_run_backward" for place in each.stack)
        for wall, _ in each.steps.values()
    )
    in_loop_s, behind_s = (float(part.split()[0]) / 1000 for part in waste.evidence[1].split(", "))
    assert waste.cost_s == pytest.approx(in_loop_s + behind_s, abs=2e-5)
    assert 0.5 * backward_s < behind_s * rank.num_steps < backward_s


@pytest.mark.parametrize(
    "work",
    [
        *(adds_in_one_go, runs_its_blocks, multiplies_each_chunk, decays_large_ones, decays_few, trains_on_each),
        *(runs_a_cell_on_its_state, runs_heads_of_other_sizes, runs_a_cell_on_what_it_made),
    ],
)
def test_blocks_large_operations_few_parameters_and_training_are_none(work, tmp_path):
    assert wastes(work, tmp_path)[0] == ()
