"""Steps without an optimizer: which backwards end one."""

import pytest
import torch

from emberward.sources import _backward_steps
from emberward.sources._backward_steps import BackwardSteps


@pytest.fixture
def steps(monkeypatch):
    """How many steps have ended, with torch's functions as they were afterwards."""
    for name in ("backward", "grad"):
        monkeypatch.setattr(torch.autograd, name, getattr(torch.autograd, name))
    monkeypatch.setattr(_backward_steps, "has_optimizer", lambda: False)
    ended = []
    BackwardSteps(lambda: ended.append(1)).start()
    return ended


def loss():
    return torch.ones(2, requires_grad=True).square().sum()


def test_each_backward_ends_a_step(steps):
    for _ in range(2):
        loss().backward()
        x = torch.ones(2, requires_grad=True)
        torch.autograd.grad(x.sum(), x)
    assert len(steps) == 4


def test_gradients_that_are_differentiated_again_and_a_backward_inside_another_end_none(steps):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad():
                loss().backward()
            return gradient

    counts = []
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        (first,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
        torch.autograd.grad(x.pow(3).sum(), x, None, True, True)
        counts.append(len(steps))
        torch.autograd.grad(Inner.apply(first).sum(), x)
    assert (counts, len(steps)) == ([0, 1, 2], 3)


def test_a_program_with_an_optimizer_of_torch_ends_its_steps_there(steps, monkeypatch):
    monkeypatch.undo()
    for name in ("backward", "grad"):
        monkeypatch.setattr(torch.autograd, name, getattr(torch.autograd, name))
    ended = []
    BackwardSteps(lambda: ended.append(1)).start()
    torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    for _ in range(3):
        loss().backward()
    assert not ended
