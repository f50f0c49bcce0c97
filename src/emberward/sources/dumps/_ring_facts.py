"""What the judge of live jobs needs of a ring."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from emberward.diagnose import DataSeen, Departed, Frame, lacked, short_path
from emberward.diagnose.live import Moment, OpenCall, RingFacts, from_plain, to_plain
from emberward.events import (
    KEPT_BY,
    Barrier,
    Collective,
    Event,
    GroupCreate,
    HostSync,
    LaneKind,
    Recv,
    Send,
    Site,
    Wait,
)
from emberward.sources.dumps._limits import limits_of
from emberward.sources.dumps._ring import has_hidden, ring_flight, ring_group_name
from emberward.sources.ring import MAIN_THREAD, Mark, MarkKind, RingView, read_ring

Place = tuple[int | None, bool, Site | None]
"""When a call or a backward ended, whether it is a backward, and its line."""
BUNDLED = "emberward_ring"
"""The key by which a bundle's file of a ring is known."""
_OTHERS = (Barrier, Send, Recv, GroupCreate)
_MOMENTS = frozenset({MarkKind.EXCEPTION, MarkKind.THREAD_DIED, MarkKind.MAIN_EXITED, MarkKind.DATA_END})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRing:
    """What a ring told, of whose rank and process it is."""

    rank: int
    pid: int | None
    facts: RingFacts


def read_rank_ring(path: Path) -> RankRing:
    """The ring at `path`, whose rank went on from what it holds. Raises ValueError when it is of no rank."""
    view = read_ring(path)
    if not view.is_readable or view.rank is None:
        raise ValueError("; ".join(view.problems[:2]) or "its process never had a rank")
    return RankRing(rank=view.rank, pid=view.pid, facts=ring_facts(view, is_past=True))


def bundled(ring: RankRing) -> dict[str, Any]:
    """The ring as plain data, for a file that is read on another machine."""
    return {BUNDLED: to_plain(ring)}


def read_bundled(value: Mapping[str, Any]) -> RankRing:
    """The ring that `bundled` gave. Raises ValueError, KeyError or TypeError on other data."""
    return from_plain(RankRing, value[BUNDLED])


def ring_facts(view: RingView, *, is_past: bool = False) -> RingFacts:
    """What the judge needs of a ring. `is_past`: for calls that its rank went on from, see `ring_flight`. Pure."""
    limits = limits_of(view)
    creating = [e for e in view.events if isinstance(e.body, GroupCreate) and e.completed_ns is None]
    creates = [e for e in view.events if isinstance(e.body, GroupCreate)]
    last = creating[-1] if creating else None
    num_calls, num_done = num_moves(view)
    places = _places(view)
    return RingFacts(
        flight=ring_flight(view, is_past=is_past),
        num_calls=num_calls,
        num_done=num_done,
        step=view.step,
        stage=view.phase.stage,
        stage_name=view.phase.name,
        heartbeat_age_s=view.heartbeat_age_s,
        moved_age_s=view.moved_age_s,
        notice_s=limits.notice_s,
        limit_s=limits.limit_s,
        has_history=limits.has_history,
        backward=_backward(view),
        moments=tuple(
            Moment(
                kind=mark.kind.value,
                text=mark.name,
                site=_site(mark.site),
                age_s=(view.read_ns - mark.began_ns) / 1e9,
            )
            for mark in view.marks
            if mark.kind in _MOMENTS
        )[-16:],
        groups_made=tuple(ring_group_name(e.body.group) for e in creates if isinstance(e.body, GroupCreate))[-64:],
        creating=None if last is None else _site(last.site),
        creating_ranks=last.body.group.ranks if last is not None and isinstance(last.body, GroupCreate) else (),
        blocked_record=_blocked(view),
        waits_for_device=any(
            isinstance(e.body, HostSync) and e.completed_ns is None and e.lane.index == 0 for e in view.events
        ),
        open_call=_open_call(view, of_main=True),
        open_sequence=_open_sequence(view),
        beside=_open_call(view, of_main=False),
        before=next((_frame(site) for end, _, site in reversed(places) if end is not None), None),
        lacks=_lacks(places),
        been_at=_been_at(places),
        ever_at=tuple(frame for site in view.sites if (frame := _frame(site)) is not None),
        data=_data(view, places),
        departed=_departed(view),
        has_ended=_has_ended(view),
        data_at=next((_site(mark.site) for mark in reversed(view.marks) if mark.kind is MarkKind.DATA), None),
        problems=view.problems[-8:],
    )


