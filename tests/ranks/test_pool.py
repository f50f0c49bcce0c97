"""The rank processes that the other tests share outlive what happens in one of them."""

import os

import pytest
import torch
import torch.distributed as dist

from ranks.pool import RankError, RankPool


def summed(rank, world_size, *, dies=None):
    if rank == dies:
        os._exit(7)
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    return total.item()


def ended_at_once(rank, world_size):
    dist.destroy_process_group()
    return rank


def test_a_rank_that_dies_in_a_case_is_named_and_spoils_no_other_case(tmp_path):
    pool = RankPool(2, tmp_path)
    try:
        with pytest.raises(RankError, match="rank 1:\nended with exit code 7"):
            pool.run(summed, 2, dies=1)
        assert pool.run(summed, 2) == [1.0, 1.0]
    finally:
        pool.close()


def test_a_case_may_end_its_group_at_once(pool):
    """Without a barrier before the case a peer that is still connecting loses its link now and then."""
    for _ in range(20):
        assert pool.run(ended_at_once, 2) == [0, 1]
