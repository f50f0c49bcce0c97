"""Evaluation: every sample once, all ranks together to the end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberward.data import IndexedWriter, eval_batches, open_eval, prepare
from emberward.findings import ConfigError

# 29 sets of uneven length, as the BLOOM run had; some shorter than one global micro-batch, one empty.
SETS = [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 29, 31, 32, 33, 41, 57, 63, 64, 65, 97, 101, 127, 128, 200]


@pytest.mark.parametrize("dp", range(1, 9))
@pytest.mark.parametrize("micro_batch", [1, 3, 4])
def test_29_uneven_sets_end_on_all_ranks_together(dp, micro_batch):
    assert len(SETS) == 29
    for num_samples in SETS:
        plan = eval_batches(num_samples, dp, micro_batch)
        ranks = [plan.of_rank(rank) for rank in range(dp)]
        assert {len(rank) for rank in ranks} == {plan.num_micro_batches}
        assert {len(rows) for rank in ranks for rows in rank} <= {micro_batch}
        rows = [row for rank in ranks for rows in rank for row in rows]
        assert sorted(row for row in rows if row is not None) == list(range(num_samples))
        # No more padding than the last round needs.
        assert rows.count(None) < dp * micro_batch


@given(st.integers(0, 500), st.integers(1, 8), st.integers(1, 5), st.integers(1, 4))
def test_number_of_micro_batches_is_a_multiple(num_samples, dp, micro_batch, multiple):
    plan = eval_batches(num_samples, dp, micro_batch, multiple=multiple)
    assert plan.num_micro_batches % multiple == 0
    rows = [row for rank in range(dp) for rows in plan.of_rank(rank) for row in rows if row is not None]
    assert sorted(rows) == list(range(num_samples))


def test_plan_of_nonsense_is_our_mistake():
    with pytest.raises(ValueError, match="no plan for 3 samples, dp 0"):
        eval_batches(3, 0, 1)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    (folder / "train.txt").write_text("train on this\n" * 50)
    for name, size in (("short", 10), ("exact", 40), ("long", 1000)):
        (folder / f"{name}.txt").write_bytes(bytes(65 + number % 26 for number in range(size)))
    (folder / "one.txt").write_text("x")
    return prepare(
        train=[(str(folder / "train.txt"), 1.0, None)],
        evaluation=[(str(folder / f"{name}.txt"), 1.0, None) for name in ("short", "exact", "long", "one")],
        tokenizer="byte",
        held_out=0.0,
        cache=folder / "cache",
        progress=None,
    )


@pytest.mark.parametrize(("name", "labels"), [("short", 10), ("exact", 40), ("long", 1000), ("one", 1)])
def test_each_token_but_the_first_is_a_label_once(manifest, name, labels):
    """The set's bytes and its end token: as many labels as bytes, padding at weight 0."""
    set_ = open_eval(manifest, seq_len=20, max_samples=1000)[name]
    assert set_.num_samples == -(-labels // 20)
    batch = set_.batch(range(set_.num_samples))
    assert batch.mask.sum() == labels
    counted = batch.tokens[:, 1:][batch.mask == 1]
    text = bytes(65 + number % 26 for number in range(labels)) if name != "one" else b"x"
    assert counted.tolist() == [*text[1:], 256]
    assert set(batch.tokens[:, 1:][batch.mask == 0].tolist()) <= {256}


@pytest.mark.parametrize("dp", [1, 2, 3, 4, 7])
def test_mean_over_any_dp_is_the_mean_over_one_rank(manifest, dp):
    """The weighted mean of a value that differs at every token does not depend on how the set is dealt out."""
    for set_ in open_eval(manifest, seq_len=20, max_samples=30).values():
        straight = set_.batch(range(set_.num_samples))
        wanted = (straight.tokens[:, 1:] * straight.mask).sum(), straight.mask.sum()
        plan = eval_batches(set_.num_samples, dp, 2)
        total = np.zeros(2)
        for rank in range(dp):
            for rows in plan.of_rank(rank):
                batch = set_.batch(rows)
                assert batch.tokens.shape == (2, 21)
                total += (batch.tokens[:, 1:] * batch.mask).sum(), batch.mask.sum()
        assert tuple(total) == wanted


def test_bounded_sample_is_spread_over_the_whole_set(manifest):
    set_ = open_eval(manifest, seq_len=20, max_samples=5)["long"]
    assert set_.num_samples == 5
    assert [set_._window(index) for index in range(5)] == [0, 10, 20, 30, 40]
    with pytest.raises(IndexError, match="sample 5 of 5 of evaluation set long"):
        set_.batch([5])


def test_padding_row_weighs_nothing(manifest):
    batch = open_eval(manifest, seq_len=20, max_samples=5)["long"].batch([None, 0])
    assert batch.mask.sum(axis=1).tolist() == [0, 20]
    assert set(batch.tokens[0].tolist()) == {256}


def test_set_with_no_label_is_refused(tmp_path):
    (tmp_path / "text.txt").write_text("some text\n\nand more\n\n" * 40)
    with IndexedWriter(tmp_path / "tiny", np.uint16) as writer:
        writer.add_document(np.array([65]))
    manifest = prepare(
        train=[(str(tmp_path / "text.txt"), 1.0, None)],
        evaluation=[(str(tmp_path / "tiny"), 1.0, "tiny set")],
        tokenizer="byte",
        held_out=0.0,
        cache=tmp_path / "cache",
        progress=None,
    )
    with pytest.raises(ConfigError, match="D101 evaluation set tiny set is too short for one sample"):
        open_eval(manifest, seq_len=8, max_samples=4)
