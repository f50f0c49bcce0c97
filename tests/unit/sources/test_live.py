"""The wrappers of the live recorder around calls that do nothing: what is written, and that nothing else changes."""

import os
import sys
import sysconfig
import threading
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch._C._distributed_c10d import AllreduceOptions, BroadcastOptions, ProcessGroup, ReduceOp, ReduceOptions

from emberward.events import Collective, Group, Phase, Stage, State, Wait
from emberward.sources import Guard, RoleProgram, Segment
from emberward.sources._heartbeat import MAX_QUIET_S, Silence, is_compiler_loaded
from emberward.sources._issue import SUMMED, note_sums, short_wait
from emberward.sources._live import CURRENT, Asks, KnownGroup, LiveRecorder
from emberward.sources._marks import _kept_by
from emberward.sources._site import SiteFinder
from emberward.sources._wrap import _wrapped_method, _wrapped_wait, recorded_method
from emberward.sources.ring import MarkKind, RingWriter, identity_here, read_ring
from emberward.sources.watch import CallWatch

WORLD = Group(ranks=(4, 5, 6, 7), label="world")


class Work:
    """What a call gave: done when it is waited for."""


class Handle:
    """torch's handle of the group."""


@pytest.fixture
def live(tmp_path):
    writer = RingWriter(tmp_path / "rank00005-1.ring", identity_here(rank=5, world_size=8, local_rank=5))
    live = LiveRecorder(writer)
    CURRENT.live = live
    yield live
    CURRENT.live = None
    writer.close()


@pytest.fixture
def handle(live):
    handle = Handle()
    live.know(handle, "0", KnownGroup(live.writer.group(WORLD), WORLD, True))
    return handle


def events(live):
    return read_ring(live.writer.path).events


def options(*, is_async: bool, op=ReduceOp.SUM):
    made = AllreduceOptions()
    made.asyncOp = is_async
    made.reduceOp = op
    return made


def test_a_call_is_open_until_its_work_was_waited_for(live, handle):
    work = Work()
    call = _wrapped_method("allreduce", lambda *_: work)
    wait = _wrapped_wait(lambda work: "value")
    assert call(handle, [torch.zeros(6, dtype=torch.int32)], options(is_async=True, op=ReduceOp.MAX)) is work
    (event,) = events(live)
    assert (event.state, event.body.numel, event.body.dtype, event.body.reduce_op) == (State.ISSUED, 6, "int32", "max")
    assert event.site.file == __file__
    assert wait(work) == "value"
    (event,) = events(live)
    assert event.state is State.COMPLETED
    assert wait(work) == "value", "a second wait waits for nothing"
    assert len(events(live)) == 1


def test_a_work_is_not_kept_alive(live, handle):
    made = []

    def allreduce(*_):
        made.append(Work())
        return made[-1]

    call = _wrapped_method("allreduce", allreduce)
    call(handle, [torch.zeros(1)], options(is_async=True))
    made.clear()
    assert [pending[0]() for pending in live.pending.values()] == [None]
    live.check_pending(10)
    assert live.pending == {}


def test_a_call_that_raises_raises_as_ever_and_is_marked(live, handle):
    def broken(*_):
        raise RuntimeError("connection reset")

    with pytest.raises(RuntimeError, match="connection reset"):
        _wrapped_method("broadcast", broken)(handle, [torch.zeros(1)], 2)
    view = read_ring(live.writer.path)
    assert view.events[0].body.root == 6
    assert view.failures == {view.events[0].ref}


def test_a_way_to_call_that_is_new_to_us_is_let_through(live, handle):
    call = _wrapped_method("send", lambda *_, **named: named)
    assert call(handle, tensors=5, to="nobody") == {"tensors": 5, "to": "nobody"}
    view = read_ring(live.writer.path)
    assert view.events == ()
    assert view.problems == ("send not recorded: IndexError: tuple index out of range",)


def asks(**by_method):
    return Asks(by_method=by_method, known={}, words=lambda *_: (), issue=lambda number: None)


def test_a_guard_keeps_a_call_from_being_issued(live, handle):
    issued = []
    call = _wrapped_method("send", lambda *args: issued.append(args))
    seen = []
    live.asks = asks(send=lambda *asked: seen.append(asked))
    call(handle, [torch.zeros(3)], 2, 9)
    assert [(asked, args[1:], named) for asked, args, named in seen] == [(handle, (2, 9), {})]
    assert len(issued) == 1

    def refuse(*asked):
        raise ValueError("departs")

    live.asks = asks(send=refuse)
    with pytest.raises(ValueError, match="departs"):
        call(handle, [torch.zeros(3)], 2, 9)
    assert len(issued) == 1


