"""The loss over a vocabulary, a part of the tokens at a time: its values, its gradients, and what it never holds."""

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from emberward.families.layers import TensorAxis, token_losses

TOKENS, VOCAB = (3, 11), 257


class Largest(TorchDispatchMode):
    """The most elements of a float32 tensor that any operation makes."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, torch.Tensor) and each.dtype is torch.float32:
                self.numel = max(self.numel, each.numel())
        return made


@pytest.fixture(params=[False, True], ids=["whole", "split"])
def axis(request):
    if not request.param:
        yield None
        return
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield TensorAxis(group=dist.group.WORLD, size=1, group_rank=0, sequence_parallel=False)
    dist.destroy_process_group()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_losses_and_gradients_are_those_of_cross_entropy_in_float32(axis, dtype):
    torch.manual_seed(0)
    logits = (3 * torch.randn(*TOKENS, VOCAB)).to(dtype).requires_grad_()
    labels, weights = torch.randint(0, VOCAB, TOKENS), torch.rand(TOKENS)
    wide = logits.detach().double().requires_grad_()
    expected = F.cross_entropy(wide.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
    (expected * weights).sum().backward()

    losses = token_losses(logits, labels, axis)
    (losses * weights).sum().backward()

    assert losses.dtype is torch.float32
    assert logits.grad is not None and wide.grad is not None and logits.grad.dtype is dtype
    torch.testing.assert_close(losses.double(), expected, rtol=1e-6, atol=1e-6)
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(logits.grad.double(), wide.grad, rtol=max(rounding, 1e-5), atol=1e-7)


def test_no_whole_float32_copy_of_narrow_logits_is_made(axis):
    logits = torch.randn(4, 16, VOCAB).bfloat16().requires_grad_()
    with Largest() as largest:
        token_losses(logits, torch.zeros(4, 16, dtype=torch.int64), axis).sum().backward()
    assert logits.numel() // 9 < largest.numel <= logits.numel() // 8
