"""Hidden tokens: how many, by what, and the same ones whichever rank reads a sample and whenever."""

import numpy as np
import pytest

from emberward.data import Batch, MaskedText, Masking

LENGTH, MASK, PAD, EOD, NUM_IDS = 200, 257, 1, 256, 257
MASKING = Masking(share=0.15, mask_id=MASK, specials=frozenset({MASK, PAD, EOD}), num_ids=NUM_IDS)


class Written:
    """Samples of random tokens by number, some of them special; None is a row of padding, as in evaluation sets."""

    def batch(self, indices):
        tokens = np.full((len(indices), LENGTH + 1), EOD, dtype=np.int64)
        mask = np.zeros((len(indices), LENGTH), dtype=np.float32)
        for row, index in enumerate(indices):
            if index is not None:
                tokens[row] = np.random.default_rng(index).integers(0, NUM_IDS, LENGTH + 1)
                tokens[row, 5] = PAD
                mask[row] = 1
        return Batch(tokens=tokens, mask=mask)


def text(key: int = 7, masking: Masking = MASKING) -> MaskedText:
    return MaskedText(Written(), masking, key=key)


def test_a_share_is_chosen_and_of_it_most_is_hidden_some_replaced_and_some_left():
    batch = text().batch(range(500))
    chosen = batch.mask > 0
    assert chosen.mean() == pytest.approx(0.15, abs=0.005)
    hidden, kept = (batch.inputs == MASK)[chosen], (batch.inputs == batch.labels)[chosen]
    assert hidden.mean() == pytest.approx(0.8, abs=0.01)
    # A random token is the right one once in 254 times.
    assert kept.mean() == pytest.approx(0.1 + 0.1 / 254, abs=0.01)
    assert np.array_equal(batch.inputs[~chosen], batch.labels[~chosen])
    assert np.array_equal(batch.labels, Written().batch(range(500)).tokens[:, :-1])


def test_random_tokens_are_any_but_the_special_ones():
    batch = text().batch(range(3000))
    changed = (batch.inputs != batch.labels) & (batch.inputs != MASK)
    found, counts = np.unique(batch.inputs[changed], return_counts=True)
    assert set(found.tolist()) == set(range(NUM_IDS)) - {PAD, EOD}
    squares = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    assert abs(squares - len(found)) < 4 * (2 * len(found)) ** 0.5, "chi-squared of an even choice"


def test_special_tokens_are_never_chosen():
    batch = text().batch(range(300))
    assert not batch.mask[np.isin(batch.labels, [PAD, EOD])].any()
    assert not batch.mask[:, 5].any()


def test_what_is_hidden_depends_on_the_key_and_the_number_alone():
    whole = text().batch(range(12))
    parts = [text().batch(rows) for rows in ((7, 3), (11,), (0, 1, 2), (10, 9, 8, 4, 5, 6))]
    for name in ("inputs", "labels", "mask"):
        found = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(found, getattr(whole, name)[[7, 3, 11, 0, 1, 2, 10, 9, 8, 4, 5, 6]])
    assert not np.array_equal(whole.mask, text(key=8).batch(range(12)).mask)
    assert not np.array_equal(whole.mask[0], whole.mask[1])


def test_padding_of_an_evaluation_set_does_not_count():
    batch = text().batch([0, None])
    assert batch.mask[0].any() and not batch.mask[1].any()


def test_a_larger_share_hides_what_a_smaller_one_does_and_more():
    small, large = (text(masking=Masking(share=share, mask_id=MASK, specials=frozenset({MASK}), num_ids=NUM_IDS))
                    for share in (0.15, 0.3))  # fmt: skip
    few, many = small.batch(range(20)).mask, large.batch(range(20)).mask
    assert (many >= few).all() and many.sum() > few.sum()