def _departed(view: RingView) -> Departed | None:
    """How the rank left its certificate in the step that it is in: a departure that it outlived is none of a hang."""
    mark = next((mark for mark in reversed(view.marks) if mark.kind is MarkKind.DEPARTURE), None)
    if mark is None or mark.step != view.step or mark.name is None:
        return None
    try:
        told = from_plain(Departed, json.loads(mark.name))
    except (ValueError, KeyError, TypeError):
        return None
    file, _, line = (told.site or "").rpartition(":")
    return replace(told, site=f"{short_path(file)}:{line}" if file else told.site)


def _has_ended(view: RingView) -> bool:
    """Whether the program came to its end by itself, and all its calls are counted, also those below Python."""
    kinds = {mark.kind for mark in view.marks}
    left = next((mark for mark in reversed(view.marks) if mark.kind is MarkKind.MAIN_EXITED), None)
    if left is None or MarkKind.EXCEPTION in kinds or not (left.name or KEPT_BY).startswith(KEPT_BY):
        return False
    hidden = [count for count in view.groups.values() if has_hidden(count)]
    return not hidden or (MarkKind.COUNTED in kinds and not any(count.p2p_issued for count in hidden))


def _been_at(places: Sequence[Place]) -> tuple[Frame, ...]:
    """The lines to which the main thread came, but for where it is in a call or a backward now."""
    left = places[:-1] if places and places[-1][0] is None else places
    return tuple(frame for site in dict.fromkeys(site for _, _, site in left) if (frame := _frame(site)) is not None)


def _backward(view: RingView) -> tuple[str, int] | None:
    for mark in reversed(view.open_marks):
        if mark.kind is MarkKind.BACKWARD and mark.thread == MAIN_THREAD and mark.site is not None:
            return mark.site.file, mark.site.line
    return None


def _places(view: RingView) -> list[Place]:
    """Where the main thread made calls in Python and began backwards, whose calls torch makes below it, in order.

    They are places of one order.
    """
    others = [e for e in view.events if isinstance(e.body, _OTHERS) and _is_main(view, e)]
    found = [(e.issued_ns or 0, e.completed_ns, False, e.site) for e in (*_calls(view, of_main=True), *others)]
    found += [(mark.began_ns, mark.ended_ns, True, mark.site) for mark in _backwards(view)]
    return [place[1:] for place in sorted(found, key=lambda place: place[0])]


def _frame(site: Site | None) -> Frame | None:
    return None if site is None else Frame(function=site.function or "", file=site.file, line=site.line)


def _lacks(places: Sequence[Place]) -> Frame | None:
    """The line to which the main thread came in each earlier round, and not in this one; None where it did again."""
    place = lacked([place[1:] for place in places])
    return None if place is None else _frame(place[1])


def _data(view: RingView, places: Sequence[Place]) -> DataSeen:
    """What the main thread asked for and when that ended; how often, as long as all of its marks are there."""
    marks = [mark for mark in view.marks if mark.thread == MAIN_THREAD]
    ends = [mark.began_ns for mark in marks if mark.kind is MarkKind.DATA_END]
    done = [end for end, _, _ in places if end is not None]
    has_end = bool(ends) and ends[-1] > max(done, default=0)
    sites = [m.site for m in marks if m.kind is MarkKind.DATA]
    asked = [f"{site} {None if site is None else site.through}" for site in sites]
    at = asked[-1] if asked else None
    if not view.marks or min(mark.number for mark in view.marks) > 1:
        return DataSeen(has_end=has_end, at=at)
    runs = tuple((place, len(list(run))) for place, run in groupby(asked))
    return DataSeen(runs=runs, num_ends=len(ends), has_end=has_end, at=at)


