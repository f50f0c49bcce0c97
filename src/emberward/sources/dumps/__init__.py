"""Explains a job that we did not start, from the files it left: no torch, no job, nothing in them is ever run.

`gather` reads paths into `Evidence`, one for each incident; `judge` turns it into an `Explanation`; `explain_paths`
does both and compares when there are two. `flight_trace` gives the dumps as a trace of observer DUMP.
"""

from emberward.sources.dumps._crash import crash_frames, crash_site
from emberward.sources.dumps._explain import ExplainResult, explain_paths, flight_trace, source_lines
from emberward.sources.dumps._files import UnreadableError, archive_kind, unpack
from emberward.sources.dumps._flight import DumpFormatError, FlightReader
from emberward.sources.dumps._gather import gather
from emberward.sources.dumps._ring import has_hidden, ring_flight, ring_group_name
from emberward.sources.dumps._stack_text import read_faulthandler, read_py_spy_json, read_py_spy_text
from emberward.sources.dumps._unpickle import load_plain

__all__ = [
    "DumpFormatError",
    "ExplainResult",
    "FlightReader",
    "UnreadableError",
    "archive_kind",
    "crash_frames",
    "crash_site",
    "explain_paths",
    "flight_trace",
    "gather",
    "has_hidden",
    "load_plain",
    "read_faulthandler",
    "read_py_spy_json",
    "read_py_spy_text",
    "ring_flight",
    "ring_group_name",
    "source_lines",
    "unpack",
]
