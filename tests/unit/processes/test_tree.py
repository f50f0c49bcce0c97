"""Process trees of real processes: what they are to the programs they start, and that nothing of them is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from emberward.processes import PIPE, ProcessTree, _guardian, identify, is_alive

OWNER = str(Path(__file__).with_name("owner.py"))
DAEMON = "setsid sh -c 'env -i sleep 1000 & echo $!' & wait"


@pytest.fixture
def tree():
    with ProcessTree() as tree:
        yield tree


class Owner:
    """A process that owns a tree, and is killed in the test."""

    def __init__(self, place: Path, mode: str, wait_until) -> None:
        self.process = subprocess.Popen([sys.executable, OWNER, str(place), mode], start_new_session=True)
        wait_until(lambda: (place / "said").exists(), "the tree")
        said = json.loads((place / "said").read_text())
        self.pids, self.folder = said["pids"], Path(said["folder"])
        self.started = [process for pid in self.pids if (process := identify(pid)) is not None]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(60)

    def left(self) -> list:
        return [process for process in self.started if is_alive(process)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_of_a_tree_outlives_its_owner_not_even_what_left_parent_session_and_environment(
    tmp_path, wait_until, number
):
    owner = Owner(tmp_path, "plain", wait_until)
    assert len(owner.left()) >= 4
    assert owner.folder.is_dir()
    owner.send(number)
    wait_until(lambda: not owner.left() and not owner.folder.exists(), "the end of the tree")


def test_a_tree_below_a_tree_ends_with_its_folders(tmp_path, wait_until):
    outer = Owner(tmp_path, "nested", wait_until)
    inner = json.loads((tmp_path / "below" / "said").read_text())
    assert Path(inner["folder"]).is_dir()
    outer.send(signal.SIGKILL)
    wait_until(lambda: not outer.left(), "the end of the tree")
    wait_until(lambda: not outer.folder.exists() and not Path(inner["folder"]).exists(), "the folders' end")


def test_what_a_guardian_below_has_just_forked_ends_at_once(tree):
    """It looks like that guardian until it becomes its program, and is then no guardian that may take its time."""
    becomes = (
        "import os, signal, sys; from emberward.processes import _guardian\n"
        "signal.signal(_guardian.END_NOW, lambda number, frame: os.execvp('sleep', ['sleep', '1000']))\n"
        "sys.stdout.write('up\\n'); sys.stdout.flush()\n"
        "while True: signal.pause()"
    )
    fork = tree.start(
        [sys.executable, "-c", becomes, _guardian.__file__], environment=dict(os.environ), stdout=PIPE, is_session=False
    )
    assert fork.stdout is not None
    assert os.read(fork.stdout, 8) == b"up\n"
    began_s = time.monotonic()
    assert tree.close() == 0
    assert time.monotonic() - began_s < _guardian.GUARDIAN_LIMIT_S, "it was waited for as for a guardian"


def test_who_may_save_is_asked_first(tmp_path, wait_until):
    owner = Owner(tmp_path, "saves", wait_until)
    owner.send(signal.SIGKILL)
    wait_until(lambda: not owner.left(), "the end of the tree")
    assert (tmp_path / "saved").read_text() == "saved\n"


def test_what_is_released_goes_on(tree):
    said = tree.run(["sh", "-c", DAEMON], environment=dict(os.environ), timeout_s=30.0)
    daemon = identify(int(said.out))
    assert daemon in tree.processes()
    tree.release()
    try:
        assert is_alive(daemon)
    finally:
        os.kill(daemon.pid, signal.SIGKILL)


def test_the_look_alike_what_is_not_released_ends(tree):
    said = tree.run(["sh", "-c", DAEMON], environment=dict(os.environ), timeout_s=30.0)
    daemon = identify(int(said.out))
    assert daemon is not None
    assert tree.close() == 0
    assert not is_alive(daemon)


def test_when_the_guardian_is_killed_nothing_stays(tree):
    command = "setsid sleep 1000 & sleep 1000"
    child = tree.start(["sh", "-c", command], environment=dict(os.environ))
    started = tree.processes()
    living = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
    (guardian,) = [p for p in living if "_guardian.py" in " ".join(p.cmdline())]
    guardian.kill()
    assert child.wait(30.0) == -signal.SIGKILL
    tree.close()
    assert [process for process in started if is_alive(process)] == []


# -- what the programs see ---------------------------------------------------------------------------------------------


def test_output_input_and_exit_code_also_of_more_than_a_pipe_holds(tree):
    given = b"0123456789" * 100_000
    done = tree.run(["sh", "-c", "cat; echo no >&2; exit 3"], environment=dict(os.environ), timeout_s=60.0, given=given)
    assert (done.code, done.errors, done.out == given) == (3, b"no\n", True)


def test_a_signal_is_a_negative_code(tree):
    assert tree.run(["sh", "-c", "kill -9 $$"], environment=dict(os.environ), timeout_s=60.0).code == -9


def test_a_program_that_does_not_end_is_killed_in_time_and_its_waits_are_told(tree):
    waits = []
    done = tree.run(["sleep", "1000"], environment=dict(os.environ), timeout_s=0.3, on_wait=waits.append, every_s=0.05)
    assert done.code is None
    assert waits
    assert done.seconds < 30.0


def test_a_program_that_has_ended_is_not_waited_for_because_another_holds_its_output(tree):
    began_s = time.monotonic()
    done = tree.run(["sh", "-c", "setsid sleep 1000 & echo up"], environment=dict(os.environ), timeout_s=500.0)
    assert (done.code, done.out) == (0, b"up\n")
    assert time.monotonic() - began_s < 60.0


@pytest.mark.parametrize(
    ("command", "problem"), [(["no-such-program"], FileNotFoundError), ([os.devnull], PermissionError)]
)
def test_a_program_that_cannot_be_started_raises_as_popen_does(tree, command, problem):
    with pytest.raises(problem) as raised:
        tree.start(command, environment=dict(os.environ))
    assert raised.value.filename == command[0]
    assert tree.processes() == set()


def test_descriptors_group_folder_mask_and_ignored_signals_are_as_below_popen(tree, tmp_path):
    program = (
        "import json, os, signal\n"
        "text = os.read(FD, 9).decode()\n"
        "ignored = signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN\n"
        "mask = [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())]\n"
        "default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
        "print(json.dumps([text, os.getpgrp(), os.getcwd(), mask, ignored, default]))\n"
    )
    (tmp_path / "given").write_text("as it was")
    given = os.open(tmp_path / "given", os.O_RDONLY)
    os.set_inheritable(given, True)
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        child = tree.start(
            [sys.executable, "-S", "-c", program.replace("FD", str(given))],
            environment=dict(os.environ),
            folder=tmp_path,
            stdout=PIPE,
            is_session=False,
            passes_descriptors=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGUSR1, before)
        os.close(given)
    assert child.wait(60.0) == 0
    assert child.stdout is not None
    said = json.loads(os.read(child.stdout, 4096))
    assert said == ["as it was", os.getpgrp(), str(tmp_path), [int(signal.SIGUSR2)], True, True]


def test_programs_hold_nothing_of_the_guardian(tree):
    said = tree.run(["sh", "-c", "ls -l /proc/self/fd"], environment=dict(os.environ), timeout_s=60.0)
    assert said.code == 0
    assert b"socket:" not in said.out


def test_a_tree_that_starts_nothing_has_no_guardian():
    before = psutil.Process().children()
    with ProcessTree() as tree:
        assert tree.processes() == set()
        assert psutil.Process().children() == before
