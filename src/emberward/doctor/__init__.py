"""Examines the machine: finds the sick device, link, host or switch by tests, and says by what.

The tests run in child processes (probes); this room decides which, and what follows. Only the probes import torch.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.doctor._builtin import SCREEN, SITE_PROGRAMS, builtin_probes, count_devices
    from emberward.doctor._examine import Examination, OnRound, examine
    from emberward.doctor._findings import findings_of
    from emberward.doctor._fleet import Device, Fleet, Links, Result, SetOutcome, Talk
    from emberward.doctor._hosts import FACTS_MODULE, HostFacts, ask_hosts_facts, changed_since, host_findings
    from emberward.doctor._load import Load
    from emberward.doctor._plan import CONFIDENCE, Plan, ProbePlan
    from emberward.doctor._probe import Probe, parse_probe
    from emberward.doctor._runner import Reach, Runner
    from emberward.doctor._table import table_of
    from emberward.doctor._topology import expand_hosts, read_topology
    from emberward.doctor._verdict import Verdict, document_of, sound_hosts, verdicts_of
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "CONFIDENCE",
    "FACTS_MODULE",
    "SCREEN",
    "SITE_PROGRAMS",
    "Device",
    "Examination",
    "Fleet",
    "HostFacts",
    "Links",
    "Load",
    "OnRound",
    "Plan",
    "Probe",
    "ProbePlan",
    "Reach",
    "Result",
    "Runner",
    "SetOutcome",
    "Talk",
    "Verdict",
    "ask_hosts_facts",
    "builtin_probes",
    "changed_since",
    "count_devices",
    "document_of",
    "examine",
    "expand_hosts",
    "findings_of",
    "host_findings",
    "parse_probe",
    "read_topology",
    "sound_hosts",
    "table_of",
    "verdicts_of",
]
