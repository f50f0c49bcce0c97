"""Where a rank computes. Everything that is particular to CUDA and NCCL in this room is here."""

from dataclasses import dataclass
from typing import Any

import torch

from emberward.findings import ConfigError
from emberward.recipe import Backend, Device, devices_needed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenDevice:
    """The device, the backend of its process groups, and its name for tables of peak rates."""

    device: torch.device
    backend: str
    name: str

    @property
    def is_staged(self) -> bool:
        """Whether calls go through host memory: gloo between devices."""
        return self.backend == "gloo" and self.device.type == "cuda"

    @property
    def is_nccl(self) -> bool:
        """Whether the groups are NCCL's."""
        return self.backend == "nccl"


def choose_device(wanted: Device, backend: Backend, *, local_rank: int, local_world_size: int) -> ChosenDevice:
    """The device of this rank; makes it current. Raises ConfigError C104 when CUDA is wanted and too few are there.

    Over gloo ranks may share devices: the k-th local rank has device k modulo their number.
    """
    num_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    num_needed = devices_needed(backend, local_world_size)
    if wanted is Device.CUDA and num_cuda < num_needed:
        raise ConfigError(
            "too few CUDA devices for the ranks of this host",
            code="C104",
            where="device",
            expected=f"{num_needed} device{'s, one for each local rank' if num_needed > 1 else ''}",
            found=str(num_cuda),
            next="device=cpu, or fewer ranks" + (", or backend=gloo to share devices" if num_cuda else ""),
        )
    if wanted is Device.CPU or (wanted is Device.AUTO and num_cuda < local_world_size):
        return ChosenDevice(device=torch.device("cpu"), backend="gloo", name="CPU")
    index = local_rank % num_cuda
    torch.cuda.set_device(index)
    return ChosenDevice(
        device=torch.device("cuda", index),
        backend="gloo" if backend is Backend.GLOO else "nccl",
        name=torch.cuda.get_device_name(index),
    )


def device_peak_bytes(device: torch.device, cuda: Any = torch.cuda) -> int | None:
    """The most bytes of tensors that this process has had on its device; None on the CPU. `cuda` is torch.cuda."""
    return int(cuda.max_memory_allocated(device)) if device.type == "cuda" else None
