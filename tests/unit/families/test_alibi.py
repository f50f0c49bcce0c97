"""ALiBi folded into q and k is ALiBi by a mask; a length decides which of the two runs."""

import pytest
import torch

from emberward.families import ModelConfig, model_of
from emberward.families._sizes import ALIBI_FOLDED_FROM
from emberward.families.alibi import Alibi
from emberward.families.bloom.modules import alibi_slopes
from emberward.layout import AttentionScores

LENGTH, HEADS, WIDTH = 200, 6, 16


def by_hand(q, k, v, slopes):
    """Attention with ALiBi in float64, score by score."""
    q, k, v = (each.double() for each in (q, k, v))
    steps = torch.arange(q.shape[-2], dtype=torch.float64)
    distance = (steps - steps[:, None]) * torch.tensor(slopes, dtype=torch.float64).view(-1, 1, 1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + distance
    return scores.masked_fill(steps[:, None] < steps, -torch.inf).softmax(-1) @ v


def gradients(attend, inputs):
    """The result and the gradients of the inputs, for a fixed gradient of the result."""
    inputs = [each.clone().requires_grad_() for each in inputs]
    y = attend(*inputs)
    y.backward(torch.linspace(-1, 1, y.numel()).view_as(y).to(y.dtype))
    return [y.detach(), *(each.grad for each in inputs)]


def inputs_of(dtype):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(2, HEADS, LENGTH, WIDTH, generator=generator).to(dtype) for _ in range(3)]


@pytest.mark.parametrize("form", ["masked", "folded"])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 3e-6), (torch.bfloat16, 2e-2)])
def test_both_forms_are_alibi_with_its_gradients(form, dtype, bound):
    slopes, inputs = alibi_slopes(HEADS), inputs_of(dtype)
    expected = gradients(lambda *each: by_hand(*each, slopes), inputs)
    for found, wanted in zip(gradients(getattr(Alibi(slopes), form), inputs), expected, strict=True):
        assert (found.double() - wanted.double()).norm() <= bound * wanted.double().norm()


def test_a_slope_that_is_a_little_off_is_seen():
    slopes, inputs = alibi_slopes(HEADS), inputs_of(torch.float32)
    off = Alibi([slope * 1.01 for slope in slopes]).folded(*inputs)
    wanted = by_hand(*inputs, slopes)
    assert (off.double() - wanted).norm() > 1e-4 * wanted.norm()


def test_slopes_and_places_are_whole_in_bf16_where_the_kernel_reads_them():
    # 12 heads: slopes that are no powers of two; one part alone would round them.
    alibi, slopes = Alibi(alibi_slopes(12)), torch.tensor(alibi_slopes(12))
    of_heads, of_keys = alibi._columns(torch.zeros(1, 12, 4096, 64, dtype=torch.bfloat16))
    bias = of_heads[0, :, 0].double() @ of_keys[0, 0].double().T / 8
    exact = slopes.double()[:, None] * (torch.arange(4096) - 2048)
    assert (bias - exact).abs().max() <= 2**-15 * exact.abs().max()


@pytest.mark.parametrize(("length", "is_folded"), [(ALIBI_FOLDED_FROM - 1, False), (ALIBI_FOLDED_FROM, True)])
def test_the_model_declares_what_runs(length, is_folded, monkeypatch):
    config = ModelConfig(
        family="bloom",
        num_layers=1,
        hidden=64,
        num_heads=4,
        ffn_hidden=256,
        vocab_size=64,
        seq_len=length,
        init_std=0.1,
    )
    scores = next(each for each in model_of(config).layers[0].operations if isinstance(each, AttentionScores))
    assert (scores.has_mask, scores.added_width) == ((False, 8) if is_folded else (True, 0))
    ran = []
    for form in ("masked", "folded"):
        monkeypatch.setattr(Alibi, form, lambda self, q, k, v, form=form: ran.append(form))
    Alibi(alibi_slopes(4))(*(torch.zeros(1, 4, length, 16) for _ in range(3)))
    assert ran == ["folded" if is_folded else "masked"]
