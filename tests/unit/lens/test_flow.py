"""How much earlier and later a call could be: programs under the probe, each beside a twin that cannot wait."""

import time
import warnings
from functools import partial

import pytest
import torch
import torch.distributed as dist

from emberward.events import Group, Lane, LaneKind
from emberward.lens import Call, read_operations, repeats_of, samples_of, slack_of, unread_of
from emberward.sources._operations import NUM_STEPS, OperationProbe

HEAD = {"rank": 0, "world_size": 1, "device": "cpu", "device_name": "cpu"}
WORK_S = 0.012


def busy():
    """Work of the host that has nothing to do with any call."""
    until = time.monotonic() + WORK_S
    while time.monotonic() < until:
        pass


class Program:
    """A loop of its own: `call` is the collective, in which the thread is blocked until it returns."""

    def __init__(self, is_late=False, is_early=False):
        self.net = torch.nn.Linear(8, 8)
        self.bank, self.part = torch.zeros(64), torch.ones(64)
        self.is_late, self.is_early = is_late, is_early
        self.calls = []

    def call(self, ask, line=1, op="all_reduce"):
        began = time.monotonic()
        ask()
        ended = time.monotonic()
        group = Group(ranks=(0,), index=0)
        call = Call(
            rank=0, lane=Lane(kind=LaneKind.HOST), group=group, number=len(self.calls), op=op, num_bytes=1,
            issued_s=began, ended_s=ended, blocked_s=began, free_s=ended, file="train.py", line=line, wait_line=line,
        )  # fmt: skip
        self.calls.append(call)

    def sum(self, tensor):
        self.call(lambda: dist.all_reduce(tensor))

    def backward(self):
        self.net.zero_grad()
        self.net(torch.ones(2, 8)).sum().backward()

    def update(self):
        with torch.no_grad():
            for each in self.net.parameters():
                each.sub_(each.grad, alpha=0.1)


class Packed(Program):
    """The gradients are packed and summed after the backward, by another method than the one that loads the data."""

    def step(self):
        self.backward()
        if self.is_late:
            busy()
        flat = torch.cat([each.grad.flatten() for each in self.net.parameters()])
        self.sum(flat)
        if self.is_early:
            busy()
        at = 0
        for each in self.net.parameters():
            each.grad.copy_(flat[at : at + each.numel()].view_as(each))
            at += each.numel()
        self.update()


class Hooked(Program):
    """Each gradient is summed in a hook of the backward, which waits for it there."""

    def __init__(self, **named):
        super().__init__(**named)
        self.is_used = not self.is_early
        for each in self.net.parameters():
            each.register_post_accumulate_grad_hook(self.ready)

    def ready(self, parameter):
        self.sum(parameter.grad)
        if self.is_used:
            parameter.grad.div_(2)
            parameter.data.sub_(parameter.grad)

    def step(self):
        self.backward()
        if self.is_early:
            busy()
            self.update()


class Driven(Packed):
    """The host takes its time from one copy out of the sum to the next, or after the last."""

    def step(self):
        self.backward()
        flat = torch.cat([each.grad.flatten() for each in self.net.parameters()])
        self.sum(flat)
        weight, bias = self.net.parameters()
        weight.grad.copy_(flat[: weight.numel()].view_as(weight))
        if not self.is_early:
            busy()
        bias.grad.copy_(flat[weight.numel() :])
        if self.is_early:
            busy()
        self.update()


class Gathered(Program):
    """A table is gathered at the begin of a step from a part that the last step wrote at its end."""

    def collect(self):
        self.call(lambda: dist.all_gather_single(self.bank, self.part))

    def step(self):
        if self.is_late:
            busy()
        self.collect()
        if self.is_early:
            busy()
        self.bank.sum().item()
        self.part.mul_(0.5)


class Listed(Gathered):
    """The same by a list of tensors."""

    def collect(self):
        self.call(lambda: dist.all_gather([self.bank], self.part))


class Headed(Program):
    """What the last module gets is summed after the backward, whose rest takes longer."""

    def step(self):
        inner = torch.ones(2, 8, requires_grad=True)
        (kept := inner * 1.0).register_hook(lambda grad: busy() if self.is_late else None)
        self.net.zero_grad()
        self.net(kept).sum().backward()
        self.sum(self.net.weight.grad)
        self.update()


class Behind(torch.nn.Module):
    """Works for a while before the first operation on what it is given."""

    def forward(self, x):
        busy()
        return x.sum()


class Given(Program):
    """What is summed is used by a module, after the module's own work or after the program's."""

    def __init__(self, **named):
        super().__init__(**named)
        self.behind = Behind()

    def step(self):
        self.part.fill_(1.0)
        self.sum(self.part)
        if self.is_early:
            busy()
        self.behind(self.part).item()


class Spread(Program):
    """What is summed is copied to two places, the first of which is used next."""

    def __init__(self):
        super().__init__()
        self.part, self.places = torch.zeros(1 << 24), [torch.zeros(1 << 23) for _ in range(2)]
        self.copies_s = []

    def step(self):
        self.part.fill_(1.0)
        self.sum(self.part)
        for place, piece in zip(self.places, self.part.chunk(2), strict=True):
            began = time.monotonic()
            place.copy_(piece)
            self.copies_s.append(time.monotonic() - began)
        self.places[0].sum().item()


