"""Lines that compute in each step what they did in the step before, and padding: what the probe sees, what is told."""

import itertools
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint
from unit.lens.test_stalls import line_of, measure

from emberward.findings import Cause
from emberward.lens import Sources, read_operations
from emberward.lens._alike import MOSTLY, _below, alike_work
from emberward.lens._operations import Alike
from emberward.lens._samples import OURS, Instruction
from emberward.sources import _alike
from emberward.sources._alike import NUM_COMPARED, AlikeWatch
from emberward.sources._operations import OperationProbe
from emberward.sources._padding import padded

EDGES = torch.randint(200, (2, 2000))
POINTS = torch.randn(200, 16)
WIDE = torch.randn(1000, 1000)
NOT_TRAINED = nn.Linear(16, 16).requires_grad_(False)
TRAINED = nn.Linear(16, 16)
DEEP = nn.Sequential(nn.Linear(16, 2000), nn.ReLU(), nn.Linear(2000, 16))
MEAN, KEPT = torch.zeros(16), np.zeros(16, dtype=np.float32)
ROWS = [torch.randn(200, 16) for _ in range(NUM_COMPARED)]


def degrees(edges):
    found = torch.zeros(200).index_add_(0, edges[0], torch.ones(edges.shape[1]))
    return found.rsqrt()


def counts_the_same_edges(step):
    scale = degrees(EDGES)  # here
    return scale * torch.rand(200)


def centres_the_same_points(step):
    return (POINTS - POINTS.mean(0)) / POINTS.std(0)  # here


def asks_who_is_not_trained(step):
    return NOT_TRAINED(POINTS)  # here


def makes_a_mask(step):
    return torch.triu(torch.full((64, 64), -1e9), diagonal=1)  # here


def asks_again_for_a_metric(step):
    loss = DEEP(ROWS[step]).exp().sum()
    loss.backward()
    with torch.no_grad():
        return DEEP(ROWS[step]).argmax(1)  # here


def asks_again_with_gradients(step):
    found = TRAINED(ROWS[step]).exp().sum()
    other = TRAINED(ROWS[step])  # here
    return found + other.sum()


def asks_before_for_a_metric(step):
    with torch.no_grad():
        found = DEEP(ROWS[step]).argmax(1)  # here
    DEEP(ROWS[step]).exp().sum().backward()
    return found


def asks_beside_other_work(step):
    found = TRAINED(ROWS[step]).exp().sum()
    return found + (TRAINED(ROWS[step]).sum() + DEEP(torch.rand(200, 16)).sum())  # here


def keeps_no_activations(step):
    checkpoint(DEEP, ROWS[step], use_reentrant=False).exp().sum().backward()  # here


def asks_again_after_gradients_are_cleared(step):
    DEEP.zero_grad()
    DEEP(ROWS[step]).exp().sum().backward()
    scores = DEEP(ROWS[step])  # here
    return scores.detach().argmax(-1)


def asks_again_after_a_step(step):
    found = TRAINED(ROWS[step]).sum()
    with torch.no_grad():
        TRAINED.weight.mul_(0.9)
        return found + TRAINED(ROWS[step]).sum()  # here


def asks_again_with_other_rows(step):
    found = TRAINED(ROWS[step]).sum()
    with torch.no_grad():
        return found + TRAINED(ROWS[step - 1]).sum()  # here


def asks_again_with_dropout(step):
    drop = nn.Dropout(0.1)
    found = drop(ROWS[step])
    with torch.no_grad():
        return found + drop(ROWS[step])  # here


def counts_edges_that_change(step):
    return degrees(torch.randint(200, (2, 2000)))  # here


def drops_some(step):
    return nn.functional.dropout(POINTS, 0.1)  # here


def asks_who_is_trained(step):
    with torch.no_grad():
        return TRAINED(POINTS)  # here


def takes_the_next_rows(step):
    return (ROWS[step] / 255).exp()  # here


def takes_the_next_part(step):
    return POINTS[step * 10 : step * 10 + 10].exp()  # here


def weighs_by_the_step(step):
    return POINTS * (0.1 * step)  # here


