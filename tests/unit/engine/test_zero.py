"""A unit of parameters over dp: rows that no number of ranks divides come together, and sums of gradients are cut."""

import threading
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from emberward.engine import _zero

SHAPES = ((5, 3), (7,), (2, 2, 3), (1, 4))
RANKS = 3


class Meeting:
    """Stands for the collectives of `RANKS` ranks, each on a thread."""

    def __init__(self):
        self._here = threading.local()
        self._sent = [None] * RANKS
        self._barrier = threading.Barrier(RANKS, timeout=20)

    def run(self, work):
        found = [None] * RANKS

        def rank_of(rank):
            self._here.rank = rank
            try:
                found[rank] = work(rank)
            except BaseException:
                self._barrier.abort()
                raise

        threads = [threading.Thread(target=rank_of, args=(rank,)) for rank in range(RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def _all(self, mine):
        self._sent[self._here.rank] = mine.clone()
        self._barrier.wait()
        sent = list(self._sent)
        self._barrier.wait()
        return sent

    def gather(self, out, mine, *, group, async_op):
        out.copy_(torch.cat(self._all(mine)))
        return SimpleNamespace(wait=lambda: None)

    def scatter(self, out, whole, *, group, async_op):
        out.copy_(sum(self._all(whole)).view(RANKS, -1)[self._here.rank])
        return SimpleNamespace(wait=lambda: None)

    def exchange(self, out, whole, *, group, async_op):
        out.copy_(torch.cat([sent.view(RANKS, -1)[self._here.rank] for sent in self._all(whole)]))
        return SimpleNamespace(wait=lambda: None)


@pytest.fixture
def meeting(monkeypatch):
    meeting = Meeting()
    monkeypatch.setattr(_zero, "all_gather_flat", meeting.gather)
    monkeypatch.setattr(_zero, "reduce_scatter_flat", meeting.scatter)
    monkeypatch.setattr(_zero.dist, "all_to_all_single", meeting.exchange)
    return meeting


def drawn(shape, *numbers):
    return torch.randn(shape, generator=torch.Generator().manual_seed(hash(numbers) % 2**31))


def rows_of(whole, rank):
    return whole.chunk(RANKS)[rank] if rank < len(whole.chunk(RANKS)) else whole[:0]


@pytest.mark.parametrize("exchanges", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parameters_come_together_and_gradients_are_summed_and_cut(meeting, exchanges, dtype):
    values = [drawn(shape, at) for at, shape in enumerate(SHAPES)]

    def work(rank):
        over = SimpleNamespace(num_shards=RANKS, shard=rank, shards=object(), replicas=None, exchanges=exchanges)
        meta = [nn.Parameter(torch.empty(shape, device="meta")) for shape in SHAPES]
        unit = _zero._Unit(meta, over, dtype, torch.device("cpu"))
        for master, value in zip(unit.masters, values, strict=True):
            master.data.copy_(rows_of(value, rank))
        unit.gather()
        unit.wait()
        gathered = [param.detach().clone() for param in unit.params]
        unit.release()
        assert unit.params[0].untyped_storage().nbytes() == 0
        unit.wait()
        again = [param.detach().clone() for param in unit.params]
        for mb in range(2):
            for at, param in enumerate(unit.params):
                if (at, mb) != (1, 0):  # no gradient: it counts with zeros
                    param.grad = drawn(param.shape, rank, at, mb).to(dtype)
                    unit.take(at)
            unit.reduce()
            unit.finish(is_last=mb == 1)
        unit.hand_over()
        return gathered, again, [master.grad.clone() for master in unit.masters]

    expected = []
    for at, shape in enumerate(SHAPES):
        given = [(rank, mb) for mb in range(2) for rank in range(RANKS) if (at, mb) != (1, 0)]
        expected.append(sum(drawn(shape, rank, at, mb).to(dtype).float() for rank, mb in given))
    for rank, (gathered, again, grads) in enumerate(meeting.run(work)):
        for at, value in enumerate(values):
            assert torch.equal(gathered[at], value.to(dtype))
            assert torch.equal(again[at], value.to(dtype))
            torch.testing.assert_close(grads[at], rows_of(expected[at], rank), rtol=1e-6, atol=1e-6)


def test_micro_batches_add_up_in_float32_where_nothing_is_sharded():
    over = SimpleNamespace(num_shards=1, shard=0, shards=None, replicas=None, exchanges=False)
    unit = _zero._Unit([nn.Parameter(torch.empty(3, 4, device="meta"))], over, torch.bfloat16, torch.device("cpu"))
    for value in (1.0, 2.0**-9):  # bfloat16 has eight bits
        unit.params[0].grad = torch.full((3, 4), value, dtype=torch.bfloat16)
        unit.take(0)
        assert unit.params[0].grad is None
    unit.reduce()
    unit.finish(is_last=True)
    unit.hand_over()
    assert torch.equal(unit.masters[0].grad, torch.full((3, 4), 1.0 + 2.0**-9))
