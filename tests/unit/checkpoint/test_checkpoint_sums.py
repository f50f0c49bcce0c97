"""Boxes, checksums and digests: the sums on which the format rests."""

import random
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberward.checkpoint._boxes import find_overlap, flat_boxes, flat_span, intersect, volume, whole_box
from emberward.checkpoint._crc import BLOCK_BYTES, combine_crc32
from emberward.checkpoint._digest import add_digests, partial_digest, weights

MASK = (1 << 64) - 1
shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)


@given(shape=shapes, data=st.data())
def test_flat_boxes_hold_exactly_the_range_in_order(shape, data):
    size = int(np.prod(shape))
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    positions = np.arange(size).reshape(shape)
    boxes = list(flat_boxes(shape, start, stop))
    held = [int(at) for box in boxes for at in positions[tuple(slice(*ends) for ends in box)].reshape(-1)]
    assert held == list(range(start, stop))
    assert len(boxes) <= max(1, 2 * len(shape) - 1)


@given(shape=st.lists(st.integers(1, 5), max_size=4).map(tuple), data=st.data())
def test_flat_span_is_the_first_and_last_position_of_a_box(shape, data):
    box = tuple(
        (start, data.draw(st.integers(start + 1, length)))
        for length in shape
        for start in [data.draw(st.integers(0, length - 1))]
    )
    positions = np.arange(int(np.prod(shape))).reshape(shape)[tuple(slice(*ends) for ends in box)]
    assert flat_span(box, shape) == (positions.min(), positions.max() + 1)


@pytest.mark.parametrize("seed", range(200))
def test_find_overlap_agrees_with_comparing_all_pairs(seed):
    rng = random.Random(seed)
    num_dims = rng.randint(0, 3)
    boxes = []
    for _ in range(rng.randint(0, 6)):
        boxes.append(tuple(sorted(rng.choices(range(6), k=2)) for _ in range(num_dims)))
        boxes[-1] = tuple((start, stop) for start, stop in boxes[-1])
    pairs = {
        (a, b)
        for a in range(len(boxes))
        for b in range(a + 1, len(boxes))
        if volume(boxes[a]) and volume(boxes[b]) and intersect(boxes[a], boxes[b]) is not None
    }
    found = find_overlap(boxes)
    assert (found is None) == (not pairs)
    if found is not None:
        assert tuple(sorted(found)) in pairs


@given(first=st.binary(max_size=300), second=st.binary(max_size=300))
def test_combined_crc_is_that_of_the_joined_bytes(first, second):
    assert combine_crc32(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def test_combined_crc_of_whole_blocks():
    block, tail = random.Random(1).randbytes(BLOCK_BYTES), b"tail"
    both = combine_crc32(zlib.crc32(block), zlib.crc32(block), BLOCK_BYTES)
    assert combine_crc32(both, zlib.crc32(tail), 4) == zlib.crc32(block + block + tail)


def splitmix64(state: int) -> int:
    z = (state + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_splitmix64_is_the_published_generator():
    """First three outputs for seed 1234567, as in Rosetta Code's and Vigna's reference."""
    gamma = 0x9E3779B97F4A7C15
    states = [(1234567 + i * gamma) & MASK for i in range(3)]
    assert [splitmix64(state) for state in states] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def weight_by_the_book(dim: int, k: int) -> int:
    high = splitmix64((dim << 33) + (1 << 32) + (k >> 16)) | 1
    low = splitmix64((dim << 33) + (k & 0xFFFF)) | 1
    return high * low & MASK


def digest_by_the_book(bits, box) -> int:
    total = 0
    for index in np.ndindex(bits.shape):
        product = weight_by_the_book(0, 0) if not box else 1
        for dim, (i, (start, _)) in enumerate(zip(index, box, strict=True)):
            product *= weight_by_the_book(dim, start + i)
        value = int(bits[index])
        if bits.dtype.itemsize < 8:
            total += value * product
        else:
            dim = max(1, len(box))
            total += (value & 0xFFFFFFFF) * product * weight_by_the_book(dim, 0)
            total += (value >> 32) * product * weight_by_the_book(dim, 1)
    return total & MASK


@pytest.mark.parametrize("item_bytes", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 5), (4, 0), (2, 1, 2, 3), (300, 2)])
def test_digest_is_the_sum_of_the_documented_formula(item_bytes, shape):
    rng = np.random.default_rng(item_bytes)
    bits = rng.integers(0, 256, (*shape, item_bytes), dtype=np.uint8).view(f"<u{item_bytes}").reshape(shape)
    box = tuple((65530 + dim, 65530 + dim + length) for dim, length in enumerate(shape))
    assert partial_digest(bits, box) == digest_by_the_book(bits, box)


