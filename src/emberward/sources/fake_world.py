"""A world of which this process plays one rank, with no peers, no memory and no accelerator. Needs torch."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.distributed.device_mesh import DeviceMesh
from torch.testing._internal.distributed.fake_pg import FakeStore


@contextlib.contextmanager
def fake_world(rank: int, world_size: int) -> Iterator[None]:
    """The default group of `world_size` ranks of which this process is `rank`; its calls return at once.

    Results of collectives are undefined. Raises RuntimeError when a default group is there already.
    """
    if dist.is_initialized():
        raise RuntimeError("a default process group is there already")
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()


class DryTensors(FakeTensorMode):
    """Fake tensors, without torch's detour through its compiler on each operation (a third of a dry run's time).

    Raises RuntimeError at a communication that torch starts below Python, where a recorder cannot see it.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Read by TorchDispatchMode when this class is made (torch 2.13, utils/_python_dispatch.py)."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.namespace == "_c10d_functional" and func.__name__ != "wait_tensor.default":
            raise RuntimeError(f"{func} communicates below Python: a dry run of a recipe cannot record it")
        return self.dispatch(func, types, args, kwargs or {})


@contextlib.contextmanager
def fake_tensors() -> Iterator[FakeTensorMode]:
    """The mode in which tensors have shape, type and device, and no values and no memory.

    Real tensors that meet fake ones are taken as fake. Meshes of ranks keep real values: their arithmetic needs them
    (torch 2.13 fails with DynamicOutputShapeException in DeviceMesh, device_mesh.py).
    """
    with contextlib.ExitStack() as stack:
        for name in ("__init__", "_get_mesh_tensor_from_full_mesh"):
            _keep_real(stack, DeviceMesh, name)
        yield stack.enter_context(DryTensors(allow_non_fake_inputs=True))


def _keep_real(stack: contextlib.ExitStack, owner: type, name: str) -> None:
    """Replaces a method by one that runs outside the fake mode, until `stack` closes."""
    kept = owner.__dict__[name]
    inner = kept.__func__ if isinstance(kept, staticmethod) else kept

    def outside(*args: Any, **named: Any) -> Any:
        with unset_fake_temporarily():
            return inner(*args, **named)

    stack.callback(setattr, owner, name, kept)
    setattr(owner, name, staticmethod(outside) if isinstance(kept, staticmethod) else outside)
