"""The pre-flight page as text, long and short, and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from emberward.report._first_steps import GroupBytes, Measured
from emberward.report._fit import table
from emberward.report._preflight import Preflight, Role
from emberward.report._progress import size_text
from emberward.report._run_report import layout_lines
from emberward.report._schedule_choices import ScheduleChoice, best_choice

MAX_SHORT_ROLES = 8


def _layers_text(layers: Sequence[range]) -> str:
    return " + ".join(f"{each.start}-{each.stop - 1}" if len(each) else "none" for each in layers)


def _memory_rows(roles: Sequence[Role], width: int | None) -> list[str]:
    sizes_of = ["weights", "gradients", "optimizer", "gathered", "unsharded", "activations", "buffers", "total"]
    header = ["pp", "parameters", *sizes_of, "layers"]
    rows = []
    for role in roles:
        m = role.memory
        sizes = (
            m.weight_bytes,
            m.gradient_bytes,
            m.optimizer_bytes,
            m.gathered_bytes,
            m.unsharded_gradient_bytes,
            m.activation_bytes,
            m.buffer_bytes,
            m.total_bytes,
        )
        rows.append([str(role.pp_rank), f"{m.num_parameters:,}", *map(size_text, sizes), _layers_text(role.layers)])
    return table(header, rows, width=width)


def _traffic_rows(roles: Sequence[Role], width: int | None) -> list[str]:
    rows = [
        [
            str(role.pp_rank),
            row.group,
            f"{row.num_calls:,}",
            size_text(row.payload_bytes),
            size_text(row.sent_bytes),
            row.kind,
        ]
        for role in roles
        for row in role.traffic
    ]
    return table(["pp", "group", "calls", "payload", "sent", "by"], rows, width=width)


def _buffers_text(role: Role) -> str:
    return ", ".join(f"{each.credit} x{each.count}" for each in role.buffers)


def _prediction_lines(page: Preflight) -> list[str]:
    if page.hardware is None:
        return ["step time   not predicted on CPU"]
    if page.prediction is None:
        return [f"step time   not predicted: {page.hardware} has no float32 rates in the table"]
    p = page.prediction
    parts = ", ".join(f"{name} {seconds:.3g}" for name, seconds in p.parts_s.items() if seconds)
    return [
        f"step time   {p.step_s:.3g} s predicted on {page.hardware}, {p.fastest_s:.3g} to {p.slowest_s:.3g}: "
        f"{p.tokens_per_s:,.0f} tokens/s, MFU {100 * p.mfu:.1f}%, {p.tflops:.1f} TFLOPs a rank",
        f"            seconds of the busiest pipeline rank: {parts}",
    ]


def preflight_text(page: Preflight, *, width: int | None = None) -> str:
    """The page for people: seats, memory by role (bytes of the role's first rank), bytes a step, bubble, time.

    The findings stand beside the page, not in it: a verb says them with its own.
    """
    seats = [
        {
            "rank": seat.rank,
            "coordinates": {axis.value: at for axis, at in seat.coordinates.items() if dict(page.axes)[axis] > 1},
            "host": seat.host or "unknown",
        }
        for seat in page.seats
    ]
    lines = [f"{page.name}: {page.num_parameters:,} parameters on {_ranks(page)}", ""]
    room = None if width is None else width - 2
    lines += [f"  {line}" for line in layout_lines(seats, width=room)]
    lines += ["", "  memory a rank, first rank of each pipeline rank"]
    lines += [f"  {line}" for line in _memory_rows(page.roles, room)]
    lines += ["", "  bytes a rank and step"]
    lines += [f"  {line}" for line in _traffic_rows(page.roles, room)]
    if len(page.roles) > 1:
        lines += ["", "  buffers of a micro-batch each, the fewest that keep the schedule live and full"]
        lines += [f"  pp {role.pp_rank}  {_buffers_text(role)}" for role in page.roles]
    lines += ["", f"  bubble      {100 * page.bubble:.1f}% with {page.num_mb} micro-batches"]
    lines += [f"  attention   {page.attention}"]
    if page.choices:
        lines += [
            "",
            "  schedules: idle share with equal stages, and the fullest rank's memory without transfer buffers",
        ]
        lines += [f"  {line}" for line in _choice_rows(page.choices, room)]
        lines += [f"  {line}" for line in _advice_lines(page)]
        lines.append("")
    lines += [f"  {line}" for line in _prediction_lines(page)]
    return "\n".join(lines)


def _ranks(page: Preflight) -> str:
    return f"{page.num_ranks:,} rank{'s' if page.num_ranks != 1 else ''}"


def plan_text(page: Preflight) -> str:
    """What is about to run, in a line or two: parameters, ranks, layout, the memory of the fullest rank."""
    sizes = [(axis.value, size) for axis, size in page.axes if size > 1]
    mesh = ": " + " x ".join(f"{axis} {size}" for axis, size in sizes) if sizes else ""
    most = max(role.memory.total_bytes for role in page.roles)
    lines = [
        f"{'plan':<11} {page.num_parameters:,} parameters on {_ranks(page)}{mesh}",
        f"{'memory':<11} {size_text(most)} of tensors a rank at most",
    ]
    return "\n".join([*lines, *(_prediction_lines(page) if page.hardware is not None else [])])


def preflight_brief(page: Preflight, *, width: int | None = None) -> str:
    """The page in one screen: a line a role, then bubble and time. Warnings are not repeated."""
    lines = ["a pipeline rank (pp) at a time"]
    lines += [f"  {line}" for line in _brief_rows(page.roles[:MAX_SHORT_ROLES], None if width is None else width - 2)]
    if len(page.roles) > MAX_SHORT_ROLES:
        lines.append(f"  and {len(page.roles) - MAX_SHORT_ROLES} more pipeline ranks")
    lines.append(f"  bubble      {100 * page.bubble:.1f}% with {page.num_mb} micro-batches")
    lines += [f"  {line}" for line in _advice_lines(page)]
    lines += [f"  {line}" for line in _prediction_lines(page)]
    return "\n".join(lines)


def _choice_rows(choices: Sequence[ScheduleChoice], width: int | None) -> list[str]:
    rows = []
    for each in choices:
        note = " ".join(["chosen"] * each.is_chosen + ["does not fit"] * (each.fits is False))
        size = size_text(each.memory_bytes)
        rows.append([each.name, str(each.stages_per_rank), f"{100 * each.bubble:.1f}%", size, note])
    return table(["schedule", "stages a rank", "idle", "memory", ""], rows, width=width)


def _advice_lines(page: Preflight) -> list[str]:
    """Which schedule idles least where it fits, when it is not the recipe's own."""
    best, own = best_choice(page.choices), next((each for each in page.choices if each.is_chosen), None)
    if best is None or own is None or (own.fits is not False and own.bubble <= best.bubble):
        return []
    return [f"least idle  {best.override}: {100 * best.bubble:.1f}%, {size_text(best.memory_bytes)}"]


def _brief_rows(roles: Sequence[Role], width: int | None) -> list[str]:
    groups = list(dict.fromkeys(row.group for role in roles for row in role.traffic if row.num_ranks > 1))
    rows = []
    for role in roles:
        m = role.memory
        state = m.weight_bytes + m.gradient_bytes + m.optimizer_bytes
        sent = dict.fromkeys(groups, 0)
        for row in role.traffic:
            if row.group in sent:
                sent[row.group] += row.sent_bytes
        sizes = (m.total_bytes, state, m.activation_bytes, m.total_bytes - state - m.activation_bytes, *sent.values())
        rows.append([str(role.pp_rank), str(role.num_ranks), *map(size_text, sizes), _layers_text(role.layers)])
    header = ["pp", "ranks", "memory", "state", "activations", "other", *(f"{name} sent" for name in groups), "layers"]
    return table(header, rows, width=width)


def traffic_line(traffic: Sequence[GroupBytes]) -> str:
    """One line: whether what was recorded carries the bytes that the page says."""
    if not traffic:
        return "bytes a step: not recorded"
    names = ", ".join(dict.fromkeys(row.group for row in traffic))
    wrong = sum(not row.is_equal for row in traffic)
    if wrong:
        return f"bytes a step: {wrong} of {len(traffic)} rows of the page are not what the dry run recorded (M112)"
    return f"bytes a step: calls and bytes of the page are those that the dry run recorded ({names})"


def first_steps_text(measured: Sequence[Measured], traffic: Sequence[GroupBytes]) -> str:
    """The page beside the first steps, a line a figure that was measured; empty when nothing was."""
    known = [row for row in measured if row.measured is not None]
    lines = [f"  {_WORDS[row.what]:<11} {_beside(row)}" for row in known]
    if traffic:
        names = ", ".join(dict.fromkeys(row.group for row in traffic))
        wrong = [row for row in traffic if not row.is_equal]
        lines.append(f"  {'bytes':<11} " + (f"as planned ({names})" if not wrong else "not as planned, see M112"))
    return "\n".join(["measured against the plan", *lines]) if lines else ""


_WORDS = {
    "step_s": "step time",
    "tokens_per_s": "speed",
    "mfu": "MFU",
    "bubble": "bubble",
    "held_bytes": "memory",
    "peak_bytes": "process",
}


def _beside(row: Measured) -> str:
    assert row.measured is not None
    shown = _shown(row.what, row.measured)
    if row.what == "peak_bytes":
        return f"{shown} at most, with Python and torch themselves"
    if row.predicted is None:
        return f"{shown}, not predicted"
    if row.what == "held_bytes":
        return f"{shown} of weights and moments a rank, {_shown(row.what, row.predicted)} planned"
    error = "" if row.error is None else f" ({100 * row.error:+.0f}%)"
    return f"{shown}, {_shown(row.what, row.predicted)} predicted{error}"


def _shown(what: str, value: float) -> str:
    match what:
        case "step_s":
            return f"{value:.3g} s"
        case "tokens_per_s":
            return f"{value:,.0f} tokens/s"
        case "peak_bytes" | "held_bytes":
            return size_text(int(value))
        case _:
            return f"{100 * value:.1f}%"


def preflight_json(page: Preflight) -> dict[str, Any]:
    """The page as it stands in a command's JSON document."""
    return {
        "name": page.name,
        "num_ranks": page.num_ranks,
        "num_parameters": page.num_parameters,
        "seats": [
            {"rank": s.rank, "coordinates": {a.value: at for a, at in s.coordinates.items()}, "host": s.host}
            for s in page.seats
        ],
        "roles": [_role_json(role) for role in page.roles],
        "num_mb": page.num_mb,
        "bubble": page.bubble,
        "schedule": page.schedule,
        "spans": [[each.pp_rank, str(each.action), each.start, each.end] for each in page.spans],
        "schedules": [asdict(each) for each in page.choices],
        "warnings": list(page.warnings),
        "hardware": page.hardware,
        "prediction": None if page.prediction is None else asdict(page.prediction),
        "memory_gib": page.memory_gib,
    }


def _role_json(role: Role) -> dict[str, Any]:
    memory = {key: value for key, value in asdict(role.memory).items() if key.endswith("_bytes")}
    return {
        "pp_rank": role.pp_rank,
        "num_ranks": role.num_ranks,
        "stages": list(role.memory.stages),
        "layers": [[each.start, each.stop] for each in role.layers],
        "num_parameters": role.memory.num_parameters,
        "memory": {**memory, "total_bytes": role.memory.total_bytes},
        "buffers": {each.credit: each.count for each in role.buffers},
        "traffic": [
            {
                "group": row.group,
                "by": row.kind.value,
                "num_ranks": row.num_ranks,
                "num_calls": row.num_calls,
                "payload_bytes": row.payload_bytes,
                "sent_bytes": row.sent_bytes,
            }
            for row in role.traffic
        ],
    }
