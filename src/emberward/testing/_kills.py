"""Kills a verb of Emberward at a moment and says what is left of it: processes, temporary folders, rings.

[Note: what belongs to a killed verb]
Everything that it starts inherits MARK in its environment, and finds its folder for temporary files in the victim's
own. A ring folder is known by its owner, one of the processes that were seen with the mark. So other jobs of the same
user and machine are never taken for what is left.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from emberward.processes import ProcessId, identify, is_alive, send
from emberward.sources.ring import SHARED_MEMORY

MARK = "EMBERWARD_KILLED_IN_A_TEST"
POLL_S = 0.02
WAIT_LIMIT_S = 90.0
"""How long a verb may take to start its processes, and how long its end may take: machines are busy."""
HANGS = """
import subprocess, time
for number in range(2):
    subprocess.Popen(["sleep", "1000"], start_new_session=number == 1)
time.sleep(1000)
"""
"""Stands for torch: whoever imports it starts two processes, one in a session of its own, and goes no further."""
SCRIPT = "import torch\n"
SMALL = ("model.num_layers=2", "model.hidden=32", "model.seq_len=32", "batch.global_batch=8", "batch.micro_batch=2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When to kill: `delay_s` after `num_processes` of the verb were there at once."""

    num_processes: int
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What a kill left. `was_up`: the verb ran until the kill. `most`: processes that it had at once before."""

    was_up: bool
    most: int
    seconds: float
    processes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    rings: tuple[str, ...] = ()
    others: tuple[str, ...] = field(default=())
    """What has ended though it was not the verb's: the process that it examined."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left, and nothing else was ended."""
        return not (self.processes or self.folders or self.rings or self.others)


def verbs() -> tuple[str, ...]:
    """The verbs that can be killed, by name."""
    return ("run", "incident", "check recipe", "check script", "train", "explain")


