"""Observe a step: what a process calls, written down in the vocabulary of `emberward.events`.

This face needs no torch. Modules that do: `recorder` (records the calls of this process), `watch` (asks a guard about
them), `fake_world` (a group without peers) and `cpu_nccl` (a backend whose waits do not block).
"""

from emberward.sources._certificate import (
    SETUP,
    Certificate,
    CertifiedCall,
    ProgramWriter,
    RoleProgram,
    Segment,
    kind_of,
    role_numbers,
)
from emberward.sources._compare import Difference, first_difference
from emberward.sources._groups import GroupTable
from emberward.sources._guard import Departure, DepartureError, Guard
from emberward.sources._job import DryJob, JobFolder, RankError
from emberward.sources._site import SiteFinder
from emberward.sources._tape import Call, Note, Tape, Transport

__all__ = [
    "SETUP",
    "Call",
    "Certificate",
    "CertifiedCall",
    "Departure",
    "DepartureError",
    "Difference",
    "DryJob",
    "GroupTable",
    "Guard",
    "JobFolder",
    "Note",
    "ProgramWriter",
    "RankError",
    "RoleProgram",
    "Segment",
    "SiteFinder",
    "Tape",
    "Transport",
    "first_difference",
    "kind_of",
    "role_numbers",
]