def test_weights_across_the_seam_of_65536():
    assert [int(w) for w in weights(2, 65534, 65539)] == [weight_by_the_book(2, k) for k in range(65534, 65539)]
    assert [int(w) for w in weights(0, 0, 2)] == [weight_by_the_book(0, 0), weight_by_the_book(0, 1)]


def test_digest_golden_values():
    """Written down once: a change here means that no digest of an older save can be compared any more."""
    assert partial_digest(np.arange(24, dtype="<u4").reshape(4, 6), ((0, 4), (0, 6))) == 0x54CF8046537673F4
    assert partial_digest(np.arange(24, dtype="<u8").reshape(4, 6), ((0, 4), (0, 6))) == 0xFDC207AB3F9D85C4


@settings(deadline=None, max_examples=60)
@given(
    shape=st.lists(st.integers(1, 9), max_size=3).map(tuple),
    item_bytes=st.sampled_from([1, 2, 4, 8]),
    seed=st.integers(0, 2**32),
)
def test_digest_does_not_depend_on_how_a_tensor_is_cut(shape, item_bytes, seed):
    rng = random.Random(seed)
    bits = np.frombuffer(rng.randbytes(int(np.prod(shape)) * item_bytes), dtype=f"<u{item_bytes}").reshape(shape)
    boxes = [whole_box(shape)]
    for _ in range(5 if shape else 0):
        box = boxes.pop(rng.randrange(len(boxes)))
        dim = rng.randrange(len(shape))
        at = rng.randint(*box[dim])
        boxes += [(*box[:dim], (box[dim][0], at), *box[dim + 1 :]), (*box[:dim], (at, box[dim][1]), *box[dim + 1 :])]
    rng.shuffle(boxes)
    shares = [partial_digest(bits[tuple(slice(*ends) for ends in box)].copy(), box) for box in boxes]
    assert add_digests(shares) == partial_digest(bits, whole_box(shape))


@pytest.mark.parametrize("shape", [(200_000,), (3, 70_000), (70_000, 3), (2, 66_000, 2)])
@pytest.mark.parametrize("item_bytes", [2, 4, 8])
def test_digest_of_long_dims_does_not_depend_on_cuts(shape, item_bytes):
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 256, (*shape, item_bytes), dtype=np.uint8).view(f"<u{item_bytes}").reshape(shape)
    whole = whole_box(shape)
    for dim, length in enumerate(shape):
        for at in (1, length // 2, length - 1):
            low = (*whole[:dim], (0, at), *whole[dim + 1 :])
            high = (*whole[:dim], (at, length), *whole[dim + 1 :])
            shares = [partial_digest(bits[tuple(slice(*ends) for ends in box)].copy(), box) for box in (low, high)]
            assert add_digests(shares) == partial_digest(bits, whole)


@pytest.mark.parametrize("item_bytes", [1, 2, 4, 8])
def test_every_flipped_bit_changes_the_digest(item_bytes):
    raw = np.frombuffer(random.Random(3).randbytes(6 * 7 * item_bytes), dtype=np.uint8).copy()
    box = ((0, 6), (0, 7))
    clean = partial_digest(raw.view(f"<u{item_bytes}").reshape(6, 7), box)
    seen = {clean}
    for at in range(len(raw) * 8):
        raw[at // 8] ^= 1 << at % 8
        seen.add(partial_digest(raw.view(f"<u{item_bytes}").reshape(6, 7), box))
        raw[at // 8] ^= 1 << at % 8
    assert len(seen) == 1 + len(raw) * 8


@pytest.mark.parametrize("item_bytes", [2, 4, 8])
def test_two_flipped_signs_and_swapped_elements_change_the_digest(item_bytes):
    """Sign flips differ in the top bit alone: the weakest case of a sum of products modulo 2^64."""
    bits = np.frombuffer(random.Random(4).randbytes(64 * item_bytes), dtype=f"<u{item_bytes}").copy()
    box, sign = ((0, 64),), np.array(1 << (8 * item_bytes - 1), dtype=f"<u{item_bytes}")
    clean = partial_digest(bits, box)
    for a in range(64):
        for b in range(a):
            flipped, swapped = bits.copy(), bits.copy()
            flipped[[a, b]] ^= sign
            swapped[[a, b]] = swapped[[b, a]]
            assert partial_digest(flipped, box) != clean
            assert bits[a] == bits[b] or partial_digest(swapped, box) != clean
