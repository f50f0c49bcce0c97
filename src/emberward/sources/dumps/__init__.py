"""Explains a job that we did not start, from the files it left: no torch, no job, nothing in them is ever run.

`gather` reads paths into `Evidence`, one for each incident; `judge` turns it into an `Explanation`; `explain_paths`
does both and compares when there are two. `flight_trace` gives the dumps as a trace of observer DUMP.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.sources.dumps._crash import crash_frames, crash_site
    from emberward.sources.dumps._explain import ExplainResult, explain_paths, flight_trace, source_lines
    from emberward.sources.dumps._files import UnreadableError, archive_kind, unpack
    from emberward.sources.dumps._flight import DumpFormatError, FlightReader
    from emberward.sources.dumps._gather import gather
    from emberward.sources.dumps._limits import MIN_NOTICE_S, Limits, limits_of
    from emberward.sources.dumps._ring import has_hidden, ring_flight, ring_group_name
    from emberward.sources.dumps._ring_facts import bundled, num_moves, read_rank_ring, ring_facts
    from emberward.sources.dumps._ring_flights import flights_of
    from emberward.sources.dumps._stack_text import read_faulthandler, read_py_spy_json, read_py_spy_text
    from emberward.sources.dumps._unpickle import load_plain
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "MIN_NOTICE_S",
    "DumpFormatError",
    "ExplainResult",
    "FlightReader",
    "Limits",
    "UnreadableError",
    "archive_kind",
    "bundled",
    "crash_frames",
    "crash_site",
    "explain_paths",
    "flight_trace",
    "flights_of",
    "gather",
    "has_hidden",
    "limits_of",
    "load_plain",
    "num_moves",
    "read_faulthandler",
    "read_py_spy_json",
    "read_py_spy_text",
    "read_rank_ring",
    "ring_facts",
    "ring_flight",
    "ring_group_name",
    "source_lines",
    "unpack",
]
