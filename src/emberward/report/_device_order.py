"""Whether all ranks issue the calls of their devices in one order, in a line and as a finding."""

from collections.abc import Mapping, Sequence

from emberward.events import Event
from emberward.findings import Cause, Certainty, CycleMember, Finding, Severity, require_code
from emberward.plan import DeviceOrder, OrderConflict, device_order, strays

NOT_PROVED = (
    "progress on a device: that kernels which are launched in one order find room beside each other, and that NCCL "
    "launches them as the host does (NCCL_LAUNCH_ORDER_IMPLICIT)"
)


def order_of(programs: Mapping[int, Sequence[Event]], *, has_transfers: bool) -> DeviceOrder:
    """The one order of what was recorded, held against every rank that it was made from. See plan/_device_order.py."""
    order = device_order(programs, has_transfers=has_transfers)
    if order.exists:
        found = strays(programs, order, has_transfers=has_transfers)
        assert not found, f"ranks {found} do not follow the order that was made from them"
    return order


def order_line(order: DeviceOrder, *, has_transfers: bool) -> str:
    """One line for people."""
    calls = "collectives and transfers" if has_transfers else "collectives"
    answer = "yes" if order.exists else "no (M113)"
    return f"one order of {order.num_calls:,} {calls} over {order.num_groups} communicators on every device: {answer}"


def order_finding(order: DeviceOrder) -> Finding | None:
    """M113 when no one order fits all ranks; None when one does."""
    found = order.conflict
    if found is None:
        return None
    return Finding(
        code="M113",
        severity=Severity.WARNING,
        kind=require_code("M113").kind,
        cause=Cause.CYCLE_COLLECTIVE if found.first.route is None else Cause.CYCLE_P2P,
        certainty=Certainty.PROVED,
        message=f"ranks {found.rank} and {found.opposed} launch calls that share devices in opposite orders",
        waiting_ranks=tuple(sorted({found.rank, found.opposed})),
        cycle=_cycle(found),
        evidence=(
            f"rank {found.rank} launches {found.first} before {found.second}",
            f"rank {found.opposed} launches {found.second} before {found.first}, be it through calls between them",
            "hazard, not certain: each communicator by itself is right, and devices that run both at once go on",
        ),
        next="launch them in one order on all ranks; Emberward's own schedules do with device=cuda or auto",
    )


def _cycle(found: OrderConflict) -> tuple[CycleMember, ...]:
    return (
        CycleMember(rank=found.rank, op=str(found.first), site=None, waits_for=(found.opposed,)),
        CycleMember(rank=found.opposed, op=str(found.second), site=None, waits_for=(found.rank,)),
    )
