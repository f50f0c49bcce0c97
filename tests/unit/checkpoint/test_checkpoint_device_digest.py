"""The digest taken where a tensor lies is the one of a save's manifest."""

import pytest
import torch

from emberward.checkpoint import DeviceDigests, Shard, digest_of

WORD = 1 << 64
SHAPES = [(), (1,), (7,), (5, 3), (3, 70_000), (70_000, 3), (2, 3, 4), (300, 1), (1, 300)]
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]
CASES = [(shape, torch.float32) for shape in SHAPES] + [
    (shape, dtype) for dtype in DTYPES[1:] for shape in SHAPES if max(shape, default=1) < 1000
]
"""The large ones once: what they try is the cutting into chunks."""


def shard(shape, dtype, *, box=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    global_shape = shape if box is None else tuple(stop + 2 for _, stop in box)
    box = tuple((0, size) for size in shape) if box is None else box
    values = torch.randn(shape, generator=generator) * 100
    tensor = (values > 0) if dtype is torch.bool else values.to(dtype)
    return Shard(name="t", global_shape=global_shape, box=box, tensor=tensor.contiguous())


def on_device(*shards):
    return [word % WORD for word in DeviceDigests()(shards).tolist()]


@pytest.mark.parametrize(("shape", "dtype"), CASES, ids=str)
def test_it_is_the_manifest_s_digest(shape, dtype):
    one = shard(shape, dtype)
    assert on_device(one) == [digest_of([one])["t"]]


def test_a_box_s_share_depends_on_where_it_lies():
    one, other = shard((4, 6), torch.float32, box=((2, 6), (3, 9))), shard((4, 6), torch.float32, box=((0, 4), (3, 9)))
    assert on_device(one) == [digest_of([one])["t"]]
    assert on_device(one, other) == [digest_of([one])["t"], digest_of([other])["t"]]
    assert len(set(on_device(one, other))) == 2


@pytest.mark.parametrize("bit", [0, 1, 15, 23, 30, 31])
def test_one_flipped_bit_always_shows(bit):
    one = shard((33, 5), torch.float32)
    digests = DeviceDigests()
    (before,) = digests([one]).tolist()
    words = one.tensor.view(torch.int32).reshape(-1)
    mask = (1 << bit) if bit < 31 else -(1 << 31)
    for place in (0, 77, 164):
        words[place] ^= mask
        assert digests([one]).tolist() != [before]
        words[place] ^= mask
    assert digests([one]).tolist() == [before]
