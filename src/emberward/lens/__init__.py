"""Where the time of a step goes: what the training thread stands still for, at which line, and what it costs.

Floor 1.5. Pure but for reading samples and the program's sources; no torch. The samples come from
`emberward.sources._sampler`.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.lens._backward import in_order
    from emberward.lens._calls import Call, RankCalls, calls_of
    from emberward.lens._causes import Told, tell
    from emberward.lens._findings import MEANS, missing_part, nothing_measured
    from emberward.lens._flops import flops_of
    from emberward.lens._flow import repeats_of, slack_of, unread_of
    from emberward.lens._forms import FormTimes, form_key, forms_to_measure
    from emberward.lens._gathers import Sharding, sharding_of
    from emberward.lens._held import held_by_all
    from emberward.lens._operations import (
        OPERATIONS_SUFFIX,
        UNFINISHED_SUFFIX,
        Operation,
        Parameter,
        RankOperations,
        operations_of,
        read_operations,
    )
    from emberward.lens._outside import line_shares, outside_samples
    from emberward.lens._overlap import Exposed, Overlap, audit
    from emberward.lens._profile import Profile, finding_page, page_text, profile_of
    from emberward.lens._replay import Cut, Edit, Replay
    from emberward.lens._samples import (
        SUFFIX,
        Instruction,
        RankSamples,
        Sampled,
        find_samples,
        ranks_of_job,
        read_samples,
        samples_of,
    )
    from emberward.lens._sharding import checkpointed_at, wastes_of
    from emberward.lens._slowdown import (
        Part,
        budget_of,
        changes_of,
        compare_parts,
        compared_finding,
        own_by_step,
        parts_around,
        parts_by_step,
        slowdown_finding,
    )
    from emberward.lens._source import Sources, read_text
    from emberward.lens._stalls import Stall, find_stalls, middle_step_s
    from emberward.lens._timeline import FIRST_LANE, PHASES, STEPS, RankTimeline, Span, timeline
    from emberward.lens._unused import is_result_kept_from_all
    from emberward.lens._waste import Waste
    from emberward.lens._work import PARTS, Rate, Work, most_used_dtype, work_of
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "FIRST_LANE",
    "MEANS",
    "OPERATIONS_SUFFIX",
    "PARTS",
    "PHASES",
    "STEPS",
    "SUFFIX",
    "UNFINISHED_SUFFIX",
    "Call",
    "Cut",
    "Edit",
    "Exposed",
    "FormTimes",
    "Instruction",
    "Operation",
    "Overlap",
    "Parameter",
    "Part",
    "Profile",
    "RankCalls",
    "RankOperations",
    "RankSamples",
    "RankTimeline",
    "Rate",
    "Replay",
    "Sampled",
    "Sharding",
    "Sources",
    "Span",
    "Stall",
    "Told",
    "Waste",
    "Work",
    "audit",
    "budget_of",
    "calls_of",
    "changes_of",
    "checkpointed_at",
    "compare_parts",
    "compared_finding",
    "find_samples",
    "find_stalls",
    "finding_page",
    "flops_of",
    "form_key",
    "forms_to_measure",
    "held_by_all",
    "in_order",
    "is_result_kept_from_all",
    "line_shares",
    "middle_step_s",
    "missing_part",
    "most_used_dtype",
    "nothing_measured",
    "operations_of",
    "outside_samples",
    "own_by_step",
    "page_text",
    "parts_around",
    "parts_by_step",
    "profile_of",
    "ranks_of_job",
    "read_operations",
    "read_samples",
    "read_text",
    "repeats_of",
    "samples_of",
    "sharding_of",
    "slack_of",
    "slowdown_finding",
    "tell",
    "timeline",
    "unread_of",
    "wastes_of",
    "work_of",
]
