"""Draws by counter: the same numbers on every layout, evenly spread, of every library."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emberward.draws import (
    GOLDEN,
    Draws,
    key_of,
    lanes,
    mix64_any,
    mix64_array,
    normal_box,
    scale_of,
    signed,
    threshold_of,
)

KEYS = np.array([key_of(number) for number in range(40)], np.uint64)
DRAWS = Draws(seed=1, step=2, samples=(3, 4, 5, 6))


def test_draws_are_the_same_in_every_version():
    """Golden: a change here changes the numbers of every run that is under way."""
    assert lanes(np.array([7], np.uint64), 6).tolist() == [[3543, 22834, 57828, 25547, 26140, 62524]]
    assert key_of(1, "drop_path", 3) == 11016149873690568897
    assert DRAWS.lanes((2, "drop_path"), 2).tolist() == [[5796, 9655], [31804, 33903], [1002, 61356], [25959, 31226]]
    assert normal_box(5, (2, 2), ((0, 2), (0, 2))).tolist() == [
        [0.7163088321685791, 0.3552980422973633],
        [-0.7366766929626465, -0.28774189949035645],
    ]


@settings(deadline=None)
@given(st.integers(0, 9_000), st.integers(0, 9_000))
def test_a_part_of_a_row_is_that_part_of_the_whole_row(first, last):
    first, last = sorted((first, last))
    whole = lanes(KEYS[:2], 9_000)
    assert np.array_equal(lanes(KEYS[:2], last - first, first=first), whole[:, first:last])


@pytest.mark.parametrize(("num_rows", "num"), [(1, 0), (0, 5), (40, 1), (40, 3000), (3, 200_001)])
def test_rows_are_drawn_as_if_alone_whatever_blocks_they_fall_into(num_rows, num):
    keys = KEYS[:num_rows]
    found = lanes(keys, num)
    assert found.shape == (num_rows, num)
    assert all(np.array_equal(found[row : row + 1], lanes(keys[row : row + 1], num)) for row in range(num_rows))


def test_another_library_draws_the_same_numbers():
    numbers = np.arange(-5000, 5000, dtype=np.int64) * 0x0123456789ABCDEF
    expected = mix64_array(numbers.astype(np.uint64))
    tensor = torch.from_numpy(numbers)
    assert np.array_equal(mix64_any(tensor).numpy().astype(np.uint64), expected)
    assert np.array_equal(mix64_any(numbers).astype(np.uint64), expected)
    words = mix64_any(torch.tensor([[signed(int(KEYS[9]))]]) + torch.arange(3) * signed(GOLDEN))
    assert np.array_equal(words.view(torch.int16).numpy().astype(np.uint16), lanes(KEYS[9:10], 12))


def test_draws_are_even_and_independent_of_their_neighbours():
    """Moments of 640,000 draws within 4 of their standard errors; the keys are fixed, so the outcome is too."""
    drawn = lanes(KEYS, 16_000).astype(np.float64) / 65536
    count = drawn.size
    assert abs(drawn.mean() - 0.5) < 4 * np.sqrt(1 / 12 / count)
    assert abs(drawn.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / count)
    table = np.bincount((drawn * 256).astype(int).ravel(), minlength=256)
    assert ((table - count / 256) ** 2 / (count / 256)).sum() < 330.5  # chi-squared, 255 degrees: exceeded 1 in 1,000
    centred = (drawn - 0.5) * np.sqrt(12)
    neighbours = (centred[:, 1:] * centred[:, :-1], centred[1:] * centred[:-1], centred[:, 4:] * centred[:, :-4])
    assert all(abs(products.mean()) < 4 / np.sqrt(products.size) for products in neighbours)


def test_every_part_of_the_key_counts_and_micro_batches_do_not():
    place = (4, "attention", 2)
    whole = DRAWS.lanes(place, 64)
    others = [
        Draws(seed=2, step=2, samples=DRAWS.samples).lanes(place, 64),
        Draws(seed=1, step=3, samples=DRAWS.samples).lanes(place, 64),
        Draws(seed=1, step=2, samples=(7, 8, 9, 10)).lanes(place, 64),
        DRAWS.lanes((5, "attention", 2), 64),
        DRAWS.lanes((4, "output", 2), 64),
        DRAWS.lanes((4, "attention", 3), 64),
        whole[::-1],
    ]
    assert all((other == whole).mean() < 0.05 for other in others)
    cut = [Draws(seed=1, step=2, samples=samples).lanes(place, 64) for samples in ((3,), (4, 5), (6,))]
    assert np.array_equal(np.concatenate(cut), whole)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.2, 0.5, 0.999999])
def test_the_mean_stays_whatever_is_dropped(rate):
    keep = DRAWS.keep((0, "dropout"), rate, 50_000)
    error = np.sqrt(rate * (1 - rate) / keep.size)
    assert abs(keep.mean() - (1 - rate)) <= 4 * error + 2**-16
    assert (1 - threshold_of(rate) / 65536) * scale_of(rate) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_rate_outside_its_range_is_refused(rate):
    with pytest.raises(ValueError, match="a drop rate lies in"):
        threshold_of(rate)


SHAPES = st.lists(st.integers(1, 9), min_size=0, max_size=4)


@settings(deadline=None)
@given(shape=SHAPES, data=st.data())
def test_a_part_of_a_tensor_is_that_part_of_the_whole(shape, data):
    box = [tuple(sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n))))) for n in shape]
    whole = normal_box(77, shape, [(0, n) for n in shape])
    part = normal_box(77, shape, box)
    assert np.array_equal(part, whole[tuple(slice(start, stop) for start, stop in box)])


def test_first_weights_are_normal():
    """Kolmogorov-Smirnov over 1,000,000 values: 1.95 / sqrt(n) is exceeded by chance once in 1,000 draws."""
    values = np.sort(
        normal_box(key_of(1234, "blocks.0.mlp.up.weight"), (1000, 1000), ((0, 1000), (0, 1000))), axis=None
    )
    cdf = 0.5 * (1 + torch.erf(torch.from_numpy(values).double() / 2**0.5)).numpy()
    steps = np.arange(values.size + 1) / values.size
    assert max(np.abs(cdf - steps[1:]).max(), np.abs(cdf - steps[:-1]).max()) < 1.95 / values.size**0.5
    assert abs(values.mean()) < 4e-3 and abs(values.std() - 1) < 3e-3


def test_tensors_of_other_names_have_other_values():
    boxes = [normal_box(key_of(1234, name), (64, 64), ((0, 64), (0, 64))).ravel() for name in ("a", "b", "c")]
    assert all(abs(np.corrcoef(one, other)[0, 1]) < 0.07 for one, other in pairwise(boxes))
