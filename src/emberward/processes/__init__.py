"""Processes of this host: named so that a reused pid misleads nobody, and owned as trees that end with their owner."""

from emberward.processes._child import Child, Completed
from emberward.processes._identity import (
    MARKER,
    ProcessId,
    descendants,
    end,
    identify,
    is_alive,
    send,
)
from emberward.processes._tree import DEVNULL, PIPE, OnWait, ProcessTree

__all__ = [
    "DEVNULL",
    "MARKER",
    "PIPE",
    "Child",
    "Completed",
    "OnWait",
    "ProcessId",
    "ProcessTree",
    "descendants",
    "end",
    "identify",
    "is_alive",
    "send",
]