def _backwards(view: RingView) -> list[Mark]:
    return [mark for mark in view.marks if mark.kind is MarkKind.BACKWARD and mark.thread == MAIN_THREAD]


def _calls(view: RingView, *, of_main: bool) -> list[Event]:
    """The collectives that the main thread, or one beside it, made in Python.

    Without one that is made for the first time while a backward runs: a handler of a signal made it, as Lightning's
    does when its launcher ends the job.
    """
    made = [e for e in view.events if isinstance(e.body, Collective) and _is_main(view, e) is of_main]
    spans = [(mark.began_ns, mark.ended_ns) for mark in _backwards(view)] if made and of_main else []
    at_ns = made[-1].issued_ns or 0 if made else 0
    is_inside = any(began <= at_ns and (ended is None or at_ns <= ended) for began, ended in spans)
    is_new = all(each.site != made[-1].site for each in made[:-1])
    return made[:-1] if is_inside and is_new else made


def num_moves(view: RingView) -> tuple[int, int]:
    """How many calls a rank has begun, also below Python, and how many have ended."""
    below = sum(count.sequence for count in view.groups.values() if count.sequence is not None)
    return view.num_calls + below, sum(count.completed + count.p2p_completed for count in view.groups.values())


def _site(site: Site | None) -> str | None:
    """The line as stacks name it."""
    return None if site is None else f"{short_path(site.file)}:{site.line}"


def _blocked(view: RingView) -> int | None:
    """The place, in the order of all calls, of the one in which the main thread sits; None when it sits in none."""
    for event in reversed(view.events):
        if event.completed_ns is not None or event.lane.kind is not LaneKind.HOST:
            continue
        if not _is_main(view, event):
            continue
        if isinstance(event.body, HostSync):
            return _oldest_open(view, event)
        if isinstance(event.body, Wait):
            return view.numbers.get(event.body.on)
        return view.numbers.get(event.ref)
    return None


def _oldest_open(view: RingView, sync: Event) -> int | None:
    """The place of the first call that a host still waits for, which waits for all that it had launched."""
    end = view.numbers.get(sync.ref, 0)
    calls = (Collective, Barrier, Send, Recv)
    is_open = (e.ref for e in view.events if e.completed_ns is None and isinstance(e.body, calls))
    return min((n for ref in is_open if (n := view.numbers.get(ref, 0)) < end), default=None)


def _is_main(view: RingView, event: Event) -> bool:
    """Whether the main thread made the call, as far as the ring tells."""
    caller = view.callers.get(event.ref)
    return caller is None or not 0 <= caller < len(view.threads) or view.threads[caller].native_id == view.pid


def _open_sequence(view: RingView) -> int | None:
    """Which one of its group the main thread's newest collective is; None where torch makes some below Python."""
    calls = _calls(view, of_main=True)
    body = calls[-1].body if calls else None
    if not isinstance(body, Collective) or has_hidden(view.groups.get(body.group)):
        return None
    return view.sequences.get(calls[-1].ref)


def _open_call(view: RingView, *, of_main: bool) -> OpenCall | None:
    """The newest collective that the main thread, or one beside it, made in Python, if it is open and has a line."""
    calls = _calls(view, of_main=of_main)
    last = calls[-1] if calls else None
    if last is None or last.completed_ns is not None or last.site is None or not isinstance(last.body, Collective):
        return None
    body = last.body
    return OpenCall(
        text=f"{body.op.value}{'' if body.numel is None else f' of {body.numel}'} {body.dtype}",
        function=last.site.function or "?",
        file=last.site.file,
        line=last.site.line,
        is_new=all(call.site != last.site for call in calls[:-1]),
        group="" if body.group is None else ring_group_name(body.group),
    )