def test_a_forked_child_writes_nothing(live, handle):
    call = _wrapped_method("barrier", lambda *_: None)
    child = os.fork()
    if child == 0:
        call(handle)
        os._exit(7 if CURRENT.live is None else 8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert events(live) == ()
    call(handle)
    assert len(events(live)) == 1


def test_a_forked_rank_s_main_thread_is_its_own(tmp_path):
    child = os.fork()
    if child == 0:
        writer = RingWriter(tmp_path / "rank00005-2.ring", identity_here(rank=5, world_size=8, local_rank=5))
        os._exit(7 if read_ring(writer.path).threads[0].native_id == os.getpid() else 8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_asynchronous_call_and_a_later_wait_by_another_thread(live, handle):
    work = Work()
    _wrapped_method("_allgather_base", lambda *_: work)(handle, torch.zeros(8), torch.zeros(2))
    thread = threading.Thread(target=_wrapped_wait(lambda work: None), args=(work,))
    thread.start()
    thread.join()
    view = read_ring(live.writer.path)
    gather, wait = view.events
    assert isinstance(gather.body, Collective)
    assert (gather.body.numel, gather.body.out_numel) == (2, 8)
    assert isinstance(wait.body, Wait)
    assert view.callers[wait.ref] == 1


def test_a_program_that_tells_its_phases(live):
    live.enter(Phase(stage=Stage.LOAD))
    live.enter(Phase(step=5))
    assert live.steps.is_told
    live.enter(Phase(step=6))
    live.enter(Phase(step=6, stage=Stage.EVAL, name="valid"))
    view = read_ring(live.writer.path)
    assert (view.step, view.phase.stage, view.phase.name) == (6, Stage.EVAL, "valid")
    assert [(mark.kind, mark.step) for mark in view.marks] == [
        (MarkKind.LOAD, None),
        (MarkKind.STEP, 5),
        (MarkKind.EVAL, 6),
    ]
    assert [mark.kind for mark in view.open_marks] == [MarkKind.EVAL]


@pytest.mark.parametrize(
    ("pauses_s", "limit_s"),
    [([0.1] * 20, 1.0), ([0.1, 30.0, 0.1], 1.0), ([5.0, 0.1, 5.0, 0.1, 5.0], 10.0), ([60.0] * 5, MAX_QUIET_S)],
)
def test_a_silence_is_long_by_the_job_s_own_measure(pauses_s, limit_s):
    """One long pause is a start; what is long three times is how the job works."""
    silence, now_s = Silence(0.0), 0.0
    for pause_s in pauses_s:
        now_s += pause_s
        silence.moved(now_s)
    assert silence.limit_s == pytest.approx(limit_s)
    assert not silence.is_due(now_s + limit_s - 0.01)
    assert silence.is_due(now_s + limit_s)


@pytest.mark.parametrize(
    ("modules", "is_loaded"),
    [
        ({}, False),
        ({"torch._inductor": False}, True),
        ({"torch._inductor": False, "torch._dynamo.guards": True}, False),
    ],
    ids=["nobody imported it", "imported", "an import is under way"],
)
def test_stacks_of_the_flight_recorder_wait_for_the_program_s_own_import_of_the_compiler(
    monkeypatch, modules, is_loaded
):
    """To name frames torch imports its compiler: a program that imports it meanwhile would die of that."""
    for name in [name for name in sys.modules if name.startswith(("torch._inductor", "torch._dynamo"))]:
        monkeypatch.delitem(sys.modules, name)
    for name, is_under_way in modules.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.__spec__._initializing = is_under_way
        monkeypatch.setitem(sys.modules, name, module)
    assert is_compiler_loaded() is is_loaded


def test_a_lasting_silence_is_copied_less_and_less_often():
    silence = Silence(0.0)
    copies, now_s = [], 0.0
    while now_s < 30:
        now_s += 0.5
        if silence.is_due(now_s):
            silence.copied(now_s)
            copies.append(now_s)
    assert copies == [1.0, 3.0, 8.0, 18.0, 28.0]
    silence.moved(now_s)
    assert not silence.is_due(now_s + 0.5)


def short(live, method, work):
    original = lambda *_: work  # noqa: E731 (what torch's method would be)
    waited = lambda work: "value"  # noqa: E731
    return recorded_method(live, method, original), short_wait(live, waited, _wrapped_wait(waited))


def made(kind, **values):
    options = kind()
    options.asyncOp = False
    for name, value in values.items():
        setattr(options, name, value)
    return options


SHORT_CALLS = {
    "sum": ("allreduce", [torch.zeros(6)], made(AllreduceOptions)),
    "max": ("allreduce", [torch.zeros(2, dtype=torch.int64)], made(AllreduceOptions, reduceOp=ReduceOp.MAX)),
    "several": ("allreduce", [torch.zeros(2), torch.zeros(3)], made(AllreduceOptions)),
    "root": ("broadcast", [torch.zeros(3)], made(BroadcastOptions, rootRank=2)),
    "reduce": ("reduce", [torch.zeros(3)], made(ReduceOptions, rootRank=1, reduceOp=ReduceOp.MIN)),
}


@pytest.mark.parametrize(("method", "given", "options"), SHORT_CALLS.values(), ids=SHORT_CALLS.keys())
def test_the_short_way_writes_what_the_long_way_writes(live, handle, method, given, options):
    work = Work()
    call, wait = short(live, method, work)
    for each in (call, _wrapped_method(method, lambda *_: work)):
        assert each(handle, given, options) is work
        assert [event.state for event in events(live)][-1] is State.ISSUED
        assert wait(work) == "value"
        assert live.sync == {}
    one, other = events(live)
    assert (one.body, one.lane, one.state) == (other.body, other.lane, State.COMPLETED)
    assert one.site == other.site
    assert read_ring(live.writer.path).groups[WORLD].completed == 2


@pytest.mark.parametrize("kind", [AllreduceOptions, ReduceOptions])
def test_the_reduction_is_that_which_the_options_have_when_they_are_given(live, handle, monkeypatch, kind):
    monkeypatch.setattr(kind, "reduceOp", vars(kind)["reduceOp"])
    note_sums(kind)
    call, _ = short(live, "allreduce" if kind is AllreduceOptions else "reduce", Work())
    first, second, untouched = made(kind, reduceOp=ReduceOp.SUM), made(kind, reduceOp=ReduceOp.SUM), kind()
    first.reduceOp = ReduceOp.MAX
    given = [first, second, second, untouched]
    for each in given:
        call(handle, [torch.zeros(1)], each)
    second.reduceOp = ReduceOp.SUM
    with pytest.raises(TypeError):
        second.reduceOp = "max"
    call(handle, [torch.zeros(1)], second)
    first.reduceOp = ReduceOp.SUM
    second.reduceOp = ReduceOp.MIN
    for each in (first, second):
        call(handle, [torch.zeros(1)], each)
    told = [event.body.reduce_op for event in events(live)]
    assert told == ["max", "sum", "sum", "sum", "sum", "sum", "min"]
    assert SUMMED.options is None, "no options are kept behind the call"


def test_other_forms_of_a_short_call_go_the_long_way(live, handle):
    work = Work()
    call, wait = short(live, "allreduce", work)
    call(handle, [torch.zeros(1)], ReduceOp.MAX)
    call(handle, [torch.zeros(2)])
    named = recorded_method(live, "allreduce", lambda handle, given, opts: work)
    named(handle, [torch.zeros(3)], opts=made(AllreduceOptions))
    assert wait(work) == "value"
    assert [(event.body.numel, event.body.reduce_op) for event in events(live)] == [(1, "max"), (2, "sum"), (3, "sum")]
    assert read_ring(live.writer.path).problems == ()


def test_a_wait_that_raises_and_one_that_never_came(live, handle):
    class Completed(Work):
        def is_completed(self):
            return True

        def is_success(self):
            return True

    def broken(work):
        raise RuntimeError("connection reset")

    work, left = Work(), Completed()
    arguments = [torch.zeros(1)], made(AllreduceOptions)
    recorded_method(live, "allreduce", lambda *_: work)(handle, *arguments)
    with pytest.raises(RuntimeError, match="connection reset"):
        short_wait(live, broken, _wrapped_wait(broken))(work)
    recorded_method(live, "allreduce", lambda *_: left)(handle, *arguments)
    view = read_ring(live.writer.path)
    assert view.failures == {view.events[0].ref}
    live.check_pending(10)
    assert list(live.sync) == [left], "its wait may come yet"
    live.check_pending(10)
    assert live.sync == {}
    assert events(live)[1].state is State.COMPLETED


def test_a_forked_child_writes_nothing_by_the_short_way(live, handle):
    call, wait = short(live, "allreduce", work := Work())
    child = os.fork()
    if child == 0:
        call(handle, [torch.zeros(1)], made(AllreduceOptions))
        os._exit(7 if wait(work) == "value" else 8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert events(live) == ()


def test_a_call_is_asked_about_once_and_refused_before_it_is_issued(live, handle):
    """Beside a recorder the certificate's watch puts no wrapper on, and the recorder's own ask it."""
    before = dict(vars(ProcessGroup))
    program = RoleProgram(rank=0, calls=(), places=(), segments=())
    guard = Guard(program, rank=0, find_site=lambda: None, on_departure=lambda departure: None)
    issued = []
    calls = {name: recorded_method(live, name, lambda *args: issued.append(args)) for name in ("allreduce", "send")}
    with CallWatch(guard).recording():
        assert dict(vars(ProcessGroup)) == before
        calls["allreduce"](handle, [torch.zeros(6)], made(AllreduceOptions))
        calls["allreduce"](handle, [torch.zeros(6)], made(AllreduceOptions, reduceOp=ReduceOp.MAX))
        calls["allreduce"](handle, [torch.zeros(2, 3)], made(AllreduceOptions))
        calls["allreduce"](handle, [torch.zeros(6), torch.zeros(1)], made(AllreduceOptions))
        calls["allreduce"](handle, [torch.zeros(6)], made(AllreduceOptions))
        calls["send"](handle, [torch.zeros(3)], 2, 9)
    calls["send"](handle, [torch.zeros(3)], 2, 9)
    assert (guard.position, len(issued), len(events(live))) == (6, 7, 7)
    assert [(key[0], key[3], key[4], key[6]) for key in guard._keys] == [
        ("all_reduce", 6, (6,), "sum"),
        ("all_reduce", 6, (6,), "max"),
        ("all_reduce", 6, (2, 3), "sum"),
        ("all_reduce", 7, None, "sum"),
        ("send", 3, (3,), None),
    ]


def test_a_departure_keeps_a_short_call_from_being_issued_and_from_the_ring(live, handle):
    def depart(departure):
        raise ValueError(departure.found_text)

    step = Segment(kind="setup", count=None, calls=(), places=())
    program = RoleProgram(rank=0, calls=(), places=(), segments=(step,))
    guard = Guard(program, rank=0, find_site=lambda: None, on_departure=depart)
    issued = []
    call = recorded_method(live, "allreduce", lambda *args: issued.append(args))
    with CallWatch(guard).recording(), pytest.raises(ValueError, match="all_reduce world float32 6 sum"):
        call(handle, [torch.zeros(6)], made(AllreduceOptions))
    assert (issued, events(live)) == ([], ())


def _trainer(call):
    """A function of an installed package that makes the call in its line 2, and one that makes it in its line 4."""
    space = {"call": call}
    file = Path(sysconfig.get_path("purelib")) / "trainer" / "loop.py"
    exec(compile("def step():\n    return call()\ndef save():\n    return call()\n", str(file), "exec"), space)
    return space["step"], space["save"], str(file)


def test_a_call_below_an_installed_package_is_at_the_users_line():
    step, _, file = _trainer(SiteFinder().here)
    site = step()
    assert (site.file, site.function) == (__file__, "test_a_call_below_an_installed_package_is_at_the_users_line")
    assert site.through == f"{file}:2"


@pytest.mark.parametrize("is_short", [True, False])
def test_the_ring_keeps_the_users_line_and_tells_a_trainers_calls_apart(live, handle, is_short):
    def original(*_):
        return Work()

    call = recorded_method(live, "allreduce", original) if is_short else _wrapped_method("allreduce", original)
    step, save, file = _trainer(partial(call, handle, [torch.zeros(6)], made(AllreduceOptions)))
    for each in (step, save, step):
        each()
    sites = [event.site for event in events(live)]
    assert {(site.file, site.line) for site in sites} == {(__file__, sites[0].line)}
    assert [site.through for site in sites] == [f"{file}:2", f"{file}:4", f"{file}:2"]
    assert sites[0] == sites[2] != sites[1]


def test_the_threads_that_keep_a_process_are_those_that_are_no_daemons():
    assert _kept_by() is None
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=is_daemon) for is_daemon in (True, False)]
    try:
        for thread in threads:
            thread.start()
        assert _kept_by() == f"kept by threads {threads[1].native_id}"
    finally:
        done.set()
        for thread in threads:
            thread.join()