def prepare(place: Path, environment: Mapping[str, str], *, is_torch_real: bool) -> dict[str, str]:
    """What is added to the environment of a verb that is killed in `place`; writes the programs that it runs."""
    (place / "tmp").mkdir(parents=True)
    (place / "text").mkdir()
    (place / "program").mkdir()
    (place / "program" / "script.py").write_text(SCRIPT, encoding="utf-8")
    (place / "hangs.py").write_text(HANGS, encoding="utf-8")
    for number in range(6):
        lines = [f"line {line} of file {number} says {line * number % 97}" for line in range(60)]
        (place / "text" / f"{number}.txt").write_text("\n".join(lines), encoding="utf-8")
    # Torch keeps compiled code for the next process, among the temporary files unless told where. That is to stay.
    cache = str(place / "cache")
    added = {"TMPDIR": str(place / "tmp"), "TORCHINDUCTOR_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    added[MARK] = secrets.token_hex(8)
    if not is_torch_real:
        stub = place / "stub" / "torch"
        (stub / "distributed" / "run").mkdir(parents=True)
        for folder in (stub, stub / "distributed", stub / "distributed" / "run"):
            (folder / "__init__.py").write_text(HANGS if folder is stub else "", encoding="utf-8")
        added["PYTHONPATH"] = os.pathsep.join(filter(None, (str(stub.parent), environment.get("PYTHONPATH"))))
    return added


def words_of(verb: str, place: Path, *, examined: int) -> tuple[str, ...]:
    """The command line of a verb in `place`, after ``emberward``. `examined`: the process that ``explain`` reads."""
    small = (*SMALL, "layout.dp=1", "layout.tp=1", "layout.pp=2")
    match verb:
        case "run":
            return ("run", "--grace-s", "1", "--", sys.executable, "-S", "hangs.py")
        case "incident":
            return ("incident", "run", "bloom-limbo", "--limit-s", "600")
        case "check recipe":
            return ("check", "bloom_tiny", *small)
        case "check script":
            return ("check", "--nproc", "2", "--", "program/script.py")
        case "train":
            data = (f"data.train={place / 'text'}", "data.held_out=0.2", "optim.warmup_samples=0", "steps=2000")
            return ("train", "bloom_tiny", *small, *data, "--no-check", "--grace-s", "5")
        case "explain":
            return ("explain", str(examined))
    raise ValueError(verb)


class Victim:
    """A verb that runs in `place`, to be killed."""

    def __init__(self, verb: str, place: Path, environment: Mapping[str, str], *, is_torch_real: bool) -> None:
        added = prepare(place, environment, is_torch_real=is_torch_real)
        self._place = place
        self._mark = f"{MARK}={added[MARK]}".encode()
        self._seen: set[ProcessId] = set()
        hangs = "import time; print(flush=True); time.sleep(1000)"
        ranked = {**environment, "RANK": "0", "WORLD_SIZE": "1"}
        command = [sys.executable, "-S", "-c", hangs]
        self._examined = subprocess.Popen(command, env=ranked, stdout=subprocess.PIPE, start_new_session=True)
        with (place / "said.txt").open("wb") as said:
            self.process = subprocess.Popen(
                (sys.executable, "-m", "emberward", *words_of(verb, place, examined=self._examined.pid)),
                cwd=place,
                env={**environment, **added},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def marked(self) -> dict[int, str]:
        """The living processes of the verb: pid and command line."""
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            with contextlib.suppress(OSError):
                if self._mark in (folder / "environ").read_bytes().split(b"\0"):
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    process = identify(int(folder.name))
                    if process is not None:
                        found[process.pid] = words[:200]
                        self._seen.add(process)
        return found

    def kill(self, moment: Moment, number: signal.Signals) -> Killed:
        """Waits for the moment, kills, and says what is left. Blocks, at most three times WAIT_LIMIT_S."""
        most = 0
        end_s = time.monotonic() + WAIT_LIMIT_S
        while most < moment.num_processes and self.process.poll() is None and time.monotonic() < end_s:
            most = max(most, len(self.marked()))
            time.sleep(POLL_S)
        end_s = time.monotonic() + moment.delay_s
        while (left_s := end_s - time.monotonic()) > 0 and self.process.poll() is None:
            most = max(most, len(self.marked()))
            time.sleep(min(left_s, POLL_S))
        was_up = self.process.poll() is None
        began_s = time.monotonic()
        self.process.send_signal(number)
        return self._left(was_up=was_up, most=most, began_s=began_s)

    def _left(self, *, was_up: bool, most: int, began_s: float) -> Killed:
        processes, folders, rings = self.marked(), self._folders(), self._rings()
        while (processes or folders or rings or self.process.poll() is None) and (
            time.monotonic() - began_s < WAIT_LIMIT_S
        ):
            time.sleep(POLL_S)
            processes, folders, rings = self.marked(), self._folders(), self._rings()
        return Killed(
            was_up=was_up,
            most=most,
            seconds=round(time.monotonic() - began_s, 2),
            processes=tuple(f"{pid} {words}" for pid, words in processes.items()),
            folders=folders,
            rings=rings,
            others=() if self._examined.poll() is None else ("the examined process was ended",),
        )

    def _folders(self) -> tuple[str, ...]:
        """What is left in the folder for temporary files: folders, sockets and files."""
        return tuple(sorted(path.name for path in (self._place / "tmp").iterdir()))

    def _rings(self) -> tuple[str, ...]:
        pids = {self.process.pid, *(process.pid for process in self._seen)}
        found = []
        for owner in (SHARED_MEMORY / f"emberward-{os.getuid()}").glob("*/owner.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                if json.loads(owner.read_text(encoding="utf-8"))["pid"] in pids:
                    found.append(owner.parent.name)
        return tuple(found)

    def close(self) -> None:
        """Ends whatever is left, and the process that was examined."""
        self.marked()
        for process in self._seen:
            if is_alive(process):
                send(process, signal.SIGKILL)
        for each in (self.process, self._examined):
            each.kill()
            each.wait(WAIT_LIMIT_S)
        if self._examined.stdout is not None:
            self._examined.stdout.close()


def kill_verb(
    verb: str,
    place: Path,
    *,
    environment: Mapping[str, str],
    moment: Moment,
    number: signal.Signals,
    is_torch_real: bool = False,
) -> Killed:
    """What a kill of `verb` left. `place` does not exist yet; everything that was left is ended afterwards."""
    victim = Victim(verb, place, environment, is_torch_real=is_torch_real)
    try:
        return victim.kill(moment, number)
    finally:
        victim.close()


MOST: Mapping[str, int] = {
    "run": 6, "incident": 19, "check recipe": 5, "check script": 5, "train": 6, "explain": 3
}  # fmt: skip
"""About as many processes as each verb has at once with the stub of torch, itself and guardians included."""
SIGNALS: Sequence[signal.Signals] = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
