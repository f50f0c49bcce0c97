"""Concludes from what was observed. Pure: standard library only, and it reads no file.

How a process ended and which end came first, which process is which rank, what a rank is expected to do
next, which rules claim that one left that order, and which of several claims about an incident stand. `sources` only
reads: calls, stacks, logs and reports come as the nouns of this room. `live` is the same for a job that still runs:
what only two snapshots of it can tell, and how severe a claim is by what moved between them.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.diagnose._calls import (
        KNOWN_VERSIONS,
        Call,
        Departed,
        GroupName,
        GroupPart,
        Members,
        RankFlight,
        call_of,
        group_name,
        integer_of,
        op_of,
        store_calls,
    )
    from emberward.diagnose._claims import Ground, after_roots, conclude, hear, met_apart, roots
    from emberward.diagnose._compare import compare_incidents, compare_snapshots, is_same_job
    from emberward.diagnose._creation import creation_findings, is_creating
    from emberward.diagnose._ends import (
        FATAL,
        Ending,
        cause_of_words,
        classify,
        death_finding,
        first_endings,
        is_secondary,
    )
    from emberward.diagnose._evidence import Evidence, file_problem
    from emberward.diagnose._frames import (
        Frame,
        LineOf,
        ProcessStacks,
        StackSource,
        ThreadStack,
        code_frame,
        is_lane,
        may_act,
        no_source,
        short_path,
        user_frame,
    )
    from emberward.diagnose._groups import Groups, world_of
    from emberward.diagnose._identity import identify
    from emberward.diagnose._judge import Explanation, judge
    from emberward.diagnose._judge_words import judge_ends
    from emberward.diagnose._log_facts import LogFact, LogFactKind
    from emberward.diagnose._names import host_of_name, rank_of_dump, rank_of_log, rank_of_name, rank_of_path
    from emberward.diagnose._order import NO_DATA, DataSeen, is_out_of_data, lacked, only_in
    from emberward.diagnose._parting import passed_at, swallowed_at
    from emberward.diagnose._program import comes_first
    from emberward.diagnose._ras_facts import RasComm, RasMember, RasReport
    from emberward.diagnose._say import (
        NS,
        SURE_LIMIT_S,
        arrival_as,
        cannot_tell,
        hang_finding,
        no_alarm,
        ranks_text,
        verb,
        waits,
    )
    from emberward.diagnose._source import by_short_name, tie_break_by_text, with_source
    from emberward.diagnose._states import next_of_state
    from emberward.diagnose._store import in_store
    from emberward.diagnose._trace import PARTED, SIZED, to_trace
    from emberward.diagnose._waits import Reading, class_of, makes_call, read_process, stuck_worker
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "FATAL",
    "KNOWN_VERSIONS",
    "NO_DATA",
    "NS",
    "PARTED",
    "SIZED",
    "SURE_LIMIT_S",
    "Call",
    "DataSeen",
    "Departed",
    "Ending",
    "Evidence",
    "Explanation",
    "Frame",
    "Ground",
    "GroupName",
    "GroupPart",
    "Groups",
    "LineOf",
    "LogFact",
    "LogFactKind",
    "Members",
    "ProcessStacks",
    "RankFlight",
    "RasComm",
    "RasMember",
    "RasReport",
    "Reading",
    "StackSource",
    "ThreadStack",
    "after_roots",
    "arrival_as",
    "by_short_name",
    "call_of",
    "cannot_tell",
    "cause_of_words",
    "class_of",
    "classify",
    "code_frame",
    "comes_first",
    "compare_incidents",
    "compare_snapshots",
    "conclude",
    "creation_findings",
    "death_finding",
    "file_problem",
    "first_endings",
    "group_name",
    "hang_finding",
    "hear",
    "host_of_name",
    "identify",
    "in_store",
    "integer_of",
    "is_creating",
    "is_lane",
    "is_out_of_data",
    "is_same_job",
    "is_secondary",
    "judge",
    "judge_ends",
    "lacked",
    "makes_call",
    "may_act",
    "met_apart",
    "next_of_state",
    "no_alarm",
    "no_source",
    "only_in",
    "op_of",
    "passed_at",
    "rank_of_dump",
    "rank_of_log",
    "rank_of_name",
    "rank_of_path",
    "ranks_text",
    "read_process",
    "roots",
    "short_path",
    "store_calls",
    "stuck_worker",
    "swallowed_at",
    "tie_break_by_text",
    "to_trace",
    "user_frame",
    "verb",
    "waits",
    "with_source",
    "world_of",
]
