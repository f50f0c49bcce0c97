"""The hardware table's entries: what devices and links reach in measurements that others published. The devices are in
`_devices`, links and clusters in `_clusters`, each with its source.

[Note: not fitted]
No entry comes from a training run: peaks and bandwidths are the makers', efficiencies those of single kernels and
single collectives. Where nothing was published the entry says `assumed`. The runs that predictions are held against
(docs/preflight.md) have had no part in any entry.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class NumberFormat(StrEnum):
    """Number type of the large matrix products."""

    BF16 = "bf16"
    FP8 = "fp8"


class Generation(StrEnum):
    """Generations of devices that fused attention kernels are written for."""

    AMPERE = "ampere"
    HOPPER = "hopper"
    BLACKWELL = "blackwell"
    CDNA = "cdna"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestProduct:
    """The fastest matrix product found on a device: `tflops` at shape m x n x k."""

    tflops: float
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator and its efficiency table.

    `peak_tflops` is dense bf16, the number that MFU divides by; fp8 is twice that. `clock_share` is what a power limit
    leaves of the clock. `best_bf16` is the fastest product of a search over shapes; `usual_share` is what cuBLAS
    reaches on a large square product of random numbers, as a share of the best one's rate. `memory` is the share
    of the memory's bandwidth that a streaming kernel reaches.
    `host_s` is what one kernel costs when each is waited for before the next is launched. `chip_spread` is the standard
    deviation of what single devices of the kind reach in products, as a share of the median. `is_persistent`: a product
    is launched as one block a processor, each of which writes a tile while it computes the next. `taken_sms`:
    processors that something else holds. `generation` chooses the rates of fused attention, and `attention` is what the
    device reaches over them, as what its power limit leaves of those of a short benchmark.
    """

    name: str
    pattern: str
    peak_tflops: float
    memory_gib: float
    memory_bytes_per_s: float
    num_sms: int
    best_bf16: BestProduct
    best_fp8: BestProduct | None
    usual_share: float
    memory: float
    clock_share: float
    host_s: float
    sources: tuple[str, ...]
    chip_spread: float
    generation: Generation = Generation.AMPERE
    is_persistent: bool = False
    taken_sms: int = 0
    attention: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one device reaches over a link in one direction, large messages, and the time of an empty one.

    `all_reduce_bytes_per_s` is the bus bandwidth of an all-reduce, above the others' where a switch reduces. `ramp`
    gives the share of these rates that a collective of so many bytes reaches, ascending. `hops_s` is what the first
    piece needs to pass along a ring of several nodes. `direct_links`: the rates are those of so many links, one to each
    other device, of which fewer devices use fewer; None: a switch gives any two devices all of it. `sums_from`: fewer
    ranks than so many all-reduce by a ring, at `bytes_per_s`.
    """

    bytes_per_s: float
    all_reduce_bytes_per_s: float
    latency_s: float
    source: str
    hops_s: float = 0.0
    ramp: tuple[tuple[int, float], ...] = ()
    direct_links: int | None = None
    sums_from: int = 2

    def among(self, num_ranks: int) -> "Link":
        """The link as so many devices have it among themselves."""
        if num_ranks < self.sums_from:
            return replace(self, all_reduce_bytes_per_s=self.bytes_per_s)
        if self.direct_links is None or num_ranks > self.direct_links:
            return self
        part = max(1, num_ranks - 1) / self.direct_links
        return replace(
            self,
            bytes_per_s=part * self.bytes_per_s,
            all_reduce_bytes_per_s=part * self.all_reduce_bytes_per_s,
        )

    def share(self, num_bytes: float) -> float:
        """Share of the rates that a collective of `num_bytes` reaches, in (0, 1]: the ramp, linear between its points.

        Without a ramp 1: the latency alone counts.
        """
        if not self.ramp or num_bytes >= self.ramp[-1][0]:
            return 1.0
        before_bytes, before = 0, self.ramp[0][1]
        for at_bytes, share in self.ramp:
            if num_bytes <= at_bytes:
                part = (num_bytes - before_bytes) / (at_bytes - before_bytes)
                return before + (share - before) * part
            before_bytes, before = at_bytes, share
        return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Nodes of equal devices: `inside` a node, `between` nodes (a device's share of the node's network)."""

    name: str
    device: Device
    devices_per_node: int
    inside: Link
    between: Link


HOP_INSIDE_S, HOP_BETWEEN_S = 3.4e-6, 9.6e-6
"""One hop of a ring over NVLink and over the network, as NCCL prices its large messages: `hwLat`, ring, simple, in
src/graph/tuning.cc at 01afd20a7."""
