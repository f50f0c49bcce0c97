"""An error on one rank is an error on every rank: none hangs, none believes in a save that is not whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from unit.checkpoint.checkpoint_ranks import blank, cut, is_bit_equal, random_bits, require_saved, save_all
from unit.checkpoint.checkpoint_storages import Fault, FaultyStorage, Plan

from emberward.checkpoint import Shard, alone, latest, load, rehearse, save
from emberward.findings import EmberwardError

WHOLE = random_bits(torch.float32, (6, 4), 1)
TOP, MIDDLE, BOTTOM = ((0, 2), (0, 4)), ((2, 4), (0, 4)), ((4, 6), (0, 4))


def good_ranks():
    return [[cut("w", WHOLE, TOP)], [cut("w", WHOLE, MIDDLE)], [cut("w", WHOLE, BOTTOM)]]


def require_all_raise(root: Path, results, culprit: int) -> EmberwardError | Exception:
    """Every rank raised, the ranks beside the culprit K103, and nothing is left of the save."""
    assert all(isinstance(result, Exception) for result in results), results
    for rank, result in enumerate(results):
        if rank != culprit:
            assert isinstance(result, EmberwardError) and result.code == "K103", result
    assert latest(root) is None
    assert [p.name for p in root.iterdir()] == [".lock"]
    return results[culprit]


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_a_shard_that_cannot_be_saved_fails_all_ranks(tmp_path, culprit):
    shards = good_ranks()
    shards[culprit].append(Shard(name="v", global_shape=(4, 2), box=((0, 4), (0, 2)), tensor=torch.zeros(2, 4).t()))
    error = require_all_raise(tmp_path, save_all(tmp_path, shards), culprit)
    assert isinstance(error, ValueError) and "contiguous" in str(error)
    require_saved(save_all(tmp_path, good_ranks()))


@pytest.mark.parametrize(
    ("change", "what", "found"),
    [
        (lambda s: s[1].clear(), "no rank gives a part of tensor w", "16 elements"),
        (lambda s: s[1].append(cut("w", WHOLE, ((0, 1), (0, 1)))), "ranks 0 and 1 both give a part of tensor w", "w["),
        (
            lambda s: s[2].__setitem__(0, cut("w", WHOLE.double(), BOTTOM)),
            "ranks 0 and 2 disagree about tensor w",
            "F64 (6, 4)",
        ),
    ],
)
def test_parts_that_do_not_make_a_tensor_are_refused_by_name(tmp_path, change, what, found):
    shards = good_ranks()
    change(shards)
    error = require_all_raise(tmp_path, save_all(tmp_path, shards), culprit=0)
    assert isinstance(error, EmberwardError) and error.what == what and found in str(error.found)


def test_meta_that_is_not_json_fails_all_ranks(tmp_path):
    error = require_all_raise(tmp_path, save_all(tmp_path, good_ranks(), meta={"x": {1, 2}}), culprit=0)
    assert isinstance(error, TypeError)


def test_the_same_part_given_twice_by_one_rank_is_refused(tmp_path):
    shards = good_ranks()
    shards[1] *= 2
    error = require_all_raise(tmp_path, save_all(tmp_path, shards), culprit=1)
    assert isinstance(error, ValueError) and "twice" in str(error)


def test_a_rehearsal_makes_as_many_agreements_as_a_save_that_goes_well(tmp_path):
    counts = []
    for act in (
        lambda agree: save(tmp_path, step=1, shards=[], meta={}, rank=0, world_size=1, agree=agree),
        lambda agree: rehearse(agree=agree),
    ):
        votes: list[bool] = []
        act(lambda is_well, votes=votes: votes.append(is_well) or True)
        counts.append(votes)
    assert counts[0] == counts[1] == [True, True, True]
    assert rehearse(agree=alone) and not rehearse(agree=lambda is_well: False)


def test_messages_of_a_disk_that_is_full(tmp_path):
    plan = Plan(Fault.FULL, at=2, rank=1)
    results = save_all(tmp_path, good_ranks(), storage_of=lambda rank: FaultyStorage(plan, rank))
    texts = [str(result).replace(str(tmp_path), "checkpoints") for result in results]
    assert texts[1] == (
        "K103 rank 1 could not write the checkpoint\n"
        "  where     write 160 bytes of rank-00001.safetensors\n"
        "  found     No space left on device\n"
        "  next      free space where checkpoints lies, then start again: it resumes from the save before"
    )
    assert texts[2] == (
        "K103 another rank could not write its part of the checkpoint\n"
        "  where     checkpoints\n"
        "  found     rank 2 itself is well\n"
        "  next      read the error of the rank that failed; the saves before this one are untouched"
    )
    assert [result.ranks for result in results] == [(), (1,), ()]


def test_message_of_an_old_save_that_cannot_be_removed(tmp_path):
    require_saved(save_all(tmp_path, good_ranks(), step=1))
    plan = Plan(Fault.ERROR, at=0)
    require_saved(save_all(tmp_path, good_ranks(), step=2, storage_of=lambda rank: FaultyStorage(plan, rank)))
    plan = Plan(Fault.ERROR, at=plan.counts[0] + 1)
    results = save_all(tmp_path, good_ranks(), step=3, keep=1, storage_of=lambda rank: FaultyStorage(plan, rank))
    assert require_saved(results) == latest(tmp_path) == tmp_path / "step-00000003"
    (notice,) = results[0].notices
    assert (notice.code, notice.severity.value) == ("K104", "warning")
    assert notice.message.replace(str(tmp_path), "checkpoints") == (
        "the checkpoint is saved, but an old one could not be removed: [Errno 5] Input/output error: "
        "'rename step-00000001 to .step-00000001.0001.gone'"
    )
    assert notice.next == f"check the file system of {tmp_path}; the next save tries again"


CHILD = """
import sys
from pathlib import Path
import torch, torch.distributed as dist
from emberward.checkpoint import Shard, save
rank, world = int(sys.argv[1]), 2
root, store = Path(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
def agree(is_well):
    vote = torch.tensor([int(is_well)])
    dist.all_reduce(vote, op=dist.ReduceOp.MIN)
    return bool(vote.item())
whole = torch.arange(20, dtype=torch.float32).reshape(5, 4)
start, stop = ((0, 3), (3, 5))[rank]
shard = Shard(name="w", global_shape=(5, 4), box=((start, stop), (0, 4)), tensor=whole[start:stop])
for step in (1, 2):
    save(root, step=step, shards=[shard], meta={"step": step}, rank=rank, world_size=world, agree=agree, keep=1)
dist.destroy_process_group()
"""


def test_two_real_processes_save_together(tmp_path):
    root = tmp_path / "deep" / "checkpoints"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    children = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CHILD, str(rank), str(root), str(tmp_path / "store")],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for child in children:
        _, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors
    path = latest(root)
    assert path == root / "step-00000002"
    assert sorted(p.name for p in root.iterdir()) == [".lock", "latest", "step-00000002"]
    whole = torch.arange(20, dtype=torch.float32).reshape(5, 4)
    shard = blank("w", whole, ((0, 5), (0, 4)))
    load(path, [shard])
    assert is_bit_equal(shard.tensor, whole)
