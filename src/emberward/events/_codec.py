"""Traces as JSON lines: one header, one line an event, one footer. Versions 1 and 2.

[Note: trace format]
Line 1 ``{"emberward_trace": 1, "world_size": .., "observer": .., "ranks": [..], "credits": [[rank|null, name, n]..],
"assumptions": [..]}``; then one object an event with ``"op"`` naming its body; last ``{"end": <number of events>}``.
A file without its footer, or whose footer disagrees, is half-written and is refused, never believed in part.
Unknown keys of a newer minor writer are refused as well: a judge must not guess. Version 2 adds the sizes of a
collective's parts (`in_splits`, `out_splits`, `parts`); a trace that has none is still written as version 1.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from emberward.events._event import (
    Body,
    CollectiveOp,
    Event,
    Group,
    Lane,
    LaneKind,
    Phase,
    ReduceOp,
    Ref,
    Site,
    Stage,
    State,
    SyncKind,
)
from emberward.events._trace import Observer, Trace

VERSIONS = (1, 2)
_BODY_TYPES: dict[str, type] = {body.__name__: body for body in get_args(Body)}
_SINCE_2 = ("in_splits", "out_splits", "parts")
_SITE = ("file", "line", "function", "through")
_TIMES = ("issued_ns", "started_ns", "completed_ns")


class TraceFormatError(ValueError):
    """A trace that cannot be believed. Carries the line number, counted from 1."""

    def __init__(self, problem: str, line: int) -> None:
        self.line = line
        super().__init__(f"line {line}: {problem}")


def _plain(value: object) -> Any:
    match value:
        case Enum():
            return value.value
        case Lane():
            return [value.kind.value, value.index, value.label]
        case Group():
            return [list(value.ranks), value.index, value.label]
        case Ref():
            return [_plain(value.lane), value.position]
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return value


def _lane(data: list[Any]) -> Lane:
    kind, index, label = data
    return Lane(kind=LaneKind(kind), index=index, label=label)


def _group(data: list[Any]) -> Group:
    ranks, index, label = data
    return Group(ranks=tuple(ranks), index=index, label=label)


def _ref(data: list[Any]) -> Ref:
    lane, position = data
    return Ref(lane=_lane(lane), position=position)


def _body_value(name: str, value: Any) -> Any:
    if value is None:
        return None
    match name:
        case "group":
            return _group(value)
        case "op":
            return CollectiveOp(value)
        case "reduce_op":
            return ReduceOp(value)
        case "kind":
            return SyncKind(value)
        case "lane":
            return _lane(value)
        case "on":
            return _ref(value)
        case "shape" | "members" | "in_splits" | "out_splits" | "parts":
            return tuple(value)
        case _:
            return value


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event's JSON object, absent facts left out."""
    body = event.body
    fields = {f.name: _plain(getattr(body, f.name)) for f in dataclasses.fields(body)}
    out: dict[str, Any] = {
        "rank": event.rank,
        "lane": _plain(event.lane),
        "position": event.position,
        "body": type(body).__name__,
        "args": {name: value for name, value in fields.items() if value is not None},
    }
    if event.after:
        out["after"] = _plain(event.after)
    if event.site is not None:
        through = [] if event.site.through is None else [event.site.through]
        out["site"] = [event.site.file, event.site.line, event.site.function, *through]
    phase = {f.name: _plain(getattr(event.phase, f.name)) for f in dataclasses.fields(event.phase)}
    if any(value is not None for value in phase.values()):
        out["phase"] = [phase["step"], phase["micro_batch"], phase["stage"], phase["name"]]
    for name in _TIMES:
        value = getattr(event, name)
        if value is not None:
            out[name] = value
    if event.state is not None:
        out["state"] = event.state.value
    return out