def adds_to_zeros(step):
    found = torch.zeros(200, 16)  # here
    found += torch.rand(200, 16)
    return found


def keeps_a_mean(step):
    MEAN.lerp_(torch.rand(16), 0.1)
    return MEAN.exp()  # here


def keeps_a_mean_through_its_data(step):
    MEAN.data.lerp_(torch.rand(16), 0.1)
    return MEAN.exp()  # here


def fills_memory_of_numpy(step):
    KEPT[:] = step
    return torch.from_numpy(KEPT).exp()  # here


def fills_what_numpy_was_lent(step):
    lent = torch.zeros(16)
    lent.numpy()[:] = step
    return lent.exp()  # here


def takes_new_arrays(step):
    return torch.from_numpy(np.full(16, step, dtype=np.float32)).exp()  # here


ALIKE = [
    *(counts_the_same_edges, centres_the_same_points, asks_who_is_not_trained, makes_a_mask, asks_again_for_a_metric),
    *(asks_again_with_gradients, asks_before_for_a_metric, asks_again_after_gradients_are_cleared),
]
UNLIKE = [
    *(counts_edges_that_change, drops_some, asks_who_is_trained, takes_the_next_rows, takes_the_next_part),
    *(weighs_by_the_step, adds_to_zeros, keeps_a_mean, keeps_a_mean_through_its_data, fills_memory_of_numpy),
    *(fills_what_numpy_was_lent, takes_new_arrays, asks_again_after_a_step),
    *(asks_again_with_other_rows, asks_again_with_dropout, asks_beside_other_work, keeps_no_activations),
]


def compared_by(program, word, num=NUM_COMPARED):
    """What the watch writes of the program's steps under a word."""
    watch = AlikeWatch()
    watch.start()
    for step in range(num):
        program(step)
        watch.stepped()
    watch.stop()
    return [line[word] for line in watch.lines() if word in line]


def compared(program, num=NUM_COMPARED):
    """The lines of the program that spend most of their time on what was computed before."""
    found = compared_by(program, "alike", num)
    below = _below({tuple(where): Alike(*of_place) for where, *of_place in found})
    return {where[0][1] for where, share in below.items() if share >= MOSTLY}


@pytest.mark.parametrize("program", ALIKE)
def test_a_line_that_computes_the_same_in_each_step_is_seen(program):
    assert line_of(program) in compared(program)


@pytest.mark.parametrize("program", UNLIKE)
def test_what_is_new_in_each_step_is_not(program):
    assert line_of(program) not in compared(program)


def alike_at(program):
    """Of the program's line: the share that is alike, and its share of the backward."""
    (spent,) = [Alike(*each) for where, *each in compared_by(program, "alike") if where[0][1] == line_of(program)]
    return spent.own_ns / (spent.alike_ns + spent.other_ns), spent.backward


def goes_back_through_both(step):
    loss = DEEP(ROWS[step]).exp().sum()
    (loss + DEEP(ROWS[step]).sum()).backward()  # here


def goes_back_through_the_first(step):
    loss, other = DEEP(ROWS[step]).exp().sum(), DEEP(ROWS[step]).sum()  # here
    loss.backward()
    return other


def test_a_line_that_does_more_has_its_part():
    share, backward = alike_at(asks_beside_other_work)
    assert 0 < share < 0.5
    assert backward == 0


def test_of_two_that_are_alike_the_backward_goes_once_too_often_where_it_goes_through_both():
    assert alike_at(goes_back_through_both)[1] > 0
    assert alike_at(goes_back_through_the_first)[1] == 0


def test_the_metric_alone_is_in_vain_where_it_comes_first():
    found = compared_by(asks_before_for_a_metric, "alike")
    assert {where[0][1] for where, *each in found if Alike(*each).alike_ns} == {line_of(asks_before_for_a_metric)}


def test_gradients_are_the_same_bits():
    def gradients(watch):
        DEEP.zero_grad()
        for step in range(NUM_COMPARED):
            goes_back_through_both(step)
            watch.stepped()
        return [each.grad.clone() for each in DEEP.parameters()]

    watch = AlikeWatch()
    plain = gradients(watch)
    watch.start()
    watched = gradients(watch)
    watch.stop()
    assert all(map(torch.equal, plain, watched))


