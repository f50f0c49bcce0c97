"""Gradients that backwards compute and nothing reads: as the probe sees them, and what is told of them."""

import copy
import inspect
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from unit.lens.test_work import NONE, rank_of, work_of

from emberward.findings import Cause
from emberward.lens import wastes_of
from emberward.lens._operations import Unread
from emberward.lens._work import NODE
from emberward.sources import _gradients
from emberward.sources._alike import NUM_COMPARED, AlikeWatch
from emberward.sources._gradients import GradientWatch
from emberward.sources._inputs import InputsWatch

STEPS = 4
JUDGED = (2, 20, 2)
"""Of the judge's backward: parameters of the maker's, their numbers, and nodes for nothing: addmm and t."""
MADE = (2, 5, 1)
"""Of the maker's: the judge's parameters; but for the view of its weight all nodes lead on to the maker's."""
NOISE = torch.randn(8, 4)


class Nets:
    """A net that makes something and one that judges it, each with an optimizer of its own."""

    def __init__(self):
        self.maker, self.judge = nn.Linear(4, 4), nn.Linear(4, 1)
        self.made_by, self.judged_by = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (self.maker, self.judge))

    def judges(self, made, backward):
        self.judged_by.zero_grad()
        backward(self.judge(made).mean())
        self.judged_by.step()

    def makes(self, made, backward):
        self.made_by.zero_grad()
        backward(self.judge(made).mean())
        self.made_by.step()


def goes_through_what_was_made(nets, step, backward):
    made = nets.maker(NOISE)
    nets.judges(made, backward)
    nets.makes(nets.maker(NOISE), backward)


def detaches_what_was_made(nets, step, backward):
    made = nets.maker(NOISE)
    nets.judges(made.detach(), backward)
    nets.makes(made, backward)


def trains_the_last_alone(nets, step, backward):
    nets.judges(nets.maker(NOISE), backward)


def freezes_the_first(nets, step, backward):
    nets.maker.requires_grad_(False)
    nets.judges(nets.maker(NOISE), backward)


def adds_up(nets, step, backward):
    """Both are read in the last of three steps alone."""
    backward(nets.judge(nets.maker(NOISE)).mean())
    if step == 2:
        for each in (nets.made_by, nets.judged_by):
            each.step()
            each.zero_grad()


def steps_seldom(nets, step, backward):
    """The first is in an optimizer, which will read what was added so far."""
    nets.judges(nets.maker(NOISE), backward)


def moves_by_hand(nets, step, backward):
    nets.judges(nets.maker(NOISE), backward)
    with torch.no_grad():
        for each in nets.maker.parameters():
            each -= 0.1 * each.grad


def asks_a_teacher(nets, step, backward):
    """The judge is trained by what the maker says, which no optimizer has: its nodes come first in the backward."""
    nets.judged_by.zero_grad()
    wanted = nets.maker(NOISE).relu().mean()
    backward((nets.judge(NOISE).mean() - wanted).square())
    nets.judged_by.step()


def asks_a_teacher_without_a_graph(nets, step, backward):
    nets.judged_by.zero_grad()
    with torch.no_grad():
        wanted = nets.maker(NOISE).relu().mean()
    backward((nets.judge(NOISE).mean() - wanted).square())
    nets.judged_by.step()


def sends_two_losses_through_one_graph(nets, step, backward):
    nets.made_by.zero_grad()
    nets.judged_by.zero_grad()
    judged = nets.judge(nets.maker(NOISE))
    backward(judged.mean(), retain_graph=True)
    backward(judged.square().mean())
    nets.made_by.step()
    nets.judged_by.step()


def keeps_each_gradient_apart(nets, step, backward):
    judged = nets.judge(nets.maker(NOISE))
    for loss in (judged.mean(), judged.square().mean()):
        nets.made_by.zero_grad()
        nets.judged_by.zero_grad()
        backward(loss, retain_graph=True)
    nets.made_by.step()
    nets.judged_by.step()


def adds_up_micro_batches(nets, step, backward):
    nets.made_by.zero_grad()
    nets.judged_by.zero_grad()
    for _ in range(3):
        backward(nets.judge(nets.maker(NOISE)).mean())
    nets.made_by.step()
    nets.judged_by.step()


