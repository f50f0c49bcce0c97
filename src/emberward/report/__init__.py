"""Show people what we know: a run's folder read back, a step's line, a run's summary, and the sinks of its metrics.

Floor 5. No torch. The web page and the terminal are fed from here; nothing here prints.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.report._beside import events_beside
    from emberward.report._boxing_text import boxing_finding, boxing_json, boxing_of, boxing_text
    from emberward.report._bundle import Bundle, unpack_bundle, write_bundle
    from emberward.report._card import MOMENT, Card, CardFacts, card_of, counted_down, moment_unix
    from emberward.report._config_values import config_difference, given_difference
    from emberward.report._device_order import NOT_PROVED, order_finding, order_line, order_of
    from emberward.report._duration import duration_text, running_s
    from emberward.report._findings import read_findings, worst_finding
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
    from emberward.report._fit import curve_text, fit, left_table, shell_lines, table
    from emberward.report._folder import RunFolder
    from emberward.report._frame import Frame
    from emberward.report._glance import Glance, Save, read_glance
    from emberward.report._lag_file import LagRows, LagWriter, joined_lag, lag_cells, lag_seconds, read_lag
    from emberward.report._markup import Html, join, json_block, tag
    from emberward.report._pictures import (
        ALONE_STYLE,
        SHAPES_STYLE,
        Picture,
        preflight_pictures,
        witness_picture,
    )
    from emberward.report._pictures_measured import examined_pictures, lines_picture
    from emberward.report._preflight import Preflight, Role, Seat, preflight
    from emberward.report._preflight_text import (
        first_steps_text,
        plan_text,
        preflight_brief,
        preflight_json,
        preflight_text,
        traffic_line,
    )
    from emberward.report._progress import (
        Progress,
        ProgressReader,
        count_text,
        eta_s,
        eval_text,
        progress_text,
        size_text,
        step_text,
    )
    from emberward.report._published import published_runs, ratio_of_schedules
    from emberward.report._published_later import later_runs
    from emberward.report._published_model import decoder_model
    from emberward.report._published_rows import rows_in
    from emberward.report._published_run import Comparison, PublishedRun, compare, slots_of
    from emberward.report._published_third import third_runs
    from emberward.report._read import LineTail, parse_line, read_json, read_lines, tail_text
    from emberward.report._redact import Hidden, Redactor
    from emberward.report._run_report import (
        NextCommand,
        RunReport,
        layout_lines,
        printable,
        read_outcome,
        read_run,
        run_json,
        run_text,
    )
    from emberward.report._run_rows import MARKERS, RunRow, find_runs, loss_text, read_row, row_state, rows_text
    from emberward.report._sinks import JsonlSink, MetricsSink, Sinks, open_sinks, require_sinks
    from emberward.report._state import STOPPING, Signs, State, state_of, step_limit_s
    from emberward.report._step_line import step_line
    from emberward.report._step_shape import step_shape_of
    from emberward.report._watched import watched_own, watched_steps
    from emberward.report._write import append_line, write_json, write_once
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "ALONE_STYLE",
    "MARKERS",
    "MOMENT",
    "NOT_PROVED",
    "PROGRAM_GROUPS",
    "SHAPES_STYLE",
    "STOPPING",
    "Bundle",
    "Card",
    "CardFacts",
    "Comparison",
    "Frame",
    "Glance",
    "GroupBytes",
    "Hidden",
    "Html",
    "JsonlSink",
    "LagRows",
    "LagWriter",
    "LineTail",
    "Measured",
    "MetricsSink",
    "NextCommand",
    "Picture",
    "Preflight",
    "Progress",
    "ProgressReader",
    "PublishedRun",
    "Redactor",
    "Role",
    "RunFolder",
    "RunReport",
    "RunRow",
    "Save",
    "Seat",
    "Signs",
    "Sinks",
    "State",
    "append_line",
    "boxing_finding",
    "boxing_json",
    "boxing_of",
    "boxing_text",
    "card_of",
    "compare",
    "compare_first_steps",
    "compare_traffic",
    "config_difference",
    "count_text",
    "counted_down",
    "curve_text",
    "decoder_model",
    "duration_text",
    "eta_s",
    "eval_text",
    "events_beside",
    "examined_pictures",
    "find_runs",
    "first_steps_text",
    "fit",
    "given_difference",
    "join",
    "joined_lag",
    "json_block",
    "lag_cells",
    "lag_seconds",
    "later_runs",
    "layout_lines",
    "left_table",
    "lines_picture",
    "loss_text",
    "measured_bubble",
    "moment_unix",
    "open_sinks",
    "order_finding",
    "order_line",
    "order_of",
    "parse_line",
    "plan_text",
    "preflight",
    "preflight_brief",
    "preflight_json",
    "preflight_pictures",
    "preflight_text",
    "printable",
    "progress_text",
    "published_runs",
    "ratio_of_schedules",
    "read_findings",
    "read_glance",
    "read_json",
    "read_lag",
    "read_lines",
    "read_outcome",
    "read_row",
    "read_run",
    "recorded_traffic",
    "require_sinks",
    "row_state",
    "rows_in",
    "rows_text",
    "run_json",
    "run_text",
    "running_s",
    "shell_lines",
    "size_text",
    "slots_of",
    "state_of",
    "step_limit_s",
    "step_line",
    "step_shape_of",
    "step_text",
    "table",
    "tag",
    "tail_text",
    "third_runs",
    "traffic_finding",
    "traffic_line",
    "unpack_bundle",
    "watched_own",
    "watched_steps",
    "witness_picture",
    "worst_finding",
    "write_bundle",
    "write_json",
    "write_once",
]
