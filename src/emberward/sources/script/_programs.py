"""Helper programs of an examined script: ``nvidia-smi`` is answered, and some that only read may run. No torch.

[Note: programs without a view]
Where the kernel gives no view of the machine, a program would write past the layer of files. So it is refused, but for
the few below: forms of theirs that read and write nothing. What they see is the disk, not the layer. git takes no lock
of its own accord when GIT_OPTIONAL_LOCKS is 0 (git(1)).
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emberward.sources.script._file_layer import real

READERS = ("arch", "df", "free", "id", "lscpu", "nproc", "nvidia-smi", "uname", "which", "whoami")
"""Programs that read, whatever their arguments; nvidia-smi is ours (`nvidia_smi.py`)."""
_GIT_READS = ("--version", "describe", "log", "ls-files", "merge-base", "rev-list", "rev-parse", "show", "status")
_GIT_READS_WITH = {
    "branch": {"--show-current", "-a", "-r", "-v", "-vv", "--list"},
    "remote": {"-v"},
    "tag": {"-l", "--list"},
}
"""Of these only the listed options."""
_OF_A_SHELL = set(";&|<>`$(){}*?~#!\n\\")
LOCKS, NO_LOCKS = "GIT_OPTIONAL_LOCKS", "0"
"""What `child.py` sets for the ranks."""


def provide(folder: Path, *, num_devices: int) -> None:
    """Writes the programs that stand in for others into `folder`."""
    folder.mkdir()
    words = shlex.join([sys.executable, "-IS", str(Path(__file__).with_name("nvidia_smi.py")), str(num_devices)])
    program = folder / "nvidia-smi"
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    program.chmod(0o755)


def only_reads(event: str, args: Sequence[Any], *, own_folder: str) -> bool:
    """Whether the program that an audit event is about to start only reads, and sees the folder that the script means.

    `own_folder`: where `provide` wrote.
    """
    if event == "os.system":
        return _reads(_split(os.fsdecode(args[0])), own_folder) and _is_at(None)
    if event not in ("subprocess.Popen", "os.posix_spawn"):
        return False
    words = [os.fsdecode(word) for word in args[1]]
    if len(words) == 3 and Path(words[0]).name == "sh" and words[1] == "-c":
        words = _split(words[2])
    folder, environment = (args[2], args[3]) if event == "subprocess.Popen" else (None, args[2])
    has_no_locks = environment is None or environment.get(LOCKS) == NO_LOCKS
    return _reads(words, own_folder) and has_no_locks and _is_at(folder)


def _is_at(folder: Any) -> bool:
    """Whether the folder in which the program starts is on the disk what it is in the layer of files."""
    if folder is None:
        return bool(str(Path.cwd()) == real.getcwd())
    try:
        return Path(os.fsdecode(folder)).is_dir() and bool(real.listdir(folder))
    except OSError:
        return False


def _split(line: str) -> list[str]:
    """The words of a shell's line; none when it is more than a command."""
    return [] if _OF_A_SHELL & set(line) else shlex.split(line)


def _reads(words: Sequence[str], own_folder: str) -> bool:
    if not words:
        return False
    name = Path(words[0]).name
    if name == "nvidia-smi":
        return words[0] == name or words[0].startswith(own_folder)
    return name in READERS or (name == "git" and _git_reads(words[1:]))


def _git_reads(words: Sequence[str]) -> bool:
    left = list(words)
    while left and (left[0] in ("-C", "--no-pager") or left[0].startswith(("--git-dir=", "--work-tree="))):
        del left[: 2 if left[0] == "-C" else 1]
    if not left or any(word.startswith(("--output", "--ext-diff")) for word in left):
        return False
    command, rest = left[0], left[1:]
    if command == "config":
        return bool(rest) and rest[0] in ("--get", "--get-all", "--list", "-l")
    if command == "remote" and rest[:1] == ["get-url"]:
        return True
    return command in _GIT_READS or (command in _GIT_READS_WITH and set(rest) <= _GIT_READS_WITH[command])
