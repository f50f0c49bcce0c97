"""Jobs that are acted by threads: the ranks of a program's text run against calls that only meet, and the snapshots of
what is left standing are judged. A tenth of a second a job, no torch, no processes.

A call of a group ends when each member has made one that is alike; a transfer when its peer has made the other half
with the same tag. A backward makes its calls below Python: of these only the line is known. Where connections `break`,
a call for which a rank whose program has ended is missing raises, as on gloo.
"""

import builtins
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import FrameType, SimpleNamespace
from typing import Any

from unit.sources.live_snapshots import C10D, moment, rank_snapshot, ring, twice

from emberward.diagnose import NO_DATA, DataSeen, Frame, ThreadStack, lacked
from emberward.diagnose.live import OpenCall, ProcessState, RankSnapshot, WaitingIn
from emberward.findings import Finding
from emberward.sources.live import judge_snapshots

FILE = "/job/train.py"
HEAD = """\
import contextlib
import time
import torch
import torch.distributed as dist

rank, world = dist.get_rank(), dist.get_world_size()
"""
"""How each program begins."""
GRAPH = C10D.replace("distributed/distributed_c10d", "autograd/graph")
LIMIT_S = 20.0
LONG_S = 10.0
"""A sleep of this length does not end while the job is looked at; a shorter one takes no time."""


class _Stop(BaseException):
    """Ends a thread of a job that stands still."""


@dataclass(eq=False)
class Group:
    ranks: tuple[int, ...]
    index: int

    @property
    def name(self) -> str:
        return f"{','.join(map(str, self.ranks))}#{self.index}"


@dataclass(eq=False)
class Call:
    """A call of one rank. `key`: what the calls that meet share; `form`: what has to be alike."""

    record: int
    op: str
    group: Group
    numel: int
    frames: list[Frame]
    key: tuple[Any, ...]
    form: tuple[Any, ...]
    tag: int | None = None
    peer: int | None = None
    is_hidden: bool = False
    step: int = 0
    is_done: bool = False


@dataclass(eq=False)
class Work:
    job: "ActedJob"
    call: Call

    def wait(self) -> None:
        self.job.wait_for(self.call)


@dataclass
class _Rank:
    rank: int
    calls: list[Call] = field(default_factory=list)
    made: dict[tuple[Any, ...], int] = field(default_factory=dict)
    waits: Call | None = None
    num_steps: int = 0
    """Steps of an optimizer that it has ended."""
    asked: list[str] = field(default_factory=list)
    """The lines at which it asked a loader for data."""
    ends: list[int] = field(default_factory=list)
    """How many calls it had made whenever its data ended."""
    is_asleep: bool = False
    is_over: bool = False
    error: BaseException | None = None
    ident: int = 0
    where: list[Frame] = field(default_factory=list)


