"""Where a program deals out what its ranks compute with, from its text."""

from dataclasses import replace

import pytest
from unit.lens.test_uneven import meetings, operations, samples

from emberward.findings import Cause
from emberward.lens import Sources, audit
from emberward.lens._dealt import dealt_at, runs_alike
from emberward.lens._findings import exposed_finding
from emberward.lens._uneven import dealt, uneven_steps

BY_HALVES = """
def main():
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    net = DDP(Net().to(rank), device_ids=[rank])
    batches = endless(Texts(40).of(rank, world))  # here
    for step in range(60):
        text = next(batches)
        hidden = torch.rand(text.shape) < 0.2
        loss = F.cross_entropy(net(text.masked_fill(hidden, 0)), text)  # asks
        loss.backward()
"""
BY_SAMPLER = """
def main(cfg):
    data = Texts(cfg)
    sampler = DistributedSampler(data, shuffle=False)  # here
    loader = DataLoader(data, 32, sampler=sampler)
    for ids, labels in loader:
        loss = criterion(model(ids), labels)  # asks
        loss.backward()
"""
BY_HELPER = """
def part(data):
    rank = dist.get_rank()
    size = len(data) // dist.get_world_size()
    return data[rank * size : (rank + 1) * size]  # here
def main():
    rows = part(load())
    for step in range(60):
        loss = model(rows[step])  # asks
        loss.backward()
"""
BY_NOBODY = """
def main():
    rank = dist.get_rank()
    net = DDP(Net().to(rank), device_ids=[rank])
    for step in range(60):
        x = torch.rand(32, draw_length())
        loss = net(x).sum()  # asks
        loss.backward()
"""


def line_of(text, mark):
    return next((i for i, line in enumerate(text.splitlines(), 1) if line.endswith(f"# {mark}")), None)


@pytest.mark.parametrize("text", [BY_HALVES, BY_SAMPLER, BY_HELPER, BY_NOBODY])
@pytest.mark.parametrize("after", [0, 1], ids=["forward", "backward"])
def test_the_nearest_statement_that_asks_for_the_rank_deals_the_data(text, after):
    sources = Sources(lambda file: text if file == "train.py" else "")
    here = line_of(text, "here")
    assert dealt_at(f"train.py:{line_of(text, 'asks') + after}", sources) == (here and f"train.py:{here}")


def test_a_line_of_no_file_deals_nothing():
    assert dealt_at("train.py:3", Sources(lambda file: "")) is None


def test_ranks_that_run_other_operations_are_not_alike():
    one, other = operations(0, sizes=(64,)), operations(1, sizes=(640,))
    assert runs_alike([one, other])
    twice = replace(one, operations=(*one.operations, *one.operations))
    assert not runs_alike([one, twice])
    assert not runs_alike([one])


def test_it_is_told_there_with_the_line_that_takes_longer():
    text = "batches = part(data, rank)\nfor ids in batches:\n    loss = model(ids)\n    loss.backward()\n"
    own_ms = lambda rank, step: 60 if (step + rank) % 2 else 40  # noqa: E731
    both = [samples(rank, own_ms=own_ms) for rank in (0, 1)]
    seen = [operations(rank, sizes=(64, 96)) for rank in (0, 1)]
    found = uneven_steps(audit([], both, Sources(lambda file: text), meetings(own_ms)), both, seen)
    assert found is not None and found.site == "train.py:2"
    there = dealt(replace(found, site="train.py:3"), seen, Sources(lambda file: text))
    assert (there.site, there.longer_at) == ("train.py:1", "train.py:3")
    finding = exposed_finding(there, num_ranks=2)
    assert finding.cause is Cause.IMBALANCE and "train.py:3" in finding.evidence[1]
    assert dealt(replace(found, cause=Cause.EARLY_WAIT), seen, Sources(lambda file: text)).longer_at is None