def event_from_dict(data: dict[str, Any]) -> Event:
    """The event that `event_to_dict` wrote. Raises KeyError, TypeError or ValueError on anything else."""
    body_type = _BODY_TYPES[data["body"]]
    args = {name: _body_value(name, value) for name, value in data["args"].items()}
    known = {"rank", "lane", "position", "body", "args", "after", "site", "phase", "state", *_TIMES}
    if unknown := set(data) - known:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    site, phase, state = data.get("site"), data.get("phase"), data.get("state")
    return Event(
        rank=data["rank"],
        lane=_lane(data["lane"]),
        position=data["position"],
        body=body_type(**args),
        after=tuple(_ref(ref) for ref in data.get("after", ())),
        site=None if site is None else Site(**dict(zip(_SITE, site, strict=False))),
        phase=Phase()
        if phase is None
        else Phase(
            step=phase[0],
            micro_batch=phase[1],
            stage=None if phase[2] is None else Stage(phase[2]),
            name=phase[3],
        ),
        issued_ns=data.get("issued_ns"),
        started_ns=data.get("started_ns"),
        completed_ns=data.get("completed_ns"),
        state=None if state is None else State(state),
    )


def _version_of(trace: Trace) -> int:
    """The lowest version that holds the trace."""
    has_sizes = any(getattr(event.body, name, None) is not None for event in trace for name in _SINCE_2)
    return 2 if has_sizes else 1


def to_lines(trace: Trace) -> Iterator[str]:
    """The trace as JSON lines without newlines. See [Note: trace format]."""
    yield json.dumps(
        {
            "emberward_trace": _version_of(trace),
            "world_size": trace.world_size,
            "observer": trace.observer.value,
            "ranks": sorted(trace.events),
            "credits": [[rank, name, capacity] for (rank, name), capacity in trace.credits.items()],
            "assumptions": list(trace.assumptions),
        }
    )
    count = 0
    for event in trace:
        yield json.dumps(event_to_dict(event), separators=(",", ":"))
        count += 1
    yield json.dumps({"end": count})


def from_lines(lines: Iterable[str]) -> Trace:
    """The trace written by `to_lines`. Raises TraceFormatError on a cut, foreign or newer file."""
    number, header, end = 0, None, None
    events: dict[int, list[Event]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            data = json.loads(line)
        except json.JSONDecodeError as error:
            raise TraceFormatError(f"not JSON ({error.msg})", number) from error
        if not isinstance(data, dict):
            raise TraceFormatError("expected a JSON object", number)
        if header is None:
            if data.get("emberward_trace") not in VERSIONS:
                found, known = data.get("emberward_trace"), " or ".join(map(str, VERSIONS))
                raise TraceFormatError(f"expected an Emberward trace of version {known}, found {found!r}", number)
            header = data
            events = {rank: [] for rank in data["ranks"]}
        elif end is not None:
            raise TraceFormatError("text after the footer", number)
        elif "end" in data:
            end = data["end"]
        else:
            try:
                event = event_from_dict(data)
                events[event.rank].append(event)
            except (KeyError, TypeError, ValueError) as error:
                raise TraceFormatError(f"not an event ({error})", number) from error
    count = sum(map(len, events.values()))
    if header is None:
        raise TraceFormatError("empty file", 1)
    if end != count:
        raise TraceFormatError(f"half-written: footer says {end}, found {count} events", number)
    try:
        return Trace(
            world_size=header["world_size"],
            events={rank: tuple(items) for rank, items in events.items()},
            observer=Observer(header["observer"]),
            credits={(rank, name): capacity for rank, name, capacity in header["credits"]},
            assumptions=tuple(header["assumptions"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TraceFormatError(str(error), 1) from error


def write_trace(trace: Trace, path: Path) -> None:
    """Writes the trace aside, syncs it, then renames it over `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        for line in to_lines(trace):
            file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_trace(path: Path) -> Trace:
    """The trace in `path`. Raises OSError or TraceFormatError."""
    with path.open(encoding="utf-8") as file:
        return from_lines(line.rstrip("\n") for line in file)
