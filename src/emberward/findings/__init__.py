"""What we conclude: findings, the closed lists of words they use, and the errors that carry them.

A floor-0 room: standard library only.
"""

from emberward.findings._catalogue import CATALOGUE, CodeEntry, require_code
from emberward.findings._error import FACTS, ConfigError, EmberwardError
from emberward.findings._finding import CycleMember, Finding, FindingPhase, exit_code_of, observed
from emberward.findings._hosts import host_down
from emberward.findings._over import GOES_ON, QUOTED_CHARS, is_over, without_those_over
from emberward.findings._ranks import ranks_text
from emberward.findings._typed import PROGRAM, VERBS, as_typed
from emberward.findings._words import Cause, Certainty, Kind, Severity

__all__ = [
    "CATALOGUE",
    "FACTS",
    "GOES_ON",
    "PROGRAM",
    "QUOTED_CHARS",
    "VERBS",
    "Cause",
    "Certainty",
    "CodeEntry",
    "ConfigError",
    "CycleMember",
    "EmberwardError",
    "Finding",
    "FindingPhase",
    "Kind",
    "Severity",
    "as_typed",
    "exit_code_of",
    "host_down",
    "is_over",
    "observed",
    "ranks_text",
    "require_code",
    "without_those_over",
]
