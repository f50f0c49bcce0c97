"""Rules that judge a run's own numbers: spikes, drift, detours, how often to save, steps and ranks that are slow.

Floor 1. Pure: no clock, no file, no torch. `rank` gives them the numbers, `report` shows what they say.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.health._detour import Detour, rate_factor, skipped_before
    from emberward.health._drift import (
        Copies,
        Difference,
        Held,
        find_difference,
        repair_source,
        repaired_finding,
        state_finding,
        tensor_finding,
    )
    from emberward.health._goodput import Goodput, LossRow, Spent, goodput_of, hours_lost_by_cause, kept_until, spent_of
    from emberward.health._growth import RankSlowdownWatch, grown_ranks
    from emberward.health._interval import (
        IntervalAdvice,
        JobCosts,
        advise_interval,
        lost_share,
        optimum_interval_s,
    )
    from emberward.health._lateness import LateRank, late_ranks
    from emberward.health._skew import Skew, skews
    from emberward.health._slowdown import BESIDE_STEPS, GrownRanks, Growth, Slowdown, SlowdownWatch
    from emberward.health._spike import SpikeSeen, SpikeTurn, SpikeWatch, spike_finding
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "BESIDE_STEPS",
    "Copies",
    "Detour",
    "Difference",
    "Goodput",
    "GrownRanks",
    "Growth",
    "Held",
    "IntervalAdvice",
    "JobCosts",
    "LateRank",
    "LossRow",
    "RankSlowdownWatch",
    "Skew",
    "Slowdown",
    "SlowdownWatch",
    "Spent",
    "SpikeSeen",
    "SpikeTurn",
    "SpikeWatch",
    "advise_interval",
    "find_difference",
    "goodput_of",
    "grown_ranks",
    "hours_lost_by_cause",
    "kept_until",
    "late_ranks",
    "lost_share",
    "optimum_interval_s",
    "rate_factor",
    "repair_source",
    "repaired_finding",
    "skews",
    "skipped_before",
    "spent_of",
    "spike_finding",
    "state_finding",
    "tensor_finding",
]
