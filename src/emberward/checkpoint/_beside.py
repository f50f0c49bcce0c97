"""The rank's side of the process that writes its saves: starting it, what the two say, and its death.

See `_writing.py` [Note: writer process].
"""

import contextlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from emberward.checkpoint._memory import SharedMemory
from emberward.checkpoint._names import SAVE_WRITER, step_name
from emberward.checkpoint._save import NUM_AGREEMENTS, Agree, Saved
from emberward.checkpoint._save_job import Answer, Done, Hurry, Line, SaveJob, Vote
from emberward.findings import Cause, EmberwardError, Finding, Severity

END_LIMIT_S = 5.0
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def writer_command(module: str = "emberward.checkpoint._writing") -> tuple[str, ...]:
    """The argv of a process that writes saves, but for its last three words.

    It imports what this process would, and nothing that ``site`` would start. Numpy's library of linear algebra, which
    no save needs, makes a thread for each processor unless it is told not to.
    """
    package = str(Path(__file__).parents[2])
    path = [*sys.path, *([] if package in sys.path else [package])]
    # An option that Python does not know means nothing to it: the name stands where a cut command line still shows it.
    program = (sys.executable, "-X", SAVE_WRITER, "-I", "-S", "-c", _START.format(module=module), json.dumps(path))
    return ("/usr/bin/env", "OPENBLAS_NUM_THREADS=1", *program)


def _plain(meta: Mapping[str, Any]) -> Any:
    """`meta` in JSON's own types. ``torch.__version__`` is a class of torch: unpickling it would import torch there."""
    return json.loads(json.dumps(dict(meta)))


class NotStarted(Exception):
    """The process could not be started; the words are the system's."""


class WriterProcess:
    """The process that writes this rank's saves; started with the first one, and again when it has died.

    `save` and `close` are for one thread, `hurry` for any.
    """

    def __init__(self, memory: SharedMemory, command: Sequence[str]) -> None:
        self._memory = memory
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Line | None = None
        self._lock = threading.Lock()
        self._is_out = False
        self._hurried: int | None = None
        self._has_spoken = False

    @property
    def pid(self) -> int | None:
        """The process's id, None while there is none."""
        return None if self._process is None else self._process.pid

    def save(self, save_job: SaveJob, agree: Agree) -> Saved:
        """The save. Blocks until it is whole.

        Raises what `save_parts` raises; K108 when the process died before the save was whole, on the other ranks K103;
        NotStarted, before the ranks were asked anything, also when the process ended without a word.
        """
        notices = self._bury(save_job)
        line = self._line or self._start()
        votes = _Votes(agree)
        try:
            with self._lock:
                patience_s = 0.0 if self._hurried == save_job.step else save_job.patience_s
                line.send_bytes(pickle.dumps(replace(save_job, meta=_plain(save_job.meta), patience_s=patience_s)))
                self._is_out = True
            while not isinstance(said := line.recv(), Done):
                assert isinstance(said, Vote)
                self._has_spoken = True
                line.send(Answer(are_well=votes.answer(said.is_well)))
        except (EOFError, OSError) as error:
            return self._after_death(save_job, votes, error)
        except Exception:  # what `meta` holds cannot be sent: the other ranks must not wait
            votes.answer(False)
            raise
        finally:
            with self._lock:
                self._is_out = False
        if votes.error is not None:
            raise votes.error
        if said.problem is not None:
            raise said.problem.error()
        assert said.saved is not None
        return replace(said.saved, notices=(*notices, *said.saved.notices))

    def hurry(self, step: int) -> None:
        """Somebody waits for the save of `step`: its rest is done at ordinary priority. Does not block."""
        with self._lock:
            self._hurried = step
            if self._is_out and self._line is not None:
                with contextlib.suppress(OSError):  # it has died: whoever waits for it learns that
                    self._line.send(Hurry())

    def close(self) -> None:
        """Ends the process, which must have no job. Blocks, at most END_LIMIT_S."""
        if self._process is None:
            return
        self._hang_up()

    def _bury(self, save_job: SaveJob) -> tuple[Finding, ...]:
        """Notices a process that died since the last save: nothing was lost, and this save gets another one."""
        if self._process is None or self._process.poll() is None:
            return ()
        pid, code = self._process.pid, self._hang_up()
        what = (
            f"the process that writes the saves of rank {save_job.rank} died between two saves; another one was started"
        )
        return (replace(_died(save_job, pid, code).to_finding(), severity=Severity.WARNING, message=what),)

    def _start(self) -> Line:
        ours, theirs = socket.socketpair()
        try:
            descriptors = (theirs.fileno(), self._memory.descriptor)
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until it has said that they are not for it
            try:
                self._process = subprocess.Popen(
                    (*self._command, str(os.getpid()), *map(str, descriptors)),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=descriptors,
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except OSError as error:
            ours.close()
            raise NotStarted(str(error)) from error
        finally:
            theirs.close()
        self._line, self._has_spoken = Line(ours.detach()), False
        return self._line

    def _hang_up(self) -> int:
        """How the process ended, as `subprocess` has it."""
        assert self._process is not None
        process, line, self._process, self._line = self._process, self._line, None, None
        if line is not None:
            line.close()
        try:
            return process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()  # it stands in a call of a file system that does not answer; nothing more can be done
            return -signal.SIGKILL

    def _after_death(self, save_job: SaveJob, votes: "_Votes", error: Exception) -> Saved:
        """What the save came to when the process died: whole, if the ranks had agreed on that."""
        assert self._process is not None
        pid, code = self._process.pid, self._hang_up()
        if not self._has_spoken:  # it cannot work here: another one would not either
            raise NotStarted(f"it ended with {_how(code)} before its first word") from error
        if not votes.are_all_cast:
            votes.answer(False)
        if votes.is_whole:
            finding = replace(
                _died(save_job, pid, code).to_finding(),
                severity=Severity.WARNING,
                message=f"the save of step {save_job.step} is whole, but the process that wrote it for "
                f"rank {save_job.rank} died after that",
            )
            path = save_job.root / step_name(save_job.step)
            return Saved(path=path, step=save_job.step, written_bytes=0, notices=(finding,))
        raise _died(save_job, pid, code) from error


class _Votes:
    """The agreements of one save."""

    def __init__(self, agree: Agree) -> None:
        self._agree = agree
        self._num_won = 0
        self._is_lost = False
        self.error: Exception | None = None

    def answer(self, is_well: bool) -> bool | None:
        """Whether every rank was well; None when they could not agree, and `error` is why. Blocks."""
        try:
            are_well = self._agree(is_well)
        except Exception as error:  # noqa: BLE001 (raised when the writer has given up)
            self.error, self._is_lost = error, True
            return None
        self._num_won += are_well
        self._is_lost = self._is_lost or not are_well
        return are_well

    @property
    def are_all_cast(self) -> bool:
        """Whether no other rank waits for a vote of this one."""
        return self._is_lost or self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether the ranks agreed to the end."""
        return self._num_won == NUM_AGREEMENTS


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _died(save_job: SaveJob, pid: int, code: int) -> EmberwardError:
    return EmberwardError(
        f"the process that writes the saves of rank {save_job.rank} died",
        code="K108",
        where=f"process {pid}, save of step {save_job.step}",
        expected="a process that lives as long as its rank",
        found=_how(code),
        next="if nobody killed it, look for the out-of-memory killer: dmesg | grep -i killed",
        cause=Cause.KILLED if code == -signal.SIGKILL else Cause.EXCEPTION,
        ranks=(save_job.rank,),
    )
