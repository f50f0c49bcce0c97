"""docs/operations.md against torch: every public function is in its tables, every method recorded or refused."""

import inspect
import itertools
import json
import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
NAMES = json.loads(Path(__file__).with_name("torch_names.json").read_text())
"""For torch 2.11, 2.12 and 2.13 the public functions that each module defines, and the methods of ProcessGroup.

Of the wheels 2.11.0, 2.12.0 and 2.13.0: distributed_c10d.py, device_mesh.py, rendezvous.py and __init__.py together,
_functional_collectives.py, nn/functional.py, _C/_distributed_c10d.pyi.
"""


def documented() -> set[str]:
    """The names in the first cells of the page's tables."""
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`([a-z_0-9]+)`", row)}


def public_functions() -> set[str]:
    """Functions of torch.distributed that a script may call, and functional ones."""
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    import torch.distributed.nn.functional as differentiable

    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found |= {name for name in dir(dist) if not name.startswith("_") and inspect.isroutine(getattr(dist, name))}
    for module in (functional, differentiable):
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                found.add(name)
    return found


def missing(names: set[str]) -> list[str]:
    return sorted(names - documented())


def functions_of(version: str) -> set[str]:
    """The functions of a version, without a group's methods."""
    return {name for module, names in NAMES[version].items() if module != "ProcessGroup" for name in names}


def test_every_public_function_of_torch_distributed_is_in_the_table():
    assert missing(public_functions()) == []


@pytest.mark.parametrize("version", NAMES)
def test_every_public_function_of_each_version_is_in_the_table(version):
    assert missing(functions_of(version)) == []


def test_the_lists_are_those_of_the_installed_version():
    import torch
    import torch.distributed._functional_collectives as functional

    version = ".".join(torch.__version__.split(".")[:2])
    names = NAMES[version]["torch.distributed._functional_collectives"]
    assert functions_of(version) <= public_functions() | set(dir(functional))
    assert {name for name in vars(functional) if name in public_functions()} <= functions_of(version)
    assert all(callable(getattr(functional, name)) for name in names)


def test_the_page_says_what_came_with_which_version():
    """Nothing of these lists was removed; what was added stands in the page's table of versions."""
    versions = list(NAMES)
    rows = {
        line.split("|")[1].strip(): set(re.findall(r"`([a-z_0-9]+)`", line.split("|")[2]))
        for line in PAGE.read_text().splitlines()
        if re.match(r"\| 2\.\d+ ", line)
    }
    for before, version in itertools.pairwise(versions):
        added: set[str] = set()
        for module, names in NAMES[version].items():
            assert set(NAMES[before][module]) <= set(names)
            added |= set(names) - set(NAMES[before][module])
        assert rows.pop(version) == added
    assert rows == {}


def test_a_function_that_is_not_in_the_table_is_seen():
    assert missing({"all_reduce", "all_reduce_backwards"}) == ["all_reduce_backwards"]


def test_every_method_of_a_group_is_recorded_or_refused():
    from torch._C._distributed_c10d import ProcessGroup

    from emberward.sources._calls import METHODS
    from emberward.sources.script._group import NOT_EXAMINED, LockStepGroup

    silent = {
        "abort", "boxed", "bound_device_id", "get_group_store", "group_desc", "group_name", "name", "rank",
        "set_timeout", "shutdown", "size", "unbox", "use_pg_for_symm_mem_rendezvous", "BackendType", "CUSTOM", "GLOO",
        "MPI", "NCCL", "UCC", "UNDEFINED", "XCCL",
    }  # fmt: skip
    known = set(METHODS) | set(NOT_EXAMINED) | silent
    methods = set(dir(ProcessGroup)).union(*(names["ProcessGroup"] for names in NAMES.values()))
    assert sorted(name for name in methods if not name.startswith("_") and name not in known) == []
    assert all(name in vars(LockStepGroup) for name in (*METHODS, *NOT_EXAMINED))


@pytest.mark.parametrize("name", ["recv_anysource", "split_group"])
def test_what_is_not_examined_is_refused_and_never_passed_over(name):
    from emberward.sources.script._group import LockStepGroup
    from emberward.sources.script._guard import RefusedError

    with pytest.raises(RefusedError, match=f"{name} is not examined"):
        getattr(LockStepGroup, name)(None)


def test_gloo_takes_a_reduce_scatter_of_uneven_parts_and_no_such_gather():
    import torch

    from emberward.events import Collective, CollectiveOp, Group
    from emberward.sources._tape import Transport
    from emberward.sources.script._backend import BackendError, require_accepted

    group = Group(ranks=(0, 1))
    parts = [torch.zeros(57), torch.zeros(56)]
    scattered = Collective(op=CollectiveOp.REDUCE_SCATTER, group=group)
    require_accepted("reduce_scatter", scattered, ([parts[0]], [parts]), transport=Transport.GLOO)
    gathered = Collective(op=CollectiveOp.ALL_GATHER, group=group)
    with pytest.raises(BackendError):
        require_accepted("allgather", gathered, ([parts], [parts[0]]), transport=Transport.GLOO)
