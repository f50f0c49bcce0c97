"""Where the time of a step goes: what the training thread stands still for, at which line, and what it costs.

Floor 1.5. Pure but for reading samples and the program's sources; no torch. The samples come from
`emberward.sources._sampler`.
"""

from emberward.lens._causes import Told, tell
from emberward.lens._findings import MEANS, missing_part, nothing_measured
from emberward.lens._overlap import Call, Exposed, Overlap, RankCalls, audit, calls_of
from emberward.lens._profile import Profile, finding_page, page_text, profile_of
from emberward.lens._replay import Cut, Edit, Replay
from emberward.lens._samples import SUFFIX, Place, RankSamples, Sampled, find_samples, read_samples, samples_of
from emberward.lens._slowdown import (
    Part,
    budget_of,
    changes_of,
    compare_parts,
    compared_finding,
    parts_around,
    parts_by_step,
    slowdown_finding,
)
from emberward.lens._source import Sources, read_text
from emberward.lens._stalls import Stall, find_stalls, middle_step_s
from emberward.lens._timeline import FIRST_LANE, PHASES, STEPS, RankTimeline, Span, timeline

__all__ = [
    "FIRST_LANE",
    "MEANS",
    "PHASES",
    "STEPS",
    "SUFFIX",
    "Call",
    "Cut",
    "Edit",
    "Exposed",
    "Overlap",
    "Part",
    "Place",
    "Profile",
    "RankCalls",
    "RankSamples",
    "RankTimeline",
    "Replay",
    "Sampled",
    "Sources",
    "Span",
    "Stall",
    "Told",
    "audit",
    "budget_of",
    "calls_of",
    "changes_of",
    "compare_parts",
    "compared_finding",
    "find_samples",
    "find_stalls",
    "finding_page",
    "middle_step_s",
    "missing_part",
    "nothing_measured",
    "page_text",
    "parts_around",
    "parts_by_step",
    "profile_of",
    "read_samples",
    "read_text",
    "samples_of",
    "slowdown_finding",
    "tell",
    "timeline",
]
