"""Where a rank computes. Everything that is particular to CUDA and NCCL in this room is here."""

from dataclasses import dataclass

import torch

from emberward.findings import ConfigError
from emberward.recipe import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenDevice:
    """The device, the backend of its process groups, and its name for tables of peak rates."""

    device: torch.device
    backend: str
    name: str

    @property
    def is_nccl(self) -> bool:
        """Whether the groups are NCCL's."""
        return self.backend == "nccl"


def choose_device(wanted: Device, *, local_rank: int, local_world_size: int) -> ChosenDevice:
    """The device of this rank; makes it current. Raises ConfigError C104 when CUDA is wanted and too few are there."""
    num_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if wanted is Device.CUDA and num_cuda < local_world_size:
        raise ConfigError(
            "too few CUDA devices for the ranks of this host",
            code="C104",
            where="device",
            expected=f"{local_world_size} devices, one for each local rank",
            found=str(num_cuda),
            next="device=cpu, or fewer ranks",
        )
    if wanted is Device.CPU or num_cuda < local_world_size:
        return ChosenDevice(device=torch.device("cpu"), backend="gloo", name="CPU")
    torch.cuda.set_device(local_rank)
    return ChosenDevice(
        device=torch.device("cuda", local_rank), backend="nccl", name=torch.cuda.get_device_name(local_rank)
    )