class ActedJob:
    """Runs the text on `world` ranks until all have ended or stand still."""

    def __init__(self, text: str, world: int, *, breaks: bool = False) -> None:
        self.text, self.world, self._breaks = text, world, breaks
        self.lines = text.splitlines()
        self._lock = threading.Condition()
        self._ranks = [_Rank(rank) for rank in range(world)]
        self._groups: dict[tuple[tuple[int, ...], int], Group] = {}
        self._stops = False
        code = compile(text, FILE, "exec")
        threads = [threading.Thread(target=self._act, args=(rank, code), daemon=True) for rank in range(world)]
        for thread in threads:
            thread.start()
        with self._lock:
            assert self._lock.wait_for(self._is_still, LIMIT_S), "the job neither ends nor stands still"
            for each in self._ranks:
                each.where = [] if each.is_over else _frames(sys._current_frames()[each.ident])
            self._stops = True
            self._lock.notify_all()
        for thread in threads:
            thread.join(LIMIT_S)
        errors = [each.error for each in self._ranks if each.error is not None]
        assert not errors, errors

    def _act(self, rank: int, code: Any) -> None:
        own = self._ranks[rank]
        own.ident = threading.get_ident()
        modules = self._modules(rank)

        def fake_import(name: str, scope: Any = None, local: Any = None, names: Any = (), level: int = 0) -> Any:
            if name not in modules:
                return builtins.__import__(name, scope, local, names, level)
            return modules[name] if names else modules[name.partition(".")[0]]

        try:
            exec(code, {"__name__": "__main__", "__builtins__": {**vars(builtins), "__import__": fake_import}})
        except _Stop:
            return
        except BaseException as error:  # noqa: BLE001 (told by the main thread)
            own.error = error
        with self._lock:
            own.is_over = True
            self._lock.notify_all()

    def _is_still(self) -> bool:
        return all(
            each.is_over or each.is_asleep or (each.waits is not None and not self._returns(each.waits))
            for each in self._ranks
        )

    def _returns(self, call: Call) -> bool:
        return call.is_done or (self._breaks and any(self._ranks[rank].is_over for rank in call.group.ranks))

    # -- what a program calls ----------------------------------------------------------------------------------------

    def _modules(self, rank: int) -> dict[str, Any]:
        world = self._group(tuple(range(self.world)), 0)
        counts: dict[tuple[int, ...], int] = {world.ranks: 1}

        def new_group(ranks: Any = None) -> Group:
            members = tuple(sorted(range(self.world) if ranks is None else ranks))
            index = counts[members] = counts.get(members, -1) + 1
            return self._group(members, index)

        def collective(op: str) -> Callable[..., Any]:
            def call(size: Any = 0, *_: Any, group: Group | None = None, async_op: bool = False, **__: Any) -> Any:
                numel = 0 if op == "barrier" else int(size)
                work = self._collective(rank, op.removesuffix("_single"), group or world, numel)
                return work if async_op else work.wait()

            call.__name__ = op
            return call

        def transfer(op: str) -> Callable[..., Any]:
            def call(
                size: int = 1, peer: int = 0, *, tag: int = 0, src: int | None = None, dst: int | None = None
            ) -> Any:
                other = next(each for each in (src, dst, peer) if each is not None)
                work = self._transfer(rank, op.removeprefix("i"), world, int(size), other, tag)
                return work if op.startswith("i") else work.wait()

            return call

        def backward() -> None:
            self._collective(rank, "all_reduce", world, 64, is_hidden=True).wait()

        dist = SimpleNamespace(
            get_rank=lambda: rank,
            get_world_size=lambda group=None: self.world if group is None else len(group.ranks),
            init_process_group=lambda *_: None,
            new_group=new_group,
            **{op: collective(op) for op in ("all_reduce", "all_gather", "broadcast", "barrier", "all_to_all_single")},
            **{op: transfer(op) for op in ("send", "recv", "isend", "irecv")},
        )

        def loader(items: Any) -> Any:
            given = iter(items)
            while True:
                frame = next(each for each in _frames(sys._getframe()) if each.file == FILE)
                own.asked.append(f"{frame.file}:{frame.line}")
                try:
                    yield next(given)
                except StopIteration:
                    own.ends.append(len(own.calls))
                    return

        model = SimpleNamespace(backward=backward)
        own = self._ranks[rank]
        optimizer = SimpleNamespace(step=lambda: setattr(own, "num_steps", own.num_steps + 1))
        torch = SimpleNamespace(distributed=dist, loss=lambda *_: model, optimizer=optimizer, loader=loader)
        time = SimpleNamespace(sleep=lambda seconds: self._sleep(rank) if seconds >= LONG_S else None)
        return {"torch": torch, "torch.distributed": dist, "time": time}

    def _sleep(self, rank: int) -> None:
        with self._lock:
            self._ranks[rank].is_asleep = True
            self._lock.notify_all()
            while not self._stops:
                self._lock.wait()
            raise _Stop

    def _group(self, ranks: tuple[int, ...], index: int) -> Group:
        with self._lock:
            return self._groups.setdefault((ranks, index), Group(ranks, index))

    def _collective(self, rank: int, op: str, group: Group, numel: int, *, is_hidden: bool = False) -> Work:
        own = self._ranks[rank]
        key = (group.name, own.made.get((group.name,), 0) + 1)
        own.made[group.name,] = key[1]
        return self._issue(
            own,
            op=op,
            group=group,
            numel=numel,
            key=key,
            form=(op, numel),
            is_hidden=is_hidden,
            needed=len(group.ranks),
        )

    def _transfer(self, rank: int, op: str, group: Group, numel: int, peer: int, tag: int) -> Work:
        own = self._ranks[rank]
        way = (rank, peer) if op == "send" else (peer, rank)
        count = own.made[op, way, tag] = own.made.get((op, way, tag), 0) + 1
        return self._issue(
            own, op=op, group=group, numel=numel, key=(way, tag, count), form=(), tag=tag, peer=peer, needed=2
        )

    def _issue(self, own: _Rank, *, needed: int, **facts: Any) -> Work:
        with self._lock:
            frames = [frame for frame in _frames(sys._getframe()) if frame.file == FILE]
            call = Call(record=len(own.calls) + 1, frames=frames, step=own.num_steps, **facts)
            if self._stops:
                # What cleans up in a thread that is ended meets nobody.
                call.is_done = True
                return Work(self, call)
            own.calls.append(call)
            met = [each for other in self._ranks for each in other.calls if each.key == call.key]
            if len(met) == needed and len({each.form for each in met}) == 1:
                for each in met:
                    each.is_done = True
                self._lock.notify_all()
            return Work(self, call)

    def wait_for(self, call: Call) -> None:
        with self._lock:
            own = next((each for each in self._ranks if call in each.calls), self._ranks[0])
            if self._stops and call.is_done:
                return
            own.waits = call
            self._lock.notify_all()
            while not self._returns(call):
                if self._stops:
                    raise _Stop
                self._lock.wait()
            own.waits = None
            if not call.is_done:
                raise RuntimeError("Connection closed by peer")

    # -- what is left standing ---------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        return all(each.is_over for each in self._ranks)

    def findings(self) -> tuple[Finding, ...]:
        """What is said of the job where it stands."""

        def line_of(frame: Frame) -> str | None:
            is_there = frame.file == FILE and frame.line is not None and 0 < frame.line <= len(self.lines)
            return self.lines[frame.line - 1] if is_there and frame.line is not None else None

        early, late = twice(*(self._snapshot(each) for each in self._ranks))
        exits = {each.rank: 0 for each in self._ranks if each.is_over}
        return judge_snapshots(early, late, line_of=line_of, exits=exits)

    def _snapshot(self, own: _Rank) -> RankSnapshot:
        groups = sorted({call.group for call in own.calls}, key=lambda group: (-len(group.ranks), group.name))
        told = [call for call in own.calls if call.peer is None]
        last = {group: [call for call in told if call.group is group] for group in groups}
        status = {
            str(number): {
                "last_enqueued_collective": len(last[group]),
                "last_completed_collective": sum(call.is_done for call in last[group]),
            }
            for number, group in enumerate(groups)
        }
        facts = ring(num_done=0, is_inside=False, world=self.world)
        places = [call.frames[0] for call in own.calls if call.frames]
        waits = own.waits if own.waits is not None and not own.is_over else None
        facts = replace(
            facts,
            flight={
                "version": "2.10",
                "pg_config": {group.name: {"desc": group.name, "ranks": list(group.ranks)} for group in groups},
                "pg_status": status,
                "entries": [_entry(call, groups.index(call.group)) for call in own.calls],
            },
            num_calls=len(own.calls),
            step=own.num_steps or None,
            num_done=sum(call.is_done for call in own.calls),
            blocked_record=None if waits is None or waits.is_hidden else waits.record,
            backward=(FILE, waits.frames[0].line or 0) if waits is not None and waits.is_hidden else None,
            before=places[-2] if len(places) > 1 else None,
            lacks=lacked(places),
            been_at=tuple(dict.fromkeys(places[:-1])),
            data=DataSeen(
                runs=tuple((place, len(list(run))) for place, run in groupby(own.asked)),
                num_ends=len(own.ends),
                has_end=bool(own.ends) and len(own.calls) - own.ends[-1] <= 1,
                at=own.asked[-1],
            )
            if own.asked
            else NO_DATA,
            open_call=None if waits is None or waits.is_hidden or waits.peer is not None else _open(waits, own),
        )
        if own.is_over:
            left = (moment("main_exited", ""),)
            return rank_snapshot(
                own.rank, None, replace(facts, moments=left, has_ended=self._breaks), state=ProcessState.GONE
            )
        inner, *outer = own.where
        if own.is_asleep:
            thread = ThreadStack(name="MainThread", os_thread_id=1000 + own.rank, is_active=False, frames=tuple(outer))
            return rank_snapshot(own.rank, thread, facts, waiting_in=WaitingIn.NANOSLEEP)
        inner = inner if waits is None or waits.is_hidden else replace(inner, function=waits.op)
        thread = ThreadStack(name="MainThread", os_thread_id=1000 + own.rank, is_active=False, frames=(inner, *outer))
        return rank_snapshot(own.rank, thread, facts)


