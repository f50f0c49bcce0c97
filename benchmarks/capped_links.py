"""Ranks as hosts with links of a capped rate: one network namespace each, on a bridge. Needs root, `ip` and `tc`."""

import ctypes
import os
import subprocess
from types import TracebackType
from typing import Self

CLONE_NEWNET = 0x40000000
"""As <sched.h> has it."""


class CappedLinks:
    """`num_ranks` namespaces whose way out sends at most `mbit` megabits a second, while it is open."""

    def __init__(self, num_ranks: int, mbit: int) -> None:
        self._mbit = mbit
        self._bridge = f"ew{os.getpid()}"
        self._names = [f"{self._bridge}-{rank}" for rank in range(num_ranks)]

    def __enter__(self) -> Self:
        _ip(f"link add {self._bridge} type bridge")
        _ip(f"link set {self._bridge} up")
        for rank, name in enumerate(self._names):
            _ip(f"netns add {name}")
            _ip(f"link add {name} type veth peer name eth0 netns {name}")
            _ip(f"link set {name} master {self._bridge} up")
            _ip(f"-n {name} addr add 10.78.0.{rank + 1}/24 dev eth0")
            _ip(f"-n {name} link set eth0 up")
            _ip(f"-n {name} link set lo up")
            shape = f"tc -n {name} qdisc add dev eth0 root tbf rate {self._mbit}mbit burst 256k latency 300ms"
            subprocess.run(shape.split(), check=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._names:
            _ip(f"link del {name}", check=False)
            _ip(f"netns del {name}", check=False)
        _ip(f"link del {self._bridge}", check=False)

    def enter(self, rank: int) -> None:
        """Moves the calling thread, and those that it starts, to the host of `rank`."""
        found = os.open(f"/run/netns/{self._names[rank]}", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(found, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(found)
        os.environ["GLOO_SOCKET_IFNAME"] = "eth0"


def _ip(words: str, *, check: bool = True) -> None:
    subprocess.run(["ip", *words.split()], check=check)
