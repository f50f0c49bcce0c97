"""A run's folder has one launcher: what the second one is told, and that a folder in rest tells nothing."""

import errno
import json
import os
import threading
import time

import pytest

from emberward.findings import ConfigError
from emberward.report import RunFolder, write_json
from emberward.supervise._lock import hold_lock


def test_a_folder_in_use_is_refused_with_the_launcher_that_uses_it(tmp_path):
    folder, me = RunFolder(path=tmp_path), os.getpid()
    with hold_lock(folder, launcher_pid=me), pytest.raises(ConfigError) as caught, hold_lock(folder, launcher_pid=me):
        pass
    assert caught.value.exit_code == 2
    assert caught.value.text() == (
        "C111 another launch uses this run folder\n"
        f"  where     {tmp_path}\n"
        "  expected  one launcher for one run folder\n"
        f"  found     the launcher with pid {me} on {os.uname().nodename} holds it\n"
        "  next      wait for it, stop it with Ctrl-C, or use --fresh"
    )


def test_a_second_job_is_told_of_the_first_one(tmp_path):
    folder, me = RunFolder(path=tmp_path), os.getpid()
    refused = pytest.raises(ConfigError, match="of SLURM's job 17, holds it")
    with hold_lock(folder, launcher_pid=me, job="17"), refused, hold_lock(folder, launcher_pid=me, job="18"):
        pass


def test_a_file_system_without_locks_is_named_and_no_launcher(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    refused = pytest.raises(ConfigError, match="C112 the run folder cannot be locked")
    with refused as caught, hold_lock(RunFolder(path=tmp_path), launcher_pid=os.getpid()):
        pass
    assert "No locks available" in caught.value.text()


@pytest.mark.parametrize("lives", [True, False], ids=["its supervisor lives", "it died"])
def test_where_locks_are_each_host_s_own_a_launcher_elsewhere_is_known_by_its_heartbeat(tmp_path, lives):
    """Nobody holds the lock here, and the clock of the other host is five minutes behind."""
    folder = RunFolder(path=tmp_path)
    told = {"host": "elsewhere", "launcher": {"pid": 7, "created": 1.0}, "agent": None, "job": "17"}
    folder.lock.write_text(json.dumps(told))
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.1):
            write_json(folder.supervisor, {"state": "runs", "time_unix": time.time() - 300})

    write_json(folder.supervisor, {"state": "runs", "time_unix": time.time() - 300})
    beating = threading.Thread(target=beat)
    if lives:
        beating.start()
    try:
        if lives:
            words = "pid 7 on elsewhere, of SLURM's job 17, still writes its heartbeat"
            with pytest.raises(ConfigError, match=words), hold_lock(folder, launcher_pid=os.getpid()):
                pass
        else:
            with hold_lock(folder, launcher_pid=os.getpid()):
                pass
    finally:
        ended.set()
        if lives:
            beating.join()


def test_a_folder_that_was_left_in_order_is_free_again(tmp_path):
    folder = RunFolder(path=tmp_path)
    for _ in range(2):
        with hold_lock(folder, launcher_pid=os.getpid()):
            pass
