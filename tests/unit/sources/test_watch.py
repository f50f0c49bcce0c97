"""The watch recognises calls by their signatures, and tells the guard the same as words for each call would."""

import pytest
import torch
import torch.distributed as dist

from emberward.sources import Guard, RoleProgram
from emberward.sources.fake_world import fake_world
from emberward.sources.recorder import Recorder
from emberward.sources.watch import CallWatch

NOTHING = RoleProgram(rank=0, calls=(), places=(), segments=())


def guard():
    return Guard(NOTHING, rank=0, find_site=lambda: None, on_departure=lambda departure: None)


def calls():
    """Calls of which each differs from the one before in one fact that is compared."""
    pair = dist.new_group([0, 1])
    few, many = torch.zeros(4), torch.zeros(8)
    for _ in range(2):
        dist.all_reduce(few)
        dist.all_reduce(many)
        dist.all_reduce(few.reshape(2, 2))
        dist.all_reduce(few.double())
        dist.all_reduce(few, op=dist.ReduceOp.MAX)
        dist.all_reduce(few, group=pair)
        dist.broadcast(few, src=0)
        dist.broadcast(few, src=1)
        dist.reduce(few, dst=1)
        dist.reduce(few, dst=1, op=dist.ReduceOp.MAX)
        dist.all_gather([torch.zeros(4) for _ in range(4)], few)
        dist.reduce_scatter_tensor(few, torch.zeros(16))
        dist.reduce_scatter_tensor(few, torch.zeros(16), op=dist.ReduceOp.MAX)
        dist.send(few, dst=1)
        dist.send(few, dst=2)
        dist.send(few, dst=2, tag=3)
        dist.recv(few, src=2)
        dist.barrier()


@pytest.mark.filterwarnings("ignore")
def test_signatures_tell_apart_all_that_is_compared():
    by_words, by_signature = guard(), guard()
    for make in (lambda: Recorder(None, before=by_words.before), lambda: CallWatch(by_signature)):
        with fake_world(0, 4), make().recording():
            calls()
    assert (by_words.position, by_words.hash) == (by_signature.position, by_signature.hash)
    assert by_words.position == 1 + 2 * 18
    assert len(by_words._keys) == 1 + 18, "no two of the calls are the same"


def test_the_watch_leaves_torch_as_it_was():
    before = dict(vars(dist.ProcessGroup))
    with fake_world(0, 2), CallWatch(guard()).recording():
        assert dict(vars(dist.ProcessGroup)) != before
    assert dict(vars(dist.ProcessGroup)) == before
