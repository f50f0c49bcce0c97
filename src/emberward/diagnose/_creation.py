"""A process group that not every rank creates: ``new_group`` waits for its members, and a mesh for all."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from emberward.diagnose._bindings import bindings_of
from emberward.diagnose._frames import LineOf, ThreadStack, no_source, user_frame
from emberward.diagnose._parting import parting, passed_at
from emberward.diagnose._program import calls_in, place_at, place_in
from emberward.diagnose._rank_tests import is_of_some
from emberward.diagnose._say import verb
from emberward.diagnose._waits import Reading, finding_on, who_text
from emberward.events import WAITING, HostState
from emberward.findings import Cause, Certainty, Finding

_CREATORS = frozenset({"new_group", "_new_group_with_tag", "_new_process_group_helper", "split_group", "new_subgroups"})
_CREATOR_FILES = ("torch/distributed/device_mesh.py", "torch/distributed/distributed_c10d.py")
_BEHIND = frozenset({*WAITING, HostState.STORE_WAIT, HostState.EXIT})
"""What a rank does that passed the creation by and now waits for those in it."""


def is_creating(thread: ThreadStack | None) -> bool:
    """Whether the thread is in the creation of a process group."""
    frames = () if thread is None else thread.frames
    return any(f.function in _CREATORS and f.file.endswith(_CREATOR_FILES) for f in frames)


def creation_findings(
    readings: Sequence[Reading],
    members: Collection[int] = (),
    made: Collection[int] = (),
    left_out: Mapping[int, str] = MappingProxyType({}),
    line_of: LineOf = no_source,
) -> list[Finding]:
    """A finding when some ranks are in a group's creation and all others wait in something else; else none.

    Where somebody knows them: `members`, the ranks of the group that is made, and `made`, those that have come to its
    creation, which a rank outside of the group only passes through. `left_out`: the group that a rank did not create
    before, so that torch, which counts them, gives the next one another name there.
    """
    numbered = [reading for reading in readings if reading.process.rank is not None]
    # Where no process has a rank, their own numbers name them.
    ranked = numbered or list(readings)
    creators = [reading for reading in ranked if is_creating(reading.process.main)]
    others = [reading for reading in ranked if reading not in creators]
    short = [reading for reading in creators if reading.process.rank in left_out]
    if short and 2 * len(short) < len(creators) and set(members) <= set(made):
        return [_of_former(short, [r for r in creators if r not in short], left_out)]
    if not creators or not others or len(ranked) < len(readings):
        return []
    if any(reading.kind not in _BEHIND for reading in others):
        return []
    lines = {frame.site for reading in creators for frame in reading.frames if not frame.is_library}
    made_by_some = _made_by_some(creators[0], line_of)
    # A line that makes the group before its call was come to through the creation.
    came_through = all(r.site in lines or _has_passed(r, creators[0], line_of) for r in others)
    came_through |= made_by_some not in (None, *lines)
    if not members and came_through:
        return [_under_other_names(creators, others, made_by_some)]
    inside = {reading.process.rank for reading in creators}
    num_made = len(creators) + len(set(made) - inside)
    is_lone = inside != set(members) and 2 * num_made < len(ranked)
    # Nobody waits for a rank outside of the group.
    missing = [reading for reading in others if reading.process.rank in set(members) - set(made)] or others
    culprits, rest = (creators, others) if is_lone else (missing, creators)
    who, others_text = who_text(culprits), who_text(rest)
    what = (
        f"{who} {verb(culprits, 'creates', 'create')} a group that the others do not create"
        if is_lone
        else f"{who} {verb(culprits, 'does', 'do')} not create the group that "
        f"{others_text} {verb(rest, 'creates', 'create')} at {rest[0].site}"
    )
    told = [*creators[:3], *others[:3]]
    return [_finding(what, culprits, rest, told, ruled_out="a busy rank: every rank waits")]


def _has_passed(reading: Reading, creator: Reading, line_of: LineOf) -> bool:
    """Whether a process is behind a loop that creates groups, and no choice of the text leads there without it."""
    parted = parting(creator.frames, reading.frames)
    if parted is None or (parted[0].line or 0) >= (parted[1].line or 0):
        return False
    inner = [frame for frame in creator.frames[: creator.frames.index(parted[0]) + 1] if not frame.is_library]
    here, *places = (place_at(frame, line_of) for frame in (parted[1], *inner))
    is_in_turns = here is not None and any(set(at.loops) - set(here.loops) for at in places if at is not None)
    return is_in_turns and passed_at(reading.frames, creator.frames, line_of) == []


def _under_other_names(creators: Sequence[Reading], others: Sequence[Reading], site: str | None) -> Finding:
    """The finding where all come to the creation of a group that has another name on some: torch counts groups, and
    some made one before that others did not. Who has come through found the keys of another one, or is no member.
    `site`: where some made one, as far as the text tells.
    """
    return finding_on(
        "H129",
        f"{who_text(creators)} {verb(creators, 'does', 'do')} not end the creation of a group at "
        f"{creators[0].site} that {who_text(others)} came through: one that some made before has given it another "
        "name there",
        (),
        waiting=[*creators, *others],
        site=site or creators[0].site,
        **_told([*creators[:3], *others[:3]], "a rank that does not come: each has come to the creation"),
    )


def _made_by_some(reading: Reading, line_of: LineOf) -> str | None:
    """The only line of the program at which a group is made under a condition that asks for the rank."""
    frame = user_frame(reading.frames)
    place = place_at(frame, line_of)
    if frame is None or place is None:
        return None
    names = bindings_of(place.tree)
    made = {call.lineno for call in calls_in(place.tree) if names.of(call.func).rpartition(".")[2] in _CREATORS}
    found = [line for line in made if is_of_some(place_in(place.text, line))]
    return replace(frame, line=found[0]).site if len(found) == 1 else None


def _of_former(short: Sequence[Reading], rest: Sequence[Reading], left_out: Mapping[int, str]) -> Finding:
    """The finding for members of a group that all create, some of which did not create one before it."""
    names = sorted({left_out[r.process.rank] for r in short if r.process.rank is not None})
    what = (
        f"{who_text(short)} did not create the group {', '.join(names)} that the others have created; the next one, "
        f"which {who_text(rest)} {verb(rest, 'creates', 'create')} at {rest[0].site}, has another name there"
    )
    told = [*short[:3], *rest[:3]]
    return _finding(what, short, rest, told, ruled_out="a rank that does not come: all members are in the creation")


def _finding(
    what: str, culprits: Sequence[Reading], waiting: Sequence[Reading], told: Sequence[Reading], *, ruled_out: str
) -> Finding:
    return finding_on("H129", what, culprits, waiting=waiting, **_told(told, ruled_out))


def _told(told: Sequence[Reading], ruled_out: str) -> dict[str, Any]:
    return {
        "cause": Cause.MISSING_GROUP,
        "certainty": Certainty.OBSERVED,
        "evidence": [f"{r.process.who} {r.text}" for r in told],
        "ruled_out": (ruled_out,),
        "next_step": "call new_group on every rank of the job, members or not, in the same order",
    }
