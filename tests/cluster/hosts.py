"""Hosts as network namespaces of this machine, each with two links: the job's, and one for control.

Each namespace has a name of its own and a host name of its own. The root namespace has an address on the control link
alone. Everything is named after this process, so that two sessions do not meet, and is taken away by `close`.
"""

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ports import reserve_network

LIMIT_S = 20.0
_NUMBERS = itertools.count()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=LIMIT_S)


class Hosts:
    """`names[i]` has 10.77.N.i+1 on the job's link and 10.78.N.i+1 on the control link; N is nobody else's."""

    def __init__(self, count: int) -> None:
        # A namespace whose last process has just ended is taken away a little later: names are used once.
        number = next(_NUMBERS)
        self._tag = f"{os.getpid() % 10000}{'abcdefghij'[number % 10]}"
        self._net = reserve_network()
        self.names = [f"eh{self._tag}n{number}" for number in range(1, count + 1)]
        self.control = f"10.78.{self._net}.254"
        self._processes: list[subprocess.Popen] = []
        self._tables: set[str] = set()

    def address(self, index: int) -> str:
        """The host's address on the job's link."""
        return f"10.77.{self._net}.{index + 1}"

    def open(self) -> None:
        """Makes bridges, namespaces and links."""
        for kind in ("j", "c"):
            ip("link", "add", f"eb{kind}{self._tag}", "type", "bridge")
            ip("link", "set", f"eb{kind}{self._tag}", "up")
        ip("addr", "add", f"{self.control}/24", "dev", f"ebc{self._tag}")
        for index, name in enumerate(self.names):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            for kind, device, net in (("j", "eth0", 77), ("c", "eth1", 78)):
                end = f"ev{kind}{self._tag}{index}"
                ip("link", "add", end, "type", "veth", "peer", "name", device, "netns", name)
                ip("link", "set", end, "master", f"eb{kind}{self._tag}", "up")
                ip("-n", name, "addr", "add", f"10.{net}.{self._net}.{index + 1}/24", "dev", device)
                ip("-n", name, "link", "set", device, "up")

    def start(self, index: int, words: Sequence[str], *, log: Path, **environment: str) -> subprocess.Popen:
        """Starts a command on a host; its output goes to `log`."""
        inside = ["nsenter", f"--net=/run/netns/{self.names[index]}", "unshare", "-u", "sh", "-c",
                  'hostname "$0"; exec "$@"', f"node{index + 1}", *words]  # fmt: skip
        with log.open("wb") as file:
            process = subprocess.Popen(
                inside, stdout=file, stderr=file, env={**os.environ, **environment}, start_new_session=True
            )
        self._processes.append(process)
        return process

    def cut(self, index: int) -> None:
        """Takes the host's end of the job's link down; the control link stays."""
        ip("link", "set", f"evj{self._tag}{index}", "down")

    def lose(self, index: int) -> None:
        """Takes both of the host's links down, as a host that lost its power: nobody is told of a connection's end."""
        for kind in ("j", "c"):
            ip("link", "set", f"ev{kind}{self._tag}{index}", "down")

    def slow_down(self, index: int, rate: str = "40mbit") -> None:
        """Lets the host send no more than `rate` on the job's link. See tc-tbf(8)."""
        self._tc(index, "replace", "tbf", "rate", rate, "burst", "64k", "latency", "300ms")

    def speed_up(self, index: int) -> None:
        """Undoes `slow_down`."""
        self._tc(index, "del")

    def send_single_packets(self) -> None:
        """Lets no host hand a packet larger than the wire's to its link: what is dropped is one packet then."""
        for name in self.names:
            ip("-n", name, "link", "set", "dev", "eth0", "gso_max_size", "1500", "gso_max_segs", "1")

    def drop(self, index: int, permille: int) -> None:
        """Drops so many of a thousand packets that the host sends on the job's link, in the switch.

        Not on the host itself: what its own filter refuses the host's TCP never takes for sent.
        """
        table, end = f"el{self._tag}", f"evj{self._tag}{index}"
        rule = f'iifname "{end}" numgen random mod 1000 < {permille} drop'
        text = f"table bridge {table} {{\nchain way {{\ntype filter hook forward priority 0\n{rule}\n}}\n}}\n"
        subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True, capture_output=True, timeout=LIMIT_S)
        self._tables.add(table)

    def _tc(self, index: int, verb: str, *words: str) -> None:
        command = ["nsenter", f"--net=/run/netns/{self.names[index]}", "tc", "qdisc", verb, "dev", "eth0", "root"]
        subprocess.run([*command, *words], check=True, capture_output=True, timeout=LIMIT_S)

    def close(self) -> None:
        """Ends what was started and takes everything away; never raises."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LIMIT_S)
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(LIMIT_S)
        for table in self._tables:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["nft", "delete", "table", "bridge", table], capture_output=True, timeout=LIMIT_S)
        for name in self.names:
            with contextlib.suppress(subprocess.SubprocessError):
                ip("netns", "del", name)
        for kind in ("j", "c"):
            with contextlib.suppress(subprocess.SubprocessError):
                ip("link", "del", f"eb{kind}{self._tag}")
