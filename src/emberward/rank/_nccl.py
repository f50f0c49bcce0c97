"""What the environment says to NCCL and to torch's part of it, before the first group is made."""

from collections.abc import MutableMapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A variable that ranks on NCCL set unless the person has, by this name or an older one, and what needs it."""

    name: str
    value: str
    why: str
    older: str | None = None


SETTINGS = (
    # NCCL user guide, environment variables, since 2.26; the default is 0.
    Setting(
        name="NCCL_LAUNCH_ORDER_IMPLICIT",
        value="1",
        why="communicators of a device run in the order of the host's launches, which is the order that was proved",
    ),
    # torch/csrc/distributed/c10d/FlightRecorder.hpp, torch 2.13: 2000 is its default; 0 would keep nothing.
    Setting(
        name="TORCH_FR_BUFFER_SIZE",
        value="2000",
        why="the recorder reads in torch's flight recorder which calls have ended",
        older="TORCH_NCCL_TRACE_BUFFER_SIZE",
    ),
    # torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp, torch 2.13: needs the monitor, which is on by default.
    Setting(
        name="TORCH_NCCL_DUMP_ON_TIMEOUT",
        value="1",
        why="each rank writes its flight recorder when a call runs into its time-out, for `emberward explain`",
    ),
)
"""Documented in docs/training.md; `tests/unit/rank/test_nccl.py` holds the two together."""


def set_for_nccl(environment: MutableMapping[str, str]) -> str:
    """Sets what nobody has set, and says what holds: ``NAME=1 (set), NAME=500 (yours)``."""
    said = []
    for setting in SETTINGS:
        own = next((name for name in (setting.name, setting.older) if name is not None and name in environment), None)
        if own is None:
            environment[setting.name] = setting.value
        said.append(f"{own or setting.name}={environment[own or setting.name]} ({'set' if own is None else 'yours'})")
    return ", ".join(said)
