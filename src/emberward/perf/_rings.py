"""The link that a ring of ranks has on a cluster."""

import math
from dataclasses import replace

from emberward.perf._hardware import HOP_BETWEEN_S, HOP_INSIDE_S, Cluster, Link


def ring_link(cluster: Cluster, num_ranks: int, most: int) -> Link:
    """Inside a node if no more than `most` ranks are in the ring, else the network, which all rings of a node share.

    A ring leaves a node once for its members there, so that it has their shares together.
    """
    members = max(1, min(num_ranks, most))
    if members >= num_ranks:
        return cluster.inside.among(num_ranks)
    rate = min(members * cluster.between.bytes_per_s, cluster.inside.bytes_per_s)
    between = math.ceil(num_ranks / members) - 1
    return replace(
        network_link(cluster, members),
        bytes_per_s=rate,
        all_reduce_bytes_per_s=rate,
        hops_s=between * HOP_BETWEEN_S + (num_ranks - 1 - between) * HOP_INSIDE_S,
    )


def network_link(cluster: Cluster, members: int) -> Link:
    """The network as a ring with `members` in each node has it, beside the rings of the node's other devices: its rise
    with size was measured with all devices of a node in one ring, so that together they reach what one of them would
    with all their bytes."""
    part = members / cluster.devices_per_node
    return replace(cluster.between, ramp=tuple((math.ceil(part * size), share) for size, share in cluster.between.ramp))
