"""The end of a program with lanes: exit, Ctrl-C, a fork, an error that nobody took, a task that does not end."""

import subprocess
import sys

HEAD = """
import os, sys, threading, time
from emberward import lanes
lane = lanes.lane("work")
release = threading.Event()
"""


def run(program: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", HEAD + program], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_what_was_given_is_done_before_the_program_ends():
    code, out, err = run("""
for number in range(20):
    lane.submit(lambda number=number: (time.sleep(0.005), print(number, flush=True)))
print("main ends", flush=True)
""")
    assert (code, out.splitlines(), err) == (0, ["main ends", *map(str, range(20))], "")


def test_ctrl_c_in_a_wait_ends_the_program_with_what_was_given_done():
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


def test_a_forked_child_has_its_own_thread_and_what_the_parent_gave_is_said_to_be_gone():
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


def test_an_error_that_nobody_took_is_told_at_the_end():
    code, out, err = run("""
lane.submit(lambda: 1 / 0)
""")
    assert (code, out) == (0, "")
    lines = err.splitlines()
    assert lines[0] == "Nobody took the error of a task of lane work"
    assert lines[-3:] == [
        "ZeroDivisionError: division by zero",
        "The task was submitted to lane work at:",
        '  File "<string>", line 7, in <module>',
    ]


def test_a_lane_that_drops_what_waits_does_not_keep_the_program():
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
