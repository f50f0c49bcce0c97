"""Plan a step before it runs: schedules, programs, stages, batches. No torch."""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.plan._activations import Tiling, block_bytes, late_bytes, peak_bytes
    from emberward.plan._batch import BatchPlan, solve_batch
    from emberward.plan._boxing import BoxingAdvice, advise_partial, find_route, naive_route, route_through
    from emberward.plan._boxing_log import BoxingDecision, boxing_csv, boxing_decisions
    from emberward.plan._buffers import Buffers, buffered_trace, plan_buffers, rank_buffers
    from emberward.plan._clock import Span, bubble_of, spans_of
    from emberward.plan._device_order import DeviceCall, DeviceOrder, OrderConflict, device_calls, device_order, strays
    from emberward.plan._edges import Launches
    from emberward.plan._gathers import keeps_ends, kept_layers, readers
    from emberward.plan._groups import TP_BACKWARD, GroupSet, group_sets
    from emberward.plan._lanes import BackwardLane, TwoLanes, lane_credits, two_lane_program
    from emberward.plan._learning_rate import RatePlan, learning_rate
    from emberward.plan._memory import RankMemory, StepShape, frees_parameters, rank_memory
    from emberward.plan._orders import (
        SCHEDULES,
        STAGES_PER_RANK,
        dualpipe_v,
        forward_only,
        gpipe,
        interleaved,
        looped_bfs,
        one_f_one_b,
        require_micro_batches,
        require_stages_per_rank,
        zb_h1,
        zb_v,
    )
    from emberward.plan._program import HOST, BufferKind, Pipe, pipeline_program, pipeline_trace, program_text
    from emberward.plan._ramp import Ramp, RampPhase
    from emberward.plan._repeats import action_of, settings, short_step
    from emberward.plan._route import CSV_HEADER, BoxingStep, Move, Piece, Placed, Route, transfer_pieces
    from emberward.plan._schedule import Action, Schedule, Work, require_complete, schedule_from_csv
    from emberward.plan._stages import balance
    from emberward.plan._traffic import Traffic, TrafficKind, gathered_units, rank_traffic
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "CSV_HEADER",
    "HOST",
    "SCHEDULES",
    "STAGES_PER_RANK",
    "TP_BACKWARD",
    "Action",
    "BackwardLane",
    "BatchPlan",
    "BoxingAdvice",
    "BoxingDecision",
    "BoxingStep",
    "BufferKind",
    "Buffers",
    "DeviceCall",
    "DeviceOrder",
    "GroupSet",
    "Launches",
    "Move",
    "OrderConflict",
    "Piece",
    "Pipe",
    "Placed",
    "Ramp",
    "RampPhase",
    "RankMemory",
    "RatePlan",
    "Route",
    "Schedule",
    "Span",
    "StepShape",
    "Tiling",
    "Traffic",
    "TrafficKind",
    "TwoLanes",
    "Work",
    "action_of",
    "advise_partial",
    "balance",
    "block_bytes",
    "boxing_csv",
    "boxing_decisions",
    "bubble_of",
    "buffered_trace",
    "device_calls",
    "device_order",
    "dualpipe_v",
    "find_route",
    "forward_only",
    "frees_parameters",
    "gathered_units",
    "gpipe",
    "group_sets",
    "interleaved",
    "keeps_ends",
    "kept_layers",
    "lane_credits",
    "late_bytes",
    "learning_rate",
    "looped_bfs",
    "naive_route",
    "one_f_one_b",
    "peak_bytes",
    "pipeline_program",
    "pipeline_trace",
    "plan_buffers",
    "program_text",
    "rank_buffers",
    "rank_memory",
    "rank_traffic",
    "readers",
    "require_complete",
    "require_micro_batches",
    "require_stages_per_rank",
    "route_through",
    "schedule_from_csv",
    "settings",
    "short_step",
    "solve_batch",
    "spans_of",
    "strays",
    "transfer_pieces",
    "two_lane_program",
    "zb_h1",
    "zb_v",
]
