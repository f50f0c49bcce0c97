"""docs/operations.md against torch: every public function is in its tables, every method recorded or refused."""

import inspect
import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
OF_2_11 = {
    "all_gather_coalesced", "all_gather_into_tensor", "all_reduce_coalesced", "all_to_all_single", "batch_isend_irecv",
    "broadcast_object_list", "new_subgroups", "reduce_scatter_tensor", "scatter_object_list", "send_object_list",
    "recv_object_list", "split_group", "shrink_group", "monitored_barrier",
}  # fmt: skip
"""Names of torch 2.11's page of torch.distributed, which later versions may drop or rename."""


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


def test_every_public_function_of_torch_distributed_is_in_the_table():
    assert missing(public_functions() | OF_2_11) == []


def test_a_function_that_is_not_in_the_table_is_seen():
    assert missing({"all_reduce", "all_reduce_backwards"}) == ["all_reduce_backwards"]


def test_every_method_of_a_group_is_recorded_or_refused():
    from torch._C._distributed_c10d import ProcessGroup

    from emberward.sources._calls import METHODS
    from emberward.sources.script._group import NOT_EXAMINED, CrewGroup

    silent = {
        "abort", "boxed", "bound_device_id", "get_group_store", "group_desc", "group_name", "name", "rank",
        "set_timeout", "shutdown", "size", "unbox", "use_pg_for_symm_mem_rendezvous", "BackendType", "CUSTOM", "GLOO",
        "MPI", "NCCL", "UCC", "UNDEFINED", "XCCL",
    }  # fmt: skip
    known = set(METHODS) | set(NOT_EXAMINED) | silent
    assert sorted(name for name in dir(ProcessGroup) if not name.startswith("_") and name not in known) == []
    assert all(name in vars(CrewGroup) for name in (*METHODS, *NOT_EXAMINED))


@pytest.mark.parametrize("name", ["recv_anysource", "split_group"])
def test_what_is_not_examined_is_refused_and_never_passed_over(name):
    from emberward.sources.script._group import CrewGroup
    from emberward.sources.script._guard import RefusedError

    with pytest.raises(RefusedError, match=f"{name} is not examined"):
        getattr(CrewGroup, name)(None)


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
