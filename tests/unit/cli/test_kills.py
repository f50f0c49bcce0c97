"""Every verb that starts processes, killed at a seeded moment: no process, socket, temporary folder or ring is left."""

import os
import random
import signal
import subprocess
import sys

import psutil
import pytest

from emberward.testing import MOST, Moment, kill_verb, verbs

SEED = 11
SECOND = dict(zip(verbs(), (signal.SIGTERM, signal.SIGINT) * 3, strict=True))
KILLS = [(verb, number) for verb in verbs() for number in (signal.SIGKILL, SECOND[verb])]


@pytest.mark.parametrize(("verb", "number"), KILLS)
def test_nothing_is_left_of_a_verb_that_is_killed(tmp_path, verb, number):
    rng = random.Random(f"{SEED} {verb} {number}")
    moment = Moment(num_processes=rng.randint(2, MOST[verb]), delay_s=rng.uniform(0.0, 0.3))
    killed = kill_verb(verb, tmp_path / "here", environment=os.environ, moment=moment, number=number)
    assert killed.is_clean, (SEED, moment, killed)


SERVER = "setsid sh -c 'nohup sleep 1000 > /dev/null 2>&1 & echo $!'"


@pytest.mark.parametrize(("code", "goes_on"), [(0, True), (3, False)])
def test_a_server_that_a_command_started_on_purpose_outlives_its_success_and_no_failure(tmp_path, code, goes_on):
    words = ["run", "--no-record", "--name", "job", "--", "sh", "-c", f"{SERVER}; exit {code}"]
    done = subprocess.run(
        [sys.executable, "-m", "emberward", *words], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == code, done.stderr
    pid = int(done.stdout)
    try:
        assert psutil.pid_exists(pid) is goes_on
    finally:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)


def test_the_check_of_what_is_left_finds_a_process_that_escaped(tmp_path, monkeypatch):
    """The look-alike of the kills above: a verb whose guardian was killed with it leaves its processes."""
    from emberward.testing import _kills

    monkeypatch.setattr(_kills, "WAIT_LIMIT_S", 20.0)
    victim = _kills.Victim("check recipe", tmp_path / "here", os.environ, is_torch_real=False)
    try:
        while victim.process.poll() is None and len(found := victim.marked()) < MOST["check recipe"]:
            pass
        monkeypatch.setattr(_kills, "WAIT_LIMIT_S", 0.5)
        for pid, words in found.items():
            if "_guardian.py" in words:
                os.kill(pid, signal.SIGKILL)
        killed = victim.kill(Moment(num_processes=0, delay_s=0.0), signal.SIGKILL)
        assert not killed.is_clean
    finally:
        monkeypatch.setattr(_kills, "WAIT_LIMIT_S", 20.0)
        victim.close()