def test_what_an_optimizer_of_torch_does_is_not_compared():
    parts = [torch.optim.AdamW([nn.Parameter(torch.rand(8))], fused=True) for _ in range(20)]

    def program(step):
        for part in parts:
            part.param_groups[0]["params"][0].grad = torch.rand(8)
            part.step()

    assert not any(where and Alike(*each).alike_ns for where, *each in compared_by(program, "alike"))


def test_two_steps_are_not_enough():
    assert compared(makes_a_mask, NUM_COMPARED - 1) == set()


def test_of_more_calls_than_are_kept_nothing_is_said(monkeypatch):
    monkeypatch.setattr(_alike, "MAX_CALLS", 10)
    assert compared(counts_the_same_edges) == set()


class Doubles(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return 2 * result if func is torch.add else result


def test_modes_of_the_program_end_as_they_began():
    watch, add = AlikeWatch(), lambda: int(torch.add(torch.tensor(1), 1))
    with torch.device("cpu"), Doubles():
        watch.start()
        assert add() == 4
    assert add() == 2
    with torch.device("meta"), Doubles():
        assert torch.zeros(1).device.type == "meta"
        watch.stop()
        assert torch.zeros(1).device.type == "meta"
    torch.set_default_device("meta")
    watch.start()
    torch.set_default_device(None)
    watch.stop()
    assert add() == 2
    assert torch._C._len_torch_function_stack() == 0


def test_an_error_is_the_program_s_own_and_one_of_ours_is_none(monkeypatch):
    watch = AlikeWatch()
    watch.start()
    try:
        with pytest.raises(RuntimeError, match="must match"):
            torch.zeros(2) + torch.zeros(3)
        monkeypatch.setattr(_alike, "tensors_in", lambda value: 1 / 0)
        assert float(torch.zeros(2).sum() + 1) == 1
    finally:
        watch.stop()
    assert [*watch.lines()] == []


def test_an_encoder_s_fast_path_is_taken_as_without_us():
    encoder = nn.TransformerEncoderLayer(16, 2, batch_first=True, dropout=0.0).eval()
    given = torch.rand(2, 5, 16)
    with torch.no_grad():
        plain = encoder(given)
        watch = AlikeWatch()
        watch.start()
        with torch.autograd.profiler.profile() as profile:
            watched = encoder(given)
        calls = [each.name for each in profile.function_events]
        with Doubles():
            assert torch._C._len_torch_function_stack() == 2
        watch.stop()
    assert "aten::_transformer_encoder_layer_fwd" in calls
    assert torch.equal(plain, watched)


def test_memory_stays_resizable_and_what_is_given_back_is_not_read():
    given, other = torch.rand(100), torch.rand(100)

    def program(step):
        given.exp()
        other.untyped_storage().resize_(0 if step else 400)
        return other.detach()

    compared(program)
    assert given.untyped_storage().resizable()
    given.untyped_storage().resize_(0)


def test_a_parameter_can_be_swapped_for_another():
    watch, given, other = AlikeWatch(), nn.Parameter(torch.rand(10)), nn.Parameter(torch.rand(10))
    watch.start()
    given.detach().exp()
    watch.stepped()
    torch.utils.swap_tensors(given, other)
    watch.stop()


def test_no_tensor_is_kept():
    watch = AlikeWatch()
    watch.start()
    made = torch.rand(10)
    seen = torch._C._WeakTensorRef(made)
    made.exp()
    del made
    assert seen.expired()
    watch.stop()


def seen_of(program, folder):
    """The program, of which the first steps are compared, the next observed, and others sampled."""
    probe = OperationProbe(folder / "rank.ops", head=lambda: HEAD)
    probe.compare()
    kept = deque(maxlen=NUM_COMPARED + 1)  # What is freed before the comparison ends would be for nothing.

    def plant(step):
        kept.append(program(step))
        if step == NUM_COMPARED - 1:
            probe.start()
        else:
            probe.stepped()

    samples = measure(folder, plant)
    probe.write()
    return read_operations(folder / "rank.ops"), samples


def wastes_of(program, folder):
    """What is told of it."""
    operations, samples = seen_of(program, folder)
    return alike_work([operations], [samples], Sources())


HEAD = {"rank": 0, "world_size": 1, "device": "cpu", "device_name": "cpu"}


def sorts_the_same(values):
    ordered = values.sort(1).values
    return ordered.cumsum(1)


def sorts_the_same_in_each_step(step):
    found = sorts_the_same(WIDE)  # here
    return found @ torch.rand(1000, 1000)


def sorts_what_is_new(step):
    found = sorts_the_same(WIDE + step)
    return found @ torch.rand(1000, 1000)


def test_it_is_told_at_the_outermost_line_with_what_it_takes(tmp_path):
    (waste,) = wastes_of(sorts_the_same_in_each_step, tmp_path)
    assert (waste.cause, waste.site) == (
        Cause.REDUNDANT_WORK,
        f"{__file__}:{line_of(sorts_the_same_in_each_step)}",
    )
    began = time.thread_time()
    sorts_the_same(WIDE)
    assert 0.5 * (time.thread_time() - began) < waste.cost_s
    assert waste.evidence[0].startswith("calls of torch in 1 line of sorts_the_same_in_each_step() were given")


def test_one_long_look_at_it_is_chance(tmp_path):
    operations, samples = seen_of(sorts_the_same_in_each_step, tmp_path)

    def at_once(seen):
        return replace(seen, steps={samples.first_step: tuple(map(sum, zip(*seen.steps.values(), strict=True)))})

    of_one_step = replace(samples, stacks=tuple(map(at_once, samples.stacks)))
    assert len(alike_work([operations], [samples], Sources())) == 1
    assert alike_work([operations], [of_one_step], Sources()) == ()


def test_a_collective_at_the_line_is_none_of_what_was_compared(tmp_path):
    operations, samples = seen_of(sorts_the_same_in_each_step, tmp_path)
    call = Instruction("/emberward/sources/_wrap.py", "call", 1, OURS, 1, 1, None, None, "CALL")
    in_calls = replace(samples, stacks=tuple(replace(each, stack=(call, *each.stack)) for each in samples.stacks))
    assert len(alike_work([operations], [samples], Sources())) == 1
    assert alike_work([operations], [in_calls], Sources()) == ()


def test_the_look_alike_is_quiet(tmp_path):
    assert wastes_of(sorts_what_is_new, tmp_path) == ()


WORDS = nn.Embedding(100, 4)


def tokens(*lengths, of=40, at_left=False):
    found = torch.zeros(len(lengths), of, dtype=torch.long)
    for row, length in enumerate(lengths):
        found[row, of - length if at_left else 0 : of if at_left else length] = torch.arange(1, length + 1) % 90 + 1
    return found


@pytest.mark.parametrize(
    ("given", "padding", "share"),
    [
        (tokens(10, 14), 0, 26 / 40),
        (tokens(10, 14), None, 26 / 40),
        (tokens(10, 14, at_left=True), 0, 26 / 40),
        (tokens(10), 0, 30 / 40),
    ],
    ids=["told", "not told", "at the left", "one row"],
)
def test_columns_that_are_padding_in_every_row_are_counted(given, padding, share):
    assert padded(given, WORDS.weight, padding) == pytest.approx(share)


@pytest.mark.parametrize(
    ("given", "weight", "padding"),
    [
        (tokens(10, 33), WORDS.weight, 0),
        (tokens(10), WORDS.weight, None),
        (tokens(10, 14).clamp(max=1), torch.zeros(2, 4), None),
        (torch.zeros(4, 40, dtype=torch.long), WORDS.weight, 0),
        (torch.arange(40).expand(2, -1), WORDS.weight, None),
        (torch.arange(40), WORDS.weight, None),
    ],
    ids=["all of a block", "one row, not told", "types of tokens", "nothing but padding", "positions", "one dim"],
)
def test_what_a_batch_needs_is_no_padding(given, weight, padding):
    assert padded(given, weight, padding) == 0.0


class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.out = nn.Embedding(100, 256), nn.Embedding(64, 256), nn.Linear(256, 256)

    def forward(self, given):
        return self.out(self.words(given) + self.places(torch.arange(64)[None])).relu().sum()


READER = Reads()
PADDED = tokens(9, 12, 10, 11, 9, 12, of=64)


def reads_what_it_puts_together(step):
    rows = [torch.randint(1, 100, (length,)) for length in (9, 12, 10, 11, 9, 12)]
    given = torch.zeros(6, 64, dtype=torch.long)  # here
    for row, each in enumerate(rows):
        given[row, : len(each)] = each
    return READER(given.clone())


def reads_padded_rows(step):
    rows = [F.pad(torch.randint(1, 100, (length,)), (0, 64 - length)) for length in (9, 12, 10, 11, 9, 12)]  # here
    return READER(torch.stack(rows))


def reads_what_it_has(step):
    return READER(PADDED)  # here


@pytest.mark.parametrize("reads", [reads_what_it_puts_together, reads_padded_rows, reads_what_it_has])
def test_padding_is_told_where_the_tokens_are_put_together(reads, tmp_path):
    (waste,) = [each for each in wastes_of(reads, tmp_path) if each.cause is Cause.PADDING]
    assert waste.site == f"{__file__}:{line_of(reads)}"
    assert "81% of the columns of tokens are padding in every row, computed at" in waste.evidence[0]


def test_of_tokens_that_a_library_pads_the_line_that_asks_it_to_is_told(tmp_path):
    text = Path(__file__).read_text() + '\ncollate = Collator(padding="max_length")  # asks\n'
    operations, samples = seen_of(reads_what_it_has, tmp_path)
    wastes = alike_work([operations], [samples], Sources(lambda file: text if file == __file__ else ""))
    (site,) = [each.site for each in wastes if each.cause is Cause.PADDING]
    assert site == f"{__file__}:{len(text.splitlines())}"


def test_padding_costs_its_share_of_forward_and_backward(tmp_path):
    (waste,) = [each for each in wastes_of(reads_what_it_puts_together, tmp_path) if each.cause is Cause.PADDING]
    rank = read_operations(tmp_path / "rank.ops")
    forward_s = sum(op.ended_s - op.began_s for op in rank.operations if op.name.startswith("emberward::at /"))
    assert waste.share == pytest.approx(52 / 64 * forward_s / (rank.step_s * rank.num_steps), rel=0.5)
    assert alike_work([replace(rank, padded=())], [], Sources()) == ()


def bucket(distance):
    return min(sum(distance >> k & 1 for k in range(3)) + distance % 3, 20)


def table_of(length):
    rows = []
    for i in range(length):
        rows.append([bucket(abs(j - i)) for j in range(length)])
    return torch.tensor(rows)


def table_of_step(length, step):
    rows = []
    for i in range(length):
        rows.append([bucket(abs(j - i) + step) for j in range(length)])
    return torch.tensor(rows)


SEEN = []
STEPS = itertools.count()


def table_and_more_of(length):
    rows = []
    for i in range(length):
        rows.append([bucket(abs(j - i)) for j in range(length)])
    made = torch.tensor(rows)
    SEEN.append(made)
    return len(rows)


def makes_its_table_anew(step):
    table = table_of(120)  # here
    return (WIDE[:300] @ torch.rand(1000, 1000))[:120, :120] @ (table * torch.rand(120, 120))


def makes_another_table(step):
    table = table_of_step(120, next(STEPS))
    return WIDE[:120, :120] @ (table * torch.rand(120, 120))


def makes_more_than_a_table(step):
    return WIDE[: table_and_more_of(120)] @ torch.rand(1000, 120)


def test_what_python_does_for_a_tensor_that_is_made_alike_is_told_where_it_is_called(tmp_path):
    (waste,) = wastes_of(makes_its_table_anew, tmp_path)
    assert (waste.cause, waste.site) == (Cause.REDUNDANT_WORK, f"{__file__}:{line_of(makes_its_table_anew)}")


@pytest.mark.parametrize("makes", [makes_another_table, makes_more_than_a_table])
def test_what_it_does_for_another_value_is_not(makes, tmp_path):
    found = [each.site for each in wastes_of(makes, tmp_path)]
    assert f"{__file__}:{makes.__code__.co_firstlineno + 1}" not in found
