"""Show people what we know: a run's folder read back, a step's line, a run's summary, and the sinks of its metrics.

Floor 5. No torch. The web page and the terminal are fed from here; nothing here prints.
"""

from emberward.report._boxing_text import boxing_finding, boxing_json, boxing_of, boxing_text
from emberward.report._bundle import Bundle, write_bundle
from emberward.report._device_order import NOT_PROVED, order_finding, order_line, order_of
from emberward.report._first_steps import (
    PROGRAM_GROUPS,
    GroupBytes,
    Measured,
    compare_first_steps,
    compare_traffic,
    measured_bubble,
    recorded_traffic,
    traffic_finding,
)
from emberward.report._folder import RunFolder
from emberward.report._preflight import Preflight, Role, Seat, preflight
from emberward.report._preflight_text import (
    first_steps_text,
    preflight_brief,
    preflight_json,
    preflight_text,
    traffic_line,
)
from emberward.report._progress import (
    Progress,
    ProgressReader,
    count_text,
    duration_text,
    eta_s,
    eval_text,
    progress_text,
)
from emberward.report._published import (
    Comparison,
    PublishedRun,
    compare,
    published_runs,
    ratio_of_schedules,
    slots_of,
)
from emberward.report._read import LineTail, read_json, read_lines, tail_text
from emberward.report._redact import Hidden, Redactor
from emberward.report._run_report import (
    RunReport,
    layout_lines,
    printable,
    read_outcome,
    read_run,
    run_json,
    run_text,
    table,
)
from emberward.report._sinks import JsonlSink, MetricsSink, Sinks, open_sinks, require_sinks
from emberward.report._step_line import step_line
from emberward.report._step_shape import decoder_of, step_shape_of
from emberward.report._write import append_line, write_json

__all__ = [
    "NOT_PROVED",
    "PROGRAM_GROUPS",
    "Bundle",
    "Comparison",
    "GroupBytes",
    "Hidden",
    "JsonlSink",
    "LineTail",
    "Measured",
    "MetricsSink",
    "Preflight",
    "Progress",
    "ProgressReader",
    "PublishedRun",
    "Redactor",
    "Role",
    "RunFolder",
    "RunReport",
    "Seat",
    "Sinks",
    "append_line",
    "boxing_finding",
    "boxing_json",
    "boxing_of",
    "boxing_text",
    "compare",
    "compare_first_steps",
    "compare_traffic",
    "count_text",
    "decoder_of",
    "duration_text",
    "eta_s",
    "eval_text",
    "first_steps_text",
    "layout_lines",
    "measured_bubble",
    "open_sinks",
    "order_finding",
    "order_line",
    "order_of",
    "preflight",
    "preflight_brief",
    "preflight_json",
    "preflight_text",
    "printable",
    "progress_text",
    "published_runs",
    "ratio_of_schedules",
    "read_json",
    "read_lines",
    "read_outcome",
    "read_run",
    "recorded_traffic",
    "require_sinks",
    "run_json",
    "run_text",
    "slots_of",
    "step_line",
    "step_shape_of",
    "table",
    "tail_text",
    "traffic_finding",
    "traffic_line",
    "write_bundle",
    "write_json",
]
