"""Runs a round of tests: starts every member, bounds it, reads how it ended, and leaves no process behind.

[Note: how a member is started]
Here, whatever its host is called; or on its host by a launcher's words, as ``LAUNCHER env ... timeout ... COMMAND``.
Such a member is bounded by ``timeout`` there too, so that a lost connection leaves nothing. Each works in an empty
folder of its own that is removed; here it is ended when that folder holds more than MAX_BYTES.
"""

import contextlib
import fcntl
import functools
import itertools
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from emberward.doctor._fleet import Fleet, Result, Set, SetOutcome
from emberward.doctor._probe import End, Member, Probe, read_member
from emberward.processes import ProcessTree, end

MAX_BYTES = 1 << 30
AFTER_FAILURE_S = 3.0
"""Once a member has failed or said that it is busy, the others get so long: they may wait for it for ever."""
MAX_AT_ONCE = 64
"""Members that run here at the same time under the local launcher."""
LEFT_LIMIT_S = 5.0
FIRST_PORT, NUM_PORTS = 23_000, 9_000


Reach = Callable[[str, Sequence[str]], tuple[str, ...]]
"""The argv that starts words on a host."""


@dataclass
class Runner:
    """Starts probes on sets of a fleet. `run` blocks; `close` the tree afterwards.

    `reach`: how a host is reached; None starts all members here. `limit_s` bounds each member. `environment`: of the
    person who started us. `addresses`: of hosts on the job's link, where their names are not. `max_bytes`: what a
    member may write into its folder.
    """

    fleet: Fleet
    tree: ProcessTree
    reach: Reach | None
    environment: Mapping[str, str]
    limit_s: float
    addresses: Mapping[str, str] = field(default_factory=dict)
    max_bytes: int = MAX_BYTES
    left_behind: int = 0
    _ports: "itertools.count[int]" = field(default_factory=lambda: itertools.count(int(time.monotonic() * 10)))

    def run(self, probe: Probe, sets: Sequence[Set], *, until_s: float) -> list[Result]:
        """One result for each set that was tested, in order; those that would begin after `until_s` are left out.

        Sets are disjoint and run at once, as many as MAX_AT_ONCE members allow. `until_s`: by the monotonic clock.
        """
        found: list[Result] = []
        rest = list(sets)
        while rest and time.monotonic() < until_s:
            wave = [rest.pop(0)]
            while rest and sum(map(len, wave)) + len(rest[0]) <= self._at_once():
                wave.append(rest.pop(0))
            with ThreadPoolExecutor(max_workers=len(wave)) as pool:
                tested = pool.map(lambda devices: self._test(probe, devices, until_s), wave)
                found += [result for result in tested if result is not None]
            self._end_leftovers()
        return found

    def _at_once(self) -> int:
        return MAX_AT_ONCE if self.reach is None else 4 * MAX_AT_ONCE

    def _test(self, probe: Probe, devices: Set, until_s: float) -> Result | None:
        """None when the budget ended it: nothing follows from that."""
        began_s = time.monotonic()
        limit_s = max(min(self.limit_s, until_s - began_s), 0.1)
        stop = _Stop()
        folder = self.tree.folder("emberward-probe-")
        with self._port() as port, ThreadPoolExecutor(max_workers=len(devices)) as pool:
            commands = self._commands(probe, devices, port)
            members = list(
                pool.map(
                    lambda item: self._member(item[0], item[1], stop, limit_s, folder),
                    zip(commands, devices, strict=True),
                )
            )
        shutil.rmtree(folder, ignore_errors=True)
        self.tree.forget_folder(folder)
        if limit_s < self.limit_s and any(member.end is End.LATE for member in members):
            return None
        return _result(devices, members, seconds=time.monotonic() - began_s)

    def _commands(self, probe: Probe, devices: Set, port: int) -> list[tuple[list[str], dict[str, str]]]:
        """For each member its command and the variables of the contract."""
        hosts = [self.fleet.devices[number].host for number in devices]
        found = []
        for rank, number in enumerate(devices):
            device = self.fleet.devices[number]
            mine = [n for n in devices if self.fleet.devices[n].host == device.host]
            variables = {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(devices)),
                "LOCAL_RANK": str(mine.index(number)),
                "MASTER_ADDR": "127.0.0.1" if self.reach is None else self.addresses.get(hosts[0], hosts[0]),
                "MASTER_PORT": str(port),
                "EMBERWARD_HOST": device.host,
                "EMBERWARD_DEVICES": ",".join(str(self.fleet.devices[n].index) for n in mine),
            }
            found.append((self._command(probe, device.host, variables), variables))
        return found

    def _command(self, probe: Probe, host: str, variables: Mapping[str, str]) -> list[str]:
        if self.reach is None:
            return list(probe.command)
        inner = [
            "env",
            *(f"{name}={value}" for name, value in variables.items()),
            "timeout",
            "--kill-after=5",
            f"{self.limit_s:g}",
            *probe.command,
        ]
        return list(self.reach(host, inner))

    @contextlib.contextmanager
    def _port(self) -> Iterator[int]:
        """A port that no other test of this examination uses; under the local launcher one that is free, nor another's.

        Between the trial and the member that listens a second examination could take it, whose members would meet ours:
        so it is locked until the test has ended, among all examinations of this user on this machine.
        """
        if self.reach is not None:
            yield FIRST_PORT + next(self._ports) % NUM_PORTS
            return
        ports = (FIRST_PORT + next(self._ports) % NUM_PORTS for _ in range(NUM_PORTS))
        port = next(port for port in ports if _is_free(port) and _is_locked_now(port))
        try:
            yield port
        finally:
            fcntl.lockf(_port_locks(), fcntl.LOCK_UN, 1, port)

    def _member(
        self,
        command: tuple[list[str], dict[str, str]],
        number: int,
        stop: "_Stop",
        limit_s: float,
        shared: Path,
    ) -> Member:
        """Runs one member to its end. Never raises for what the member does."""
        words, variables = command
        folder = shared / str(number)
        folder.mkdir()
        is_remote = self.reach is not None

        def watch(passed_s: float) -> None:
            if stop.is_over():
                raise _Stopped(End.STOPPED)
            if int(passed_s * 10) % 10 == 0 and _bytes_in(folder) > self.max_bytes:
                raise _Stopped(End.FULL)

        environment = {**self.environment, **(variables if not is_remote else {})}
        try:
            done = self.tree.run(
                words,
                environment=environment,
                timeout_s=limit_s + (10.0 if is_remote else 0.0),
                folder=folder,
                on_wait=watch,
                every_s=0.1,
            )
        except _Stopped as why:
            member = Member(end=why.end, text=why.end.value)
        except OSError as error:
            member = Member(end=End.EXIT, text=f"cannot be started: {error.strerror or error}")
        else:
            member = read_member(code=done.code, out=done.out, errors=done.errors, limit_s=limit_s, is_remote=is_remote)
        if member.end is not End.OK:
            stop.after(AFTER_FAILURE_S)
        return member

    def _end_leftovers(self) -> None:
        """Ends what members left running, sessions of their own included."""
        left = self.tree.processes()
        if left:
            self.left_behind += len(left)
            end(left, limit_s=LEFT_LIMIT_S)


