"""Which errors of an examined script come from the limits of the examination, and which are its own."""

import errno
import socket
import subprocess

import pytest

from emberward.cli._console import Screen
from emberward.cli._examine import ExamineOptions, examine
from emberward.sources.script._guard import RefusedError, limit_behind


def behind(error: BaseException) -> BaseException:
    """An error that a script raises while it handles `error`."""
    try:
        try:
            raise error
        except (OSError, ValueError, subprocess.CalledProcessError):
            raise RuntimeError("no weights") from None
    except RuntimeError as raised:
        return raised


LIMITS = [
    RefusedError("refused while the script is examined: connect 192.0.2.1:9"),
    socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
    OSError(errno.ENETUNREACH, "Network is unreachable"),
    OSError(errno.EOVERFLOW, "Value too large for defined data type", "checkpoints"),
    OSError(errno.EROFS, "Read-only file system", "/mnt/data/x"),
    subprocess.CalledProcessError(128, ["git", "fetch"]),
]
OWN = [
    ValueError("bad shard"),
    PermissionError(errno.EACCES, "Permission denied", "/root/x"),
    OSError(errno.EROFS, "Read-only file system", "/cdrom/x"),
    OSError(errno.ENOENT, "No such file or directory", "x"),
]


@pytest.mark.parametrize("error", LIMITS, ids=repr)
def test_a_limit_of_the_examination_is_found_behind_what_it_led_to(error):
    assert limit_behind(error, ("/mnt/data",)) is not None
    assert limit_behind(behind(error), ("/mnt/data",)) is not None


def test_an_error_in_what_stands_in_for_torch_is_ours_and_ends_the_check(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("pass\n")

    def start(folder, job, environment):
        end = {"rank": 0, "status": "ours", "error": "KeyError: 3", "site": "train.py:1", "traceback": "in _group.py"}
        answer = {"halt": None, "ends": [end], "waiting": {}, "refused": [], "num_sleeps": 0, "seconds": 0.0}
        folder.write_result({**answer, "no_sandbox": None})
        return ""

    options = ExamineOptions(words=("train.py",), num_ranks=1, max_steps=None, time_limit_s=1.0, environment={})
    with pytest.raises(RuntimeError, match=r"rank 0 was examined at train\.py:1: KeyError: 3\nin _group\.py"):
        examine(options, Screen(is_json=True), start=start)


@pytest.mark.parametrize("error", OWN, ids=repr)
def test_an_error_of_the_script_is_its_own(error):
    assert limit_behind(error, ("/mnt/data",)) is None
    assert limit_behind(behind(error), ("/mnt/data",)) is None
