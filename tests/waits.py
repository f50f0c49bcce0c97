"""How long a test pauses between two checks of what it waits for."""

POLL_S, MAX_POLL_S = 0.02, 1.0
PAUSE_SHARE = 4.0
"""Some checks start a program or ask a cluster: without pauses of their own length they would take a processor."""


def pause_s(took_s: float) -> float:
    """The pause after a check that took `took_s`: four times as long, from POLL_S to MAX_POLL_S."""
    return min(max(POLL_S, PAUSE_SHARE * took_s), MAX_POLL_S)