class Unread(Program):
    """A part is gathered and copied, and one of its numbers is read or not."""

    def __init__(self, is_read):
        super().__init__()
        self.is_read = is_read

    def step(self):
        parts = [torch.empty_like(self.part)]
        self.call(lambda: dist.all_gather(parts, self.part))
        whole = torch.cat(parts)
        if self.is_read:
            whole.sum().item()


class Twice(Program):
    """A part is gathered for two readers, and is another one in between or not."""

    def __init__(self, is_changed):
        super().__init__()
        self.is_changed = is_changed

    def step(self):
        for line in (1, 2):
            parts = [torch.empty_like(self.part)]
            self.call(lambda parts=parts: dist.all_gather(parts, self.part.detach().clone()), line=line)
            parts[0].sum().item()
            if self.is_changed:
                self.part.mul_(0.5)
        self.part.mul_(0.5)


class Reported(Twice):
    """What was gathered for the loss is gathered again for a report, after the update that ends the step."""

    def step(self):
        for line in (2, 1):
            parts = [torch.empty_like(self.part)]
            self.call(lambda parts=parts: dist.all_gather(parts, self.part.detach().clone()), line=line)
            parts[0].sum().item()
            if line == 2:
                self.part.mul_(0.5)


@pytest.fixture(scope="module", autouse=True)
def alone():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def slack(program, folder):
    return slack_of(observed(program, folder), program.calls)["train.py", 1][0]


def observed(program, folder):
    probe = OperationProbe(folder / "rank.ops", head=lambda: HEAD)
    probe.start()
    for _ in range(NUM_STEPS):
        program.step()
        probe.stepped()
    probe.write()
    return read_operations(folder / "rank.ops")


def test_copies_to_other_places_move_with_the_call_too(tmp_path):
    program = Spread()
    assert slack(program, tmp_path)[1] < min(program.copies_s[1::2]) / 2


@pytest.mark.parametrize("kind", [Packed, Gathered, Listed, Headed])
def test_a_call_could_be_issued_as_early_as_the_last_write_to_its_memory_wherever_that_is(kind, tmp_path):
    assert slack(kind(is_late=True), tmp_path)[0] >= 0.8 * WORK_S
    assert slack(kind(), tmp_path)[0] < 0.5 * WORK_S


@pytest.mark.parametrize("kind", [Packed, Driven, Hooked, Gathered, Listed, Given])
def test_a_wait_could_be_as_late_as_the_next_use_of_its_memory_wherever_that_is(kind, tmp_path):
    assert slack(kind(is_early=True), tmp_path)[1] >= 0.8 * WORK_S
    assert slack(kind(), tmp_path)[1] < 0.5 * WORK_S


def test_a_result_that_nobody_is_seen_to_use_tells_of_no_later_wait(tmp_path):
    program = Program()

    def step():
        program.sum(torch.ones(4))
        busy()

    program.step = step
    assert slack(program, tmp_path)[1] == 0


def test_what_was_gathered_before_and_not_changed_since_is_gathered_twice(tmp_path):
    for is_changed, lines in ((False, [2] * NUM_STEPS), (True, [])):
        program = Twice(is_changed)
        program.call = partial(program.call, op="all_gather")
        assert [call.line for call in repeats_of(observed(program, tmp_path), program.calls)] == lines


def places_of(program, seen, places):
    """Samples that show the two calls of each step at those lines of the program's loop."""
    stacks = [
        {"stack": [at], "flag": "", "steps": {step: [1000, 1000, int(1e9 * calls[at].issued_s) + 1000]}}
        for step in range(NUM_STEPS)
        for calls in [program.calls[2 * step : 2 * step + 2]]
        for at in (0, 1)
    ]
    told = [
        {**LOOPING, "bounds_ns": [int(1e9 * each) for each in seen.bounds_s]},
        *({"place": ["train.py", "main", 1, "user", call.line, call.line, 0, 9, "CALL"]} for call in program.calls[:2]),
        *({"place": ["loop.py", "fit", 1, "user", line, line, 0, 9, "CALL"]} for line in places),
        *({**each, "stack": [each["stack"][0], 2 + each["stack"][0]]} for each in stacks),
        {"end": True},
    ]
    return samples_of(told)


@pytest.mark.parametrize(
    ("kind", "places", "lines"),
    [
        (Twice, (30, 38), [2] * NUM_STEPS),
        (Twice, (38, 30), []),
        (Reported, (38, 30), [2] * (NUM_STEPS - 1)),
        (Reported, (30, 30), []),
    ],
)
def test_what_a_turn_of_the_loop_has_gathered_it_has_after_the_update_and_the_next_turn_has_not(
    kind, places, lines, tmp_path
):
    program = kind(is_changed=False)
    program.call = partial(program.call, op="all_gather")
    seen = observed(program, tmp_path)
    assert [call.line for call in repeats_of(seen, program.calls, places_of(program, seen, places))] == lines


LOOPING = {
    "form": 1, "pid": 1, "first_step": 0, "period_ns": 1, "queue_ns": 0, "has_cpu_time": True, "outputs": [],
    "loop": [["loop.py", "fit", 1]], "is_last": True, **HEAD,
}  # fmt: skip


def test_a_result_is_read_where_an_operation_reads_a_copy_of_it(tmp_path):
    for is_read, lines in ((False, {("train.py", 1)}), (True, set())):
        program = Unread(is_read)
        assert unread_of(observed(program, tmp_path), program.calls) == lines
