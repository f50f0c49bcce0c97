"""Operations whose results nothing reads, and such as are read in one way or another."""

import copy
import io

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from unit.lens.test_stalls import line_of

from emberward.lens._alike import MOSTLY
from emberward.sources._alike import AlikeWatch
from emberward.sources._results import ResultsWatch

X, Y = torch.randn(64, 32), torch.randn(64, 32)
KEPT: list[torch.Tensor] = []
TABLE = torch.zeros(64, 32)


HEAD, BODY, FROZEN = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32).requires_grad_(False)
LAYERS = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
ENCODER = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.exp() * 2

    @staticmethod
    def backward(ctx, slope):
        return slope * 2


def trains(value):
    F.mse_loss(value, Y).backward()


# -- of these a line leads to nothing


def goes_on_behind_what_is_taken(step):
    x, seen = BODY(X), []
    for layer in LAYERS:
        x = layer(x).relu()  # here
        seen.append(x)
    trains(seen[0])


def computes_a_figure_for_nobody(step):
    found = BODY(X)
    with torch.no_grad():
        figure = F.softmax(found @ Y.T, 1).amax(1).mean()  # here
    if step == 50:
        KEPT.append(figure)
    trains(found)


def asks_both_heads(step):
    found = BODY(X)
    both = {"one": found.tanh(), "other": HEAD(found).softmax(1)}  # here
    trains(both["one"])


def gives_parameters_no_graph_for_it(step):
    trains(BODY(X))
    FROZEN(X).exp().sum()  # here


# -- all of these is read


def by_a_backward(step):
    trains(HEAD(BODY(X).relu()))


def by_a_gradient_that_is_given(step):
    BODY(X).exp().backward(torch.ones(64, 32))


def by_a_gradient_that_is_asked_for(step):
    x = X.clone().requires_grad_()
    KEPT.append(torch.autograd.grad(BODY(x).sum(), x)[0])


def by_a_function_of_the_program(step):
    trains(Doubles.apply(BODY(X)))


def by_a_checkpoint(step):
    trains(checkpoint(nn.Sequential(HEAD, nn.ReLU()), BODY(X), use_reentrant=True))


def by_a_number(step):
    trains(BODY(X))
    KEPT.append(X.exp().sum().item())


def by_a_list(step):
    KEPT.append(X.exp().sum(1).tolist())


def by_an_array(step):
    KEPT.append(float(X.exp().sum(1).numpy().max()))


def by_a_branch(step):
    trains(BODY(X) if (X.exp() > 0).all() else HEAD(X))


def by_a_file(step):
    torch.save(X.exp(), io.BytesIO())


def by_a_copy(step):
    KEPT.append(copy.deepcopy(X.exp()))


def by_who_keeps_it(step):
    KEPT.append(X.exp().mean(1))


def by_memory_that_was_there(step):
    TABLE.mul_(0.9).add_(X.exp(), alpha=0.1)


def by_lists_of_tensors(step):
    torch._foreach_add_([TABLE], [X.exp()])


def by_what_it_is_written_to(step):
    torch.exp(X, out=TABLE)


def by_the_next_step(step):
    if KEPT:
        trains(BODY(X) * KEPT.pop())
    KEPT.append(X.exp().mean())


def by_an_encoder_on_its_fast_path(step):
    with torch.no_grad():
        KEPT.append(ENCODER(X.exp()[None]).mean())


def in_place(step):
    found = BODY(X) * 2
    found[:3] = 0
    trains(found.relu_())


READ = [each for name, each in list(globals().items()) if name.startswith(("by_", "in_place"))]
UNREAD = [
    goes_on_behind_what_is_taken,
    computes_a_figure_for_nobody,
    asks_both_heads,
    gives_parameters_no_graph_for_it,
]


def shares(program, steps=3):
    """By line of the program, the share of what torch computes there that leads to nothing."""
    KEPT.clear()
    results = ResultsWatch(lambda: alike.is_reading)
    alike = AlikeWatch(results.read)
    alike.start()
    results.start()
    for step in range(steps):
        for each in (BODY, HEAD, LAYERS):
            each.zero_grad()
        program(step)
        if step < steps - 1:
            alike.stepped()
            results.stepped()
    results.stop()
    alike.stop()
    found = [line["unread_results"] for line in results.lines()]
    own = [(where[0][1], unread / whole) for where, unread, whole in found if where[0][0] == __file__]
    return dict(own)


@pytest.mark.parametrize("program", UNREAD, ids=lambda each: each.__name__)
def test_what_leads_to_nothing_is_seen_at_its_line(program):
    found = shares(program)
    assert found.keys() == {line_of(program)}
    is_whole = program in (computes_a_figure_for_nobody, gives_parameters_no_graph_for_it)
    assert (found[line_of(program)] > MOSTLY) == is_whole and found[line_of(program)] > 0.1


@pytest.mark.parametrize("program", READ, ids=lambda each: each.__name__)
def test_what_is_read_in_any_way_is_not(program):
    assert shares(program) == {}


def test_gradients_are_the_same_bits_and_no_tensor_is_kept():
    plain, watched = [], []
    for into in (plain, watched):
        watch = ResultsWatch()
        if into is watched:
            watch.start()
        for each in (BODY, HEAD):
            each.zero_grad()
        trains(HEAD(F.gelu(BODY(X))))
        watch.stop()
        into += [each.grad.clone() for each in (*BODY.parameters(), *HEAD.parameters())]
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    watch = ResultsWatch()
    watch.start()
    gone = torch.multiprocessing.reductions.StorageWeakRef(X.exp().untyped_storage())
    assert gone.expired()
    watch.stop()


def test_a_mode_of_the_program_s_own_stays_alone():
    class Counts(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    watch = ResultsWatch()
    with Counts():
        watch.start()
        X.exp()
        watch.stop()
    assert [*watch.lines()] == []
