"""Explains a job that we did not start, from the files it left: no torch, no job, nothing in them is ever run.

`gather` reads paths into `Evidence`, one for each incident; `judge` turns it into an `Explanation`; `explain_paths`
does both and compares when there are two. `flight_trace` gives the dumps as a trace of observer DUMP.
"""

from emberward.sources.dumps._compare import advanced_ranks, compare_incidents, compare_looks, is_same_job
from emberward.sources.dumps._crash import crash_site
from emberward.sources.dumps._creation import creation_findings, is_creating
from emberward.sources.dumps._evidence import Evidence
from emberward.sources.dumps._explain import ExplainResult, explain_paths, flight_trace, source_lines
from emberward.sources.dumps._flight import DumpFormatError, FlightReader, RankFlight, op_of
from emberward.sources.dumps._frames import (
    Frame,
    LineOf,
    ProcessStacks,
    StackSource,
    ThreadStack,
    code_frame,
    is_lane,
    may_act,
    short_path,
    user_frame,
)
from emberward.sources.dumps._gather import gather
from emberward.sources.dumps._judge import Explanation, judge
from emberward.sources.dumps._judge_flight import stuck_worker
from emberward.sources.dumps._judge_words import judge_ends
from emberward.sources.dumps._names import host_of_name, rank_of_name
from emberward.sources.dumps._program import left_the_loop
from emberward.sources.dumps._ring import ring_flight, ring_group_name
from emberward.sources.dumps._say import hang_finding, ranks_text, verb, waits
from emberward.sources.dumps._source import by_short_name, tie_break_by_text, with_source
from emberward.sources.dumps._stack_text import read_faulthandler, read_py_spy_json, read_py_spy_text
from emberward.sources.dumps._trace import SIZED
from emberward.sources.dumps._unpickle import load_plain
from emberward.sources.dumps._waits import Reading, class_of, makes_call, read_process

__all__ = [
    "SIZED",
    "DumpFormatError",
    "Evidence",
    "ExplainResult",
    "Explanation",
    "FlightReader",
    "Frame",
    "LineOf",
    "ProcessStacks",
    "RankFlight",
    "Reading",
    "StackSource",
    "ThreadStack",
    "advanced_ranks",
    "by_short_name",
    "class_of",
    "code_frame",
    "compare_incidents",
    "compare_looks",
    "crash_site",
    "creation_findings",
    "explain_paths",
    "flight_trace",
    "gather",
    "hang_finding",
    "host_of_name",
    "is_creating",
    "is_lane",
    "is_same_job",
    "judge",
    "judge_ends",
    "left_the_loop",
    "load_plain",
    "makes_call",
    "may_act",
    "op_of",
    "rank_of_name",
    "ranks_text",
    "read_faulthandler",
    "read_process",
    "read_py_spy_json",
    "read_py_spy_text",
    "ring_flight",
    "ring_group_name",
    "short_path",
    "source_lines",
    "stuck_worker",
    "tie_break_by_text",
    "user_frame",
    "verb",
    "waits",
    "with_source",
]
