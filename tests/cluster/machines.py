"""Hosts of one machine that `emberward train --hosts` trains on, and what may happen to them."""

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

from cluster.hosts import Hosts

CONTROL_GROUPS = Path("/sys/fs/cgroup")
CLOCK = Path(__file__).with_name("clock_ahead.c")
PERIOD_US = 20_000
"""Short beside a step: a processor that is slow, not one that stands still now and then."""
SHARES = 102_400

# A host of its own: network, name, the word of when it booted, and its clock. One that is off answers as ssh would.
_LAUNCH = """#!/bin/sh
host=$1; shift
[ -e {folder}/off-$host ] && { echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255; }
[ -e {folder}/clock-$host ] && set -- env LD_PRELOAD={folder}/clock.so CLOCK_AHEAD_S=$(cat {folder}/clock-$host) "$@"
exec nsenter --net=/run/netns/$host unshare -u -m sh -c '
    hostname "$0" && mount --bind {folder}/boot-$0 /proc/sys/kernel/random/boot_id && exec "$@"' $host "$@"
"""


class Machines:
    """Hosts that `emberward train` reaches through a launcher, and what may happen to them."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self.folder = folder
        self.launch = folder / "launch.sh"
        self.launch.write_text(_LAUNCH.replace("{folder}", str(folder)))
        self.launch.chmod(0o755)
        self._slowed: list[Path] = []
        for name in hosts.names:
            self.boot(name)

    def boot(self, name: str) -> None:
        (self.folder / f"boot-{name}").write_text(f"{uuid.uuid4()}\n")

    def set_clock(self, name: str, ahead_s: int) -> None:
        """What is started on the host from now on sees a time of day that is off by so much."""
        words = ["cc", "-shared", "-fPIC", "-o", str(self.folder / "clock.so"), str(CLOCK), "-ldl"]
        subprocess.run(words, check=True, timeout=60)
        (self.folder / f"clock-{name}").write_text(f"{ahead_s}")

    def processes(self, name: str) -> list[int]:
        """Every process in the host's network namespace."""
        inode = Path(f"/run/netns/{name}").stat().st_ino
        found = []
        for path in Path("/proc").glob("[0-9]*/ns/net"):
            try:
                if path.stat().st_ino == inode:
                    found.append(int(path.parts[2]))
            except OSError:
                continue
        return found

    def kill_all(self, name: str) -> None:
        for pid in self.processes(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def train(self, recipe: Path, count: int, *more: str) -> subprocess.Popen:
        """``emberward train`` on the first `count` hosts, in the recipe's folder."""
        named = [f"{name}={self.hosts.address(index)}" for index, name in enumerate(self.hosts.names[:count])]
        words = [
            sys.executable, "-m", "emberward", "train", str(recipe), "--hosts", ",".join(named),
            "--launcher", f"{self.launch} {{host}}", "--act-after", "1", "--restarts", "2", "--grace-s", "30",
            "--runs", str(recipe.parent / "runs"), "--no-check", *more,
        ]  # fmt: skip
        with (recipe.parent / "train.log").open("ab") as log:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"},
            )  # fmt: skip

    def set_processor(self, name: str, percent: int) -> None:
        """Gives all that runs on the host now so much of one processor, as a control group holds it to.

        Of that it is sure, whatever else the machine does: its weight is SHARES, where a process has 1,024.
        """
        is_old = (CONTROL_GROUPS / "cpu" / "cgroup.procs").exists()
        group = CONTROL_GROUPS / ("cpu" if is_old else "") / name
        group.mkdir(exist_ok=True)
        if group not in self._slowed:
            self._slowed.append(group)
        quota_us = PERIOD_US * percent // 100
        if is_old:
            (group / "cpu.shares").write_text(f"{SHARES}")
            (group / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
            (group / "cpu.cfs_quota_us").write_text(f"{quota_us}")
        else:
            (group / "cpu.weight").write_text("10000")
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        for pid in self.processes(name):
            with contextlib.suppress(OSError):
                (group / "cgroup.procs").write_text(f"{pid}")

    def quicken_processor(self, name: str) -> None:
        """Undoes `set_processor`."""
        for group in [group for group in self._slowed if group.name == name]:
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    (group.parent / "cgroup.procs").write_text(pid)

    def close(self) -> None:
        """Takes everything away; never raises."""
        self.hosts.close()
        for group in self._slowed:
            with contextlib.suppress(OSError):
                group.rmdir()
