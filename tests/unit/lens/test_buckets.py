"""DDP whose buckets are too small, and where its line comes from."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from unit.lens.test_work import NONE, rank_of, work_of

from emberward.findings import Cause
from emberward.lens import wastes_of
from emberward.sources import _units

SMALL = json.dumps([[[700]], ["float"]])
LARGE = json.dumps([[[400_000]], ["float"]])


def sums(number, *, bucket=SMALL, count=6, site="train.py:9", replicated=("train.py:4",)):
    """A rank whose backward of 9 ms waits 1 ms for each of `count` sums of a bucket."""
    rows = [(f"emberward::backward {site}", NONE, 0.0, 9.0, -1, False)]
    for index in range(count):
        rows += [
            ("c10d::allreduce_", NONE, 0.1 + 1.2 * index, 0.01, -1, False),
            ("gloo:all_reduce", bucket, 0.2 + 1.2 * index, 1.0, -1, True),
        ]
    return replace(rank_of(number, rows), replicated=replicated)


def wastes(**said):
    ranks = [sums(number, **said) for number in (0, 1)]
    return wastes_of(work_of(ranks), ranks)


def test_starts_of_all_sums_but_one_are_told_at_the_line_that_makes_ddp():
    (waste,) = wastes()
    assert (waste.cause, waste.site, waste.ranks) == (Cause.TINY_MESSAGES, "train.py:4", (0, 1))
    assert waste.cost_s == pytest.approx(0.0066 * 5 / 6 * 65_536 / (65_536 + 2800), rel=0.02)
    assert waste.evidence == ("DDP sums 6 buckets a step of 65,536 bytes or less, 16,800 bytes in all",)


def test_ddp_that_a_library_makes_at_no_line_of_the_program_is_told_without_one():
    (waste,) = wastes(replicated=("",))
    assert waste.site is None


@pytest.mark.parametrize(
    "said",
    [{"bucket": LARGE}, {"count": 3}, {"replicated": ()}],
    ids=["large buckets", "few buckets", "sums of the program's own"],
)
def test_the_look_alikes_are_quiet(said):
    assert wastes(**said) == ()


def made_with(monkeypatch, *args, **named):
    """What is noted of something that is made so, whose own arguments are unknown."""
    for name in ("UNITS", "REPLICATED"):
        monkeypatch.setattr(_units, name, [])
    monkeypatch.setattr(_units.CURRENT, "live", SimpleNamespace(problem=lambda what, error: None))
    given = []
    _units._wrapped(lambda unit, *args, **named: given.append((args, named)))(None, *args, **named)
    assert given == [(args, named)]
    return _units.UNITS, _units.REPLICATED


def test_ddp_is_known_by_the_line_that_makes_it_however_it_is_given_its_module(monkeypatch):
    module = torch.nn.Linear(2, 2)
    for args, named in (((module,), {}), ((), {"module": module, "device_ids": None})):
        _, (site,) = made_with(monkeypatch, *args, **named)
        assert site.startswith(f"{__file__}:")
    units, replicated = made_with(monkeypatch, [torch.zeros(3)])
    assert ([size for _, size in units], replicated) == ([12], [])


@pytest.mark.parametrize("named", [{}, {"module": None}])
def test_what_is_made_in_another_way_is_made_all_the_same(named, monkeypatch):
    assert made_with(monkeypatch, **named) == ([], [])


def test_ddp_itself_is_made_with_its_module_by_name_under_the_recorder(tmp_path):
    """As Lightning makes it. In a process of its own, for its class is watched from then on."""
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "emberward", "profile", "--json", "--", sys.executable, str(program)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (head, *_) = next(tmp_path.glob("runs/*/*/lens/*.ops")).read_text().splitlines()
    assert json.loads(head)["replicated"] == [f"{program}:8"]


PROGRAM = """import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
if __name__ == "__main__":
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    plain = nn.Linear(4, 4)
    net = DistributedDataParallel(module=plain, find_unused_parameters=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(40):
        optimizer.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
"""
