"""Examines the machine: finds the sick device, link, host or switch by tests, and says by what.

The tests run in child processes (probes); this room decides which, and what follows. Only the probes import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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

_FILES = {
    "_builtin": "SCREEN SITE_PROGRAMS builtin_probes count_devices",
    "_examine": "Examination OnRound examine",
    "_findings": "findings_of",
    "_fleet": "Device Fleet Links Result SetOutcome Talk",
    "_hosts": "FACTS_MODULE HostFacts ask_hosts_facts changed_since host_findings",
    "_load": "Load",
    "_plan": "CONFIDENCE Plan ProbePlan",
    "_probe": "Probe parse_probe",
    "_runner": "Reach Runner",
    "_table": "table_of",
    "_topology": "expand_hosts read_topology",
    "_verdict": "Verdict document_of sound_hosts verdicts_of",
}
_HOMES = {name: file for file, names in _FILES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    # See `checkpoint` [Note: a face that loads what is asked for].
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


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