class Passes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        return given * 1.0

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def asks_through_a_function_of_its_own(nets, step, backward):
    nets.judged_by.zero_grad()
    wanted = Passes.apply(nets.maker(NOISE)).mean()
    backward((nets.judge(NOISE).mean() - wanted).square())
    nets.judged_by.step()


def unread(program, nets, inputs=None):
    watch = GradientWatch(inputs or InputsWatch())
    watch.start()
    for each in (nets.maker, nets.judge):
        watch.watch(each)

    def backward(loss, **named):
        begun = watch.begins("train.py:9", (loss,), accumulate_grad=True)
        loss.backward(**named)
        watch.ends(begun)

    for step in range(STEPS):
        program(nets, step, backward)
    watch.stop()
    return [line["unread"] for line in watch.lines()]


def of(each):
    return each["parameters"], each["numel"], len(each["sequences"])


@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_backward_that_ends_with_gradients_which_are_cleared_is_seen(set_to_none, monkeypatch):
    nets = Nets()
    optimizer = nets.made_by
    clears = lambda: torch.optim.Optimizer.zero_grad(optimizer, set_to_none=set_to_none)  # noqa: E731
    monkeypatch.setattr(optimizer, "zero_grad", clears)
    found = unread(goes_through_what_was_made, nets)
    # The last ones may still be read after the observed steps.
    assert [of(each) for each in found] == [*(JUDGED, MADE) * (STEPS - 1), JUDGED]
    assert all(each["backward"][0] < each["backward"][1] for each in found)


def test_where_it_cannot_be_followed_who_reads_a_gradient_nothing_is_told(monkeypatch):
    def fails(watch, parameters, what):
        raise ValueError("no such thing")

    nets = Nets()
    monkeypatch.setattr(GradientWatch, "_note", fails)
    assert unread(goes_through_what_was_made, nets) == []


def test_what_no_optimizer_has_and_nobody_changes_is_unread():
    nets = Nets()
    nets.made_by = None
    found = unread(trains_the_last_alone, nets)
    assert [each["parameters"] for each in found] == [2] * STEPS


def test_a_teacher_that_wants_gradients_is_seen_though_its_student_s_come_last():
    nets = Nets()
    nets.made_by = None
    found = unread(asks_a_teacher, nets)
    # Addmm, t, relu, mean; what both sides share is needed.
    assert [(each["parameters"], len(each["sequences"])) for each in found] == [(2, 4)] * STEPS


def test_of_a_function_that_python_defines_all_above_counts_as_read():
    nets = Nets()
    nets.made_by = None
    found = unread(asks_through_a_function_of_its_own, nets)
    # Addmm and t lie below it: their gradients alone are for nothing.
    assert [len(each["sequences"]) for each in found] == [2] * STEPS


def test_nodes_through_which_a_gradient_is_reached_that_is_read_are_none():
    assert [of(each) for each in unread(detaches_what_was_made, Nets())] == [MADE] * (STEPS - 1)


@pytest.mark.parametrize(
    "program",
    [freezes_the_first, adds_up, steps_seldom, asks_a_teacher_without_a_graph],
)
def test_gradients_that_are_read_are_none(program):
    assert unread(program, Nets()) == []


def test_a_graph_that_two_backwards_go_through_is_seen_where_their_gradients_are_added_up():
    found = unread(sends_two_losses_through_one_graph, Nets())
    # Addmm and t of both layers; the two losses have nodes of their own.
    assert [(each["again"], of(each)) for each in found] == [(True, (4, 25, 4))] * STEPS


@pytest.mark.parametrize("program", [keeps_each_gradient_apart, adds_up_micro_batches])
def test_graphs_of_their_own_and_gradients_that_are_used_in_between_are_none(program):
    assert [each for each in unread(program, Nets()) if each.get("again")] == []


def attacks_and_trains(nets, step, backward):
    change = torch.zeros_like(NOISE).requires_grad_()
    backward(nets.judge(nets.maker(NOISE + change)).mean())
    hard = NOISE + change.grad.sign()
    nets.made_by.zero_grad()
    nets.judges(nets.maker(hard), backward)
    nets.made_by.step()


