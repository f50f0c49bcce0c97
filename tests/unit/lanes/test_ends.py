"""The end of a program with lanes: exit, Ctrl-C, a fork, an error that nobody took, a task that does not end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from warm import Piped, WarmServer

HEAD = """
import os, sys, threading, time
from emberward import lanes
lane = lanes.lane("work")
release = threading.Event()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[WarmServer]:
    """Where the programs are forked: lanes come with torch."""
    server = WarmServer("emberward.lanes")
    yield server
    server.close()


@pytest.fixture
def run(server: WarmServer, tmp_path: Path) -> Callable[[str], tuple[int, str, str]]:
    """Runs a program after HEAD to its end: its exit code, output and errors."""

    def run(program: str) -> tuple[int, str, str]:
        path = tmp_path / "program.py"
        path.write_text(HEAD + program)
        started = Piped(server, [str(path)], cwd=tmp_path, module=None, env={})
        out, err = started.communicate(timeout=120)
        assert started.returncode is not None
        return started.returncode, out, err

    return run


def test_what_was_given_is_done_before_the_program_ends(run):
    code, out, err = run("""
lane.submit(release.wait, 30)
for number in range(20):
    lane.submit(lambda number=number: (time.sleep(0.005), print(number, flush=True)))
print("main ends", flush=True)
release.set()
""")
    assert (code, out.splitlines(), err) == (0, ["main ends", *map(str, range(20))], "")


def test_ctrl_c_in_a_wait_ends_the_program_with_what_was_given_done(run):
    code, out, err = run("""
import signal
def end():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    print("done", flush=True)
lane.submit(end).result()
print("not reached")
""")
    assert (code, out, err.strip().splitlines()[-1]) == (-2, "done\n", "KeyboardInterrupt")


def test_a_forked_child_has_its_own_thread_and_what_the_parent_gave_is_said_to_be_gone(run):
    code, out, err = run("""
import warnings
warnings.simplefilter("ignore")  # from 3.12 on Python itself warns of a fork beside threads
hanging = lane.submit(release.wait, 30)
waiting = lane.submit(int)
child = os.fork()
if child == 0:
    told = [str(each.exception()).splitlines()[0] for each in (hanging, waiting)]
    print(lane.submit(sum, [1, 2]).result(10), told, flush=True)
    lanes.close_all()
    os._exit(0)
os.waitpid(child, 0)
release.set()
print(waiting.result(10))
""")
    gone = "W105 a task of lane work was never done"
    assert (code, out, err) == (0, f"3 {[gone, gone]}\n0\n", "")


def test_an_error_that_nobody_took_is_told_at_the_end(run, tmp_path):
    code, out, err = run("""
lane.submit(lambda: 1 / 0)
""")
    assert (code, out) == (0, "")
    lines = err.splitlines()
    assert lines[0] == "Nobody took the error of a task of lane work"
    told = lines.index("ZeroDivisionError: division by zero")
    assert lines[told + 1] == "The task was submitted to lane work at:"
    assert lines[-1] == f'  File "{tmp_path / "program.py"}", line 7, in <module>'


def test_a_lane_that_drops_what_waits_does_not_keep_the_program(run):
    code, out, err = run("""
dropping = lanes.lane("data", finishes_at_exit=False)
dropping.submit(release.wait, 30)
later = dropping.submit(print, "never")
print("end", flush=True)
""")
    assert (code, out, err) == (0, "end\n", "")


def test_a_closed_lane_refuses_in_these_words():
    from emberward import lanes
    from emberward.findings import EmberwardError

    lane = lanes.lane("a")
    assert lane.close()
    try:
        lane.submit(int)
    except EmberwardError as error:
        assert str(error) == (
            "W105 a task of lane a was never done\n"
            "  found     the lane is closed\n"
            "  next      submit it again; a lane of the same name is made anew when it is asked for"
        )
    else:
        raise AssertionError("a closed lane took a task")
    assert lanes.lane("a").submit(int).result(10) == 0