def _entry(call: Call, number: int) -> dict[str, Any]:
    members = call.group.ranks
    name = f"live:{call.op}"
    rows = [{"name": frame.function, "filename": frame.file, "line": frame.line} for frame in call.frames[:1]]
    if call.peer is not None:
        own = call.key[0][0 if call.op == "send" else 1]
        name += f" {members.index(own)}{'->' if call.op == 'send' else '<-'}{members.index(call.peer)}"
    return {
        "record_id": call.record,
        "ring_number": call.record,
        "pg_id": number,
        "process_group": [call.group.name, call.group.name],
        "collective_seq_id": call.record if call.peer is not None else call.key[1],
        "profiling_name": name,
        "input_sizes": [[call.numel]] if call.numel else [],
        "output_sizes": [],
        "input_dtypes": ["float32"] if call.numel else [],
        "output_dtypes": [],
        "time_created_ns": call.record * 200_000_000,
        "retired": call.is_done,
        "state": "completed" if call.is_done else "scheduled",
        "is_p2p": call.peer is not None,
        "tag": call.tag,
        "step": None if call.is_hidden else call.step,
        "frames": [] if call.is_hidden else rows,
    }


def _open(call: Call, own: _Rank) -> OpenCall:
    site = call.frames[0]
    is_new = all(each.frames[:1] != [site] for each in own.calls if each is not call)
    text = f"{call.op} of {call.numel} float32"
    return OpenCall(
        text=text, function=site.function, file=site.file, line=site.line or 0, is_new=is_new, group=call.group.name
    )


def _frames(innermost: FrameType | None) -> list[Frame]:
    """The stack as py-spy has it, the innermost first; what acts the calls is one function of torch's."""
    found: list[Frame] = []
    while innermost is not None:
        code, line = innermost.f_code, innermost.f_lineno
        if code.co_filename == FILE:
            if not found:
                found.append(Frame(function="all_reduce", file=C10D, line=2999))
            found.append(Frame(function=code.co_qualname, file=FILE, line=line))
        elif code.co_name == "backward" and code.co_filename == __file__ and not found:
            found.append(Frame(function="_engine_run_backward", file=GRAPH, line=979))
        innermost = innermost.f_back
    return found