def test_of_products_that_are_gone_through_for_an_input_alone_half_is_for_nothing():
    attacks = [each for each in unread(attacks_and_trains, Nets()) if each["parameters"] == 4]
    # The views of both weights whole, and half of both products: what an attack asks for are gradients of its input.
    assert [(each["numel"], len(each["sequences"]), len(each["half"])) for each in attacks] == [(25, 2, 2)] * STEPS
    assert all(each["half"] == [] for each in unread(goes_through_what_was_made, Nets()))


def test_what_is_changed_by_hand_is_read():
    nets = Nets()
    nets.made_by = None
    assert unread(moves_by_hand, nets) == []


def test_a_root_that_is_no_tensor_is_the_program_s_own_affair():
    watch, nets = GradientWatch(InputsWatch()), Nets()
    watch.watch(nets.maker)
    edge = torch.autograd.graph.get_gradient_edge(nets.maker(NOISE).mean())
    begun = watch.begins("train.py:9", (edge,), accumulate_grad=True)
    assert begun.graph == []
    watch.ends(begun)
    watch.stop()


def test_a_module_and_its_classes_are_as_before():
    before = (torch.optim.Optimizer.zero_grad, nn.Module.zero_grad)
    nets = Nets()
    unread(goes_through_what_was_made, nets)
    assert (torch.optim.Optimizer.zero_grad, nn.Module.zero_grad) == before
    assert not any(each._post_accumulate_grad_hooks for each in nets.maker.parameters())


def test_results_are_bitwise_the_same():
    watched = Nets()
    plain = copy.deepcopy(watched)
    for each in (watched, plain):
        each.made_by = torch.optim.SGD(each.maker.parameters(), lr=0.1)
        each.judged_by = torch.optim.SGD(each.judge.parameters(), lr=0.1)
    unread(goes_through_what_was_made, watched)
    for step in range(STEPS):
        goes_through_what_was_made(plain, step, lambda loss: loss.backward())
    pairs = zip(
        (*watched.maker.parameters(), *watched.judge.parameters()),
        (*plain.maker.parameters(), *plain.judge.parameters()),
        strict=True,
    )
    assert all(torch.equal(one, other) for one, other in pairs)


def asked_for_in(compared):
    """What is seen of inputs in the compared steps, each of which does this."""
    watch = AlikeWatch()
    watch.start()
    for _ in range(NUM_COMPARED):
        compared()
        watch.stepped()
    watch.stop()
    return watch.inputs


def wants_gradients_of_its_noise(nets, step, backward):
    noise = NOISE.clone().requires_grad_()  # Marked.
    nets.judged_by.zero_grad()
    backward(nets.judge(torch.relu(nets.maker(noise))).mean())
    nets.judged_by.step()


def of_inputs(program, compared):
    nets = Nets()
    nets.made_by = None
    return [each for each in unread(program, nets, asked_for_in(compared)) if each.get("inputs")]


def test_gradients_of_inputs_that_nobody_reads_are_half_of_the_first_product():
    nets = Nets()
    found = of_inputs(
        wants_gradients_of_its_noise, lambda: wants_gradients_of_its_noise(nets, 0, lambda loss: loss.backward())
    )
    assert [(each["inputs"], len(each["sequences"]), len(each["half"])) for each in found] == [(1, 0, 1)] * STEPS
    code, first = inspect.getsourcelines(wants_gradients_of_its_noise)
    marked = first + next(i for i, line in enumerate(code) if "Marked" in line)
    assert {each["site"] for each in found} == {f"{__file__}:{marked}"}


def test_what_is_made_of_them_before_the_first_product_is_for_nothing_whole():
    def scales_its_noise(nets, step, backward):
        nets.judged_by.zero_grad()
        backward(nets.judge(nets.maker(NOISE.clone().requires_grad_() * 2 + 1)).mean())
        nets.judged_by.step()

    nets = Nets()
    found = of_inputs(scales_its_noise, lambda: scales_its_noise(nets, 0, lambda loss: loss.backward()))
    assert [(len(each["sequences"]), len(each["half"])) for each in found] == [(2, 1)] * STEPS


def reads_them():
    noise = NOISE.clone().requires_grad_()
    noise.sum().backward()
    assert noise.grad is not None


def test_inputs_whose_gradients_are_read_are_none():
    assert of_inputs(wants_gradients_of_its_noise, reads_them) == []