class _Stopped(Exception):
    """A member is to be ended."""

    def __init__(self, how: End) -> None:
        super().__init__(how.value)
        self.end = how


class _Stop:
    """When the members of a test are to be ended, because one has failed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_s: float | None = None

    def after(self, seconds: float) -> None:
        """A member has failed now."""
        with self._lock:
            self._at_s = self._at_s or time.monotonic() + seconds

    def is_over(self) -> bool:
        """Whether the others have had their time."""
        return self._at_s is not None and time.monotonic() >= self._at_s


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in itertools.islice(folder.rglob("*"), 10_000):
        with contextlib.suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total


@functools.cache
def _port_locks() -> int:
    """The file whose n-th byte is port n. Opened once: closing any handle of it would release the process's locks."""
    path = Path(tempfile.gettempdir(), f"emberward-doctor-ports-{os.getuid()}")
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _is_locked_now(port: int) -> bool:
    try:
        fcntl.lockf(_port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.socket() as trial:
        trial.bind(("127.0.0.1", port))
        return True
    return False


def _result(devices: Set, members: Sequence[Member], *, seconds: float) -> Result:
    busy = frozenset(n for n, member in zip(devices, members, strict=True) if member.end is End.BUSY)
    good = [member for member in members if member.end is End.OK]
    outcome = SetOutcome.PASS if len(good) == len(members) else SetOutcome.BUSY if busy else SetOutcome.FAIL
    values = {n: member.value for n, member in zip(devices, members, strict=True) if member.value is not None}
    innocent = (End.OK, End.BUSY, End.STOPPED)
    return Result(
        devices=devices,
        outcome=outcome,
        seconds=seconds,
        values=values,
        unit=next((member.unit for member in members if member.unit), ""),
        higher_is_better=all(member.higher_is_better for member in members),
        busy=busy,
        failed=frozenset(n for n, m in zip(devices, members, strict=True) if m.end not in innocent),
        reports={n: member.text for n, member in zip(devices, members, strict=True)},
        details={n: member.detail for n, member in zip(devices, members, strict=True) if member.end is End.OK},
        links=next((member.links for member in members if member.links is not None), None),
        tries=min((member.tries for member in good), default=1),
    )
