"""Plan a step before it runs: schedules, programs, stages, batches. No torch."""

from emberward.plan._program import HOST, Pipe, pipeline_program, pipeline_trace, program_text
from emberward.plan._schedule import (
    SCHEDULES,
    Action,
    Schedule,
    Work,
    bubble_fraction,
    forward_only,
    gpipe,
    interleaved,
    one_f_one_b,
    require_complete,
    schedule_from_csv,
)
from emberward.plan._stages import balance, stage_layers

__all__ = [
    "HOST",
    "SCHEDULES",
    "Action",
    "Pipe",
    "Schedule",
    "Work",
    "balance",
    "bubble_fraction",
    "forward_only",
    "gpipe",
    "interleaved",
    "one_f_one_b",
    "pipeline_program",
    "pipeline_trace",
    "program_text",
    "require_complete",
    "schedule_from_csv",
    "stage_layers",
]