def test_an_input_that_an_optimizer_has_is_none():
    image = torch.zeros(8, 4, requires_grad=True)
    kept = torch.optim.SGD([image], lr=0.1)

    def paints(nets, step, backward):
        kept.zero_grad()
        backward(nets.judge(image).mean())

    assert of_inputs(paints, lambda: None) == []


def test_where_no_step_was_compared_nothing_is_said_of_inputs():
    assert [each for each in unread(wants_gradients_of_its_noise, Nets()) if each.get("inputs")] == []


def told_of_inputs():
    rows = [("emberward::backward train.py:9", NONE, 2.0, 3.0, -1, False)]
    rows += [(f"{NODE}ConvolutionBackward0", NONE, 2.0 + i, 1.0, 10 + i, False) for i in range(3)]
    rank = rank_of(0, rows)
    seen = tuple(
        Unread(
            backward=(op.began_s, op.ended_s),
            site="images.py:11",
            sequences=frozenset({10}),
            half=frozenset({11}),
            num_parameters=0,
            numel=0,
            num_inputs=1,
        )
        for op in rank.operations
        if op.name.startswith("emberward::backward")
    )
    rank = replace(rank, unread=seen)
    return wastes_of(work_of([rank]), [rank])


def test_of_products_that_are_needed_for_their_weights_half_is_told():
    (waste,) = told_of_inputs()
    assert (waste.cause, waste.site) == (Cause.UNUSED_RESULT, "images.py:11")
    assert waste.cost_s == pytest.approx(0.0015, rel=0.01)


def told(*, num_steps=None):
    """A rank of whose backward of 3 ms two nodes of 1 ms each are for nothing, in so many of its steps."""
    rows = [("emberward::backward train.py:9", NONE, 2.0, 3.0, -1, False)]
    rows += [(f"{NODE}MulBackward0", NONE, 2.0 + i, 1.0, 10 + i, False) for i in range(3)]
    rank = rank_of(0, rows)
    seen = tuple(
        Unread(
            backward=(op.began_s, op.ended_s),
            site="train.py:9",
            sequences=frozenset({10, 11, 99}),
            num_parameters=2,
            numel=20,
        )
        for op in rank.operations
        if op.name.startswith("emberward::backward")
    )
    rank = replace(rank, unread=seen[:num_steps])
    return wastes_of(work_of([rank]), [rank])


def test_it_is_told_at_the_line_of_the_backward_with_what_it_takes():
    (waste,) = told()
    assert (waste.cause, waste.site) == (Cause.UNUSED_RESULT, "train.py:9")
    assert waste.cost_s == pytest.approx(0.002, rel=0.01)
    assert waste.evidence[0].startswith("3 nodes of the backward compute for gradients of 2 parameters, 20 numbers")


def test_what_is_for_nothing_now_and_then_is_not_told():
    assert told(num_steps=1) == ()


@pytest.mark.parametrize(("is_own", "site"), [(True, "train.py:9"), (False, "tune.py:17")])
def test_where_a_library_calls_the_backward_the_line_is_that_which_chose_what_is_trained(is_own, site, monkeypatch):
    monkeypatch.setattr(_gradients, "_is_of_program", lambda: is_own)
    nets = Nets()
    nets.made_by = None
    monkeypatch.setitem(_gradients.MADE, nets.judged_by, "tune.py:17")
    assert {each["site"] for each in unread(trains_the_last_alone, nets)} == {site}


def test_of_what_an_optimizer_has_the_backward_is_the_line(monkeypatch):
    monkeypatch.setattr(_gradients, "_is_of_program", lambda: False)
    nets = Nets()
    for each in (nets.made_by, nets.judged_by):
        monkeypatch.setitem(_gradients.MADE, each, "tune.py:17")
    assert {each["site"] for each in unread(goes_through_what_was_made, nets)} == {"train.py:9"}


def test_an_optimizer_is_known_by_the_line_that_makes_it(monkeypatch):
    monkeypatch.setattr(torch.optim.Optimizer, "__init__", torch.optim.Optimizer.__init__)
    _gradients.watch_making()
    made = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    line = sys._getframe().f_lineno - 1
    assert _gradients.MADE[made] == f"{__file__}:{line}"
