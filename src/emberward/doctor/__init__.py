"""Examines the machine: finds the sick device, link, host or switch by tests, and says by what.

The tests run in child processes (probes); this room decides which, and what follows. Only the probes import torch.
"""

from emberward.doctor._builtin import builtin_probes, count_devices, unreached
from emberward.doctor._examine import Examination, OnRound, examine
from emberward.doctor._fleet import Device, Fleet, Links, Outcome, Result, Talk
from emberward.doctor._plan import CONFIDENCE, Plan, ProbePlan
from emberward.doctor._probe import Probe, parse_probe
from emberward.doctor._runner import Launcher, Runner
from emberward.doctor._table import table_of
from emberward.doctor._topology import expand_hosts, read_topology
from emberward.doctor._verdict import Verdict, document_of, findings_of, verdicts_of

__all__ = [
    "CONFIDENCE",
    "Device",
    "Examination",
    "Fleet",
    "Launcher",
    "Links",
    "OnRound",
    "Outcome",
    "Plan",
    "Probe",
    "ProbePlan",
    "Result",
    "Runner",
    "Talk",
    "Verdict",
    "builtin_probes",
    "count_devices",
    "document_of",
    "examine",
    "expand_hosts",
    "findings_of",
    "parse_probe",
    "read_topology",
    "table_of",
    "unreached",
    "verdicts_of",
]
