"""Work beside the main thread: named, bounded first-in-first-out lanes. For any PyTorch program; docs/lanes.md."""

from emberward.lanes._lane import DEFAULT_DEPTH, Lane, WhenFull
from emberward.lanes._observe import Observer, observing
from emberward.lanes._prefetch import PrefetchLoader
from emberward.lanes._registry import MAX_LANES, close_all, lane, open_lanes
from emberward.lanes._result import Out, Result
from emberward.lanes._streams import produced

__all__ = [
    "DEFAULT_DEPTH",
    "MAX_LANES",
    "Lane",
    "Observer",
    "Out",
    "PrefetchLoader",
    "Result",
    "WhenFull",
    "close_all",
    "lane",
    "observing",
    "open_lanes",
    "produced",
]
