"""The cluster that a row of published runs describes, from its words for device, links and network.

[Note: hardware of rows]
The device is known by how its name begins, without the makers' words. Without further words its cluster is the one that
the hardware table has for it, with as many devices a node as the row states, or the 72 of a rack that one NVLink joins
(``NVL72``), whatever its trays hold. ``PCIe`` between SXM devices or a mesh of
NVLink (DGX-1 and every V100 SXM2 in a node of eight) replaces the links inside a node. A stated rate replaces the
network's: of EFA the share of the wire and the rise with size that was measured on two p4de and on four p5en nodes, of
GPUDirect-TCPX those of A3 High, of all else 0.9 (assumed). A rate ``per card`` counts for each device.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from emberward.perf import CLUSTERS, EFA_1, EFA_2, NVLINK_2_MESH, PCIE_LINKS, TCPX, Cluster, Link, network

_MAKERS = re.compile(r"\b(nvidia|amd|instinct|geforce|tesla|quadro|radeon)\b")
_CLUSTERS = (
    ("a100 pcie", "a100-pcie"),
    ("a100-pcie", "a100-pcie"),
    ("a100 80gb pcie", "a100-pcie"),
    ("a100 40gb", "a100-40gb"),
    ("a100 sxm 40gb", "a100-40gb"),
    ("a100 sxm4 40gb", "a100-40gb"),
    ("a100-sxm4-40gb", "a100-40gb"),
    ("a100 (40", "a100-40gb"),
    ("a100", "a100"),
    ("a800", "a800"),
    ("gh200", "gh200"),
    ("h100 pcie", "h100-pcie"),
    ("h100-pcie", "h100-pcie"),
    ("h100 80gb pcie", "h100-pcie"),
    ("h100 nvl", "h100-nvl"),
    ("h100 sxm 96gb (hbm2e", "h100-500w"),
    ("h100", "h100"),
    ("h800", "h800"),
    ("h200", "h200"),
    ("h20", "h20"),
    ("v100 pcie", "v100-pcie"),
    ("v100-pcie", "v100-pcie"),
    ("v100s", "v100-pcie"),
    ("v100", "v100-dgx2"),
    ("p100", "p100"),
    ("gb200", "gb200-nvl72"),
    ("gb300", "gb300-nvl72"),
    ("b200", "b200"),
    ("b300", "b300"),
    ("t4", "t4"),
    ("titan rtx", "titan-rtx"),
    ("rtx 2080 ti", "rtx-2080-ti"),
    ("rtx 3090", "rtx-3090"),
    ("rtx 4090", "rtx-4090"),
    ("rtx 5090", "rtx-5090"),
    ("rtx pro 6000", "rtx-pro-6000"),
    ("rtx 6000", "rtx-6000-ada"),
    ("rtx a6000", "a6000"),
    ("a6000", "a6000"),
    ("a10g", "a10g"),
    ("a10", "a10"),
    ("a30", "a30"),
    ("a40", "a40"),
    ("l40s", "l40s"),
    ("l40", "l40"),
    ("l4", "l4"),
    ("mi210", "mi210"),
    ("mi250x", "mi250x"),
    ("mi250", "mi250"),
    ("mi300x", "mi300x"),
    ("mi325x", "mi325x"),
    ("mi350x", "mi350x"),
    ("mi355x", "mi355x"),
)
"""Devices by how their names begin in small letters, and the entry of each."""

_RATE = r"(\d+(?:\.\d+)?)\s*-?(G|T)(b|B|bit)(?:/s|ps|\b)"
_EACH = re.compile(r"(\d+)\s*x\s*" + _RATE)
_WHOLE = re.compile(_RATE)
_A_DEVICE = re.compile(r"\b(per|a|each) (card|gpu|device|accelerator)\b", re.IGNORECASE)


def cluster_of(hardware: dict[str, Any]) -> Cluster:
    """The cluster. Raises ValueError for a device that the table does not have. See [Note: hardware of rows]."""
    words = " ".join(_MAKERS.sub(" ", hardware["gpu"].lower()).split())
    name = next((own for begin, own in _CLUSTERS if words.startswith(begin)), None)
    if name is None:
        raise ValueError(f"{hardware['gpu']} has no entry in the hardware table")
    base = CLUSTERS[name]
    devices = hardware.get("gpus_per_node") or base.devices_per_node
    inside = _inside(base, devices, hardware.get("intra_node_link") or "")
    between = _between(base, devices, hardware.get("network_per_node") or "")
    is_rack = "NVL72" in f"{hardware['gpu']} {hardware.get('intra_node_link')}"
    return replace(base, devices_per_node=72 if is_rack else devices, inside=inside, between=between)


def _inside(base: Cluster, devices: int, words: str) -> Link:
    words = words.lower()
    if base.name == "v100-dgx2" and devices == 8 and "nvswitch" not in words and "pcie" not in words:
        return NVLINK_2_MESH
    if words.startswith("pci") and "nvlink" not in words and "pcie" not in base.inside.source.lower():
        return PCIE_LINKS[base.device.generation]
    return base.inside


def _rates_gbit(words: str) -> Iterator[tuple[float, bool]]:
    """Rates that are stated, each with whether it is the node's."""
    for count, rate, prefix, unit in _EACH.findall(words):
        yield int(count) * _gbit(rate, prefix, unit), True
    for rate, prefix, unit in _WHOLE.findall(words):
        yield _gbit(rate, prefix, unit), _A_DEVICE.search(words) is None


def _gbit(rate: str, prefix: str, unit: str) -> float:
    return float(rate) * (1000 if prefix == "T" else 1) * (8 if unit == "B" else 1)


def _between(base: Cluster, devices: int, words: str) -> Link:
    """The network; the base's where no rate is stated."""
    stated = next(_rates_gbit(words), None)
    if stated is None:
        return base.between
    rate, is_whole = stated
    gbit_per_s = rate / devices if is_whole else rate
    source = f"stated: {words}"
    share, ramp = _reached(gbit_per_s, words)
    return network(gbit_per_s, share=share, ramp=ramp, source=source)


def _reached(gbit_per_s: float, words: str) -> tuple[float, tuple[tuple[int, float], ...]]:
    """The share of the wire that a device reaches, and its rise with size."""
    if "EFA" in words:
        return EFA_1 if gbit_per_s <= 50 else EFA_2
    if "TCPX" in words and "TCPXO" not in words:
        return TCPX
    return 0.9, ()
