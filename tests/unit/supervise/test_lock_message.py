"""A run's folder has one launcher: what the second one is told, and that a folder in rest tells nothing."""

import os

import pytest

from emberward.findings import ConfigError
from emberward.report import RunFolder
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


def test_a_folder_that_was_left_in_order_is_free_again(tmp_path):
    folder = RunFolder(path=tmp_path)
    for _ in range(2):
        with hold_lock(folder, launcher_pid=os.getpid()):
            pass
