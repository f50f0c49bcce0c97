"""The one file that knows CPU with gloo from CUDA with NCCL: devices, clocks, groups. Needs torch."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

GROUP_LIMIT_S = 40.0


def count() -> dict[str, object]:
    """The kind of this machine's devices and how many there are; of processors, two members."""
    try:
        import torch
    except ImportError:
        return {"kind": "cpu", "count": 2}
    if torch.cuda.is_available():
        return {"kind": "cuda", "count": torch.cuda.device_count()}
    return {"kind": "cpu", "count": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Where this member stands: its device, rank and peers. See [Note: the probe contract]."""

    kind: str
    index: int
    rank: int
    world_size: int
    address: str
    port: int

    @classmethod
    def here(cls, kind: str, environment: Mapping[str, str]) -> "Member":
        """The member that the variables of the contract describe."""
        devices = [int(word) for word in environment.get("EMBERWARD_DEVICES", "0").split(",")]
        return cls(
            kind=kind,
            index=devices[int(environment.get("LOCAL_RANK", "0"))],
            rank=int(environment.get("RANK", "0")),
            world_size=int(environment.get("WORLD_SIZE", "1")),
            address=environment.get("MASTER_ADDR", "127.0.0.1"),
            port=int(environment.get("MASTER_PORT", "29500")),
        )

    @property
    def device(self) -> str:
        """Its name in torch."""
        return f"cuda:{self.index}" if self.kind == "cuda" else "cpu"

    @property
    def types(self) -> tuple[str, ...]:
        """The types in which it computes."""
        return (
            ("float32", "float64", "bfloat16", "float16") if self.kind == "cuda" else ("float32", "float64", "bfloat16")
        )

    def synchronise(self) -> None:
        """Waits for all work of the device."""
        if self.kind == "cuda":
            import torch

            torch.cuda.synchronize(self.index)

    def seconds(self, work: Callable[[], object], *, repeats: int) -> float:
        """The shortest of `repeats` runs of `work`, after one to warm up. Blocks."""
        work()
        best = float("inf")
        for _ in range(repeats):
            self.synchronise()
            began_s = time.perf_counter()
            work()
            self.synchronise()
            best = min(best, time.perf_counter() - began_s)
        return best

    def join(self) -> None:
        """Meets the other members; all must call. Blocks, at most GROUP_LIMIT_S."""
        import torch
        import torch.distributed as dist

        if self.kind == "cuda":
            torch.cuda.set_device(self.index)
        dist.init_process_group(
            "nccl" if self.kind == "cuda" else "gloo",
            init_method=f"tcp://{self.address}:{self.port}",
            rank=self.rank,
            world_size=self.world_size,
            timeout=timedelta(seconds=GROUP_LIMIT_S),
        )
