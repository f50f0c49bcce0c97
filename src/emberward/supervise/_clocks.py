"""What the clocks of hosts show when ours shows something: pure.

[Note: clocks of hosts]
Ranks write when they failed, each by its host's clock, and the earliest failure is the cause. Where a clock is minutes
off that order is false. Each host's supervisor writes what its clock shows in its heartbeat, and we read it a while
later, never before: so the least difference between our clock at a reading and what was written is what the clocks
differ by, and the delay of the quickest reading. Clocks that are kept, as by NTP, differ by less than we can tell, and
are believed.
"""

LEAST_S = 2.0
"""Of one heartbeat to the next: a difference below it may be the delay of a reading."""


class HostClocks:
    """Learns how far each host's clock is from ours. See [Note: clocks of hosts]."""

    def __init__(self) -> None:
        self._behind_s: dict[str, float] = {}

    def take(self, host: str, said_unix: float, *, now_unix: float) -> None:
        """Takes up a heartbeat of the host that was read now."""
        self._behind_s[host] = min(self._behind_s.get(host, float("inf")), now_unix - said_unix)

    def here(self, host: str, at_unix: float) -> float:
        """What our clock showed when the host's showed `at_unix`; the same where nothing is known of it."""
        behind_s = self._behind_s.get(host, 0.0)
        return at_unix if abs(behind_s) < LEAST_S else at_unix + behind_s
