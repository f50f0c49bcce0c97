"""The certificate of a run: the order of calls that was proved, for each role, as a rank can compare it while it runs.

[Note: certificate]
A run is not one list: how many steps, evaluations and saves it has, and in which order, is the recipe's business and
its luck's. So a certificate is a small grammar. A **segment** is what a rank calls between two marks of the trainer
(setup, a step, one evaluation set, a save, the sample, and the gaps between them), by kind and by its count of
micro-batches or tokens. A segment that came in several forms in the rehearsal (a first step, say) has several.

A count that was not rehearsed is certified by construction where it can be: of two rehearsed counts the larger must be
the smaller with a repeated part put in, and a count above the smaller then has that part as often as it needs. Where
that does not hold the segment is not certified, and the rank says so instead of guessing.

[Note: one role, many ranks]
The ranks of a role make the same calls over groups of their own. A call therefore names its group by label, and its
peer or root by place in the group; of a group that is made its label, size and index. Compared are operation, group,
type, number of elements, shape, root or peer, reduction and tag. Not compared are lines (they are shown), lanes,
batches and waits: a wait is no call.

[Note: certificate format]
One JSON object: ``{"certificate": 1, "recipe": digest, "emberward": version, "torch": version, "role_of": [...],
"roles": [{"rank", "calls": [[op, group, dtype, numel, shape, partner, reduce_op, out_numel, tag]], "places": [[site,
stage, micro_batch]], "segments": [[kind, count, [call number, ...], [place number, ...]]]}]}``; `role_of` gives for
each rank the index of its role.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.events import Barrier, Body, Collective, Group, GroupCreate, Phase, Recv, Send, Site, Stage

VERSION = 1
SETUP = "setup"
STEP = "step"
GAP = "gap"
MASK = (1 << 64) - 1
FACTOR = 0x100000001B3
"""Of the rolling hash, hash x FACTOR + digest of the call, modulo 2^64: a polynomial, so that order counts.

It is the multiplier of FNV-1a's 64 bits (Fowler, Noll, Vo), which is odd: no call is lost.
"""

CallKey = tuple[Any, ...]
"""Op, group, dtype, numel, shape, root or peer in the group, reduce_op, out_numel, tag.

See [Note: one role, many ranks].
"""


def _group_name(group: Group | None) -> str | None:
    if group is None:
        return None
    return group.label or f"a group of {len(group.ranks)} #{group.index}"


def _partner(group: Group | None, rank: int | None) -> int | None:
    return rank if group is None or rank is None or rank not in group.ranks else group.ranks.index(rank)


def call_key(body: Body) -> CallKey | None:
    """What is compared of a call; None for what is no call. See [Note: one role, many ranks]."""
    match body:
        case Collective(group=group):
            partner = None if body.root is None else _partner(group, body.root)
            reduce_op = None if body.reduce_op is None else body.reduce_op.value
            name = _group_name(group)
            return (body.op.value, name, body.dtype, body.numel, body.shape, partner, reduce_op, body.out_numel, None)
        case Send(group=group) | Recv(group=group):
            verb = "send" if isinstance(body, Send) else "recv"
            peer = _partner(group, body.peer)
            return (verb, _group_name(group), body.dtype, body.numel, body.shape, peer, None, None, body.tag)
        case Barrier(group=group):
            return ("barrier", _group_name(group), None, None, None, None, None, None, None)
        case GroupCreate(group=group):
            return ("create", _group_name(group), None, len(group.ranks), None, group.index, None, None, None)
        case _:
            return None


def key_text(key: CallKey) -> str:
    """The call for people, e.g. ``all_reduce world float32 128 sum`` or ``send pp_down float32 4x16x32 to place 1``."""
    op, group, dtype, numel, shape, partner, reduce_op, out_numel, tag = key
    if op == "create":
        return f"create {group} of {numel} ranks"
    size = None if numel is None else ("x".join(map(str, shape)) if shape else str(numel))
    words = [op, group, dtype, size, None if out_numel is None else f"into {out_numel}", reduce_op]
    if partner is not None:
        words.append({"send": "to place", "recv": "from place"}.get(op, "root at place") + f" {partner}")
    if tag:
        words.append(f"tag {tag}")
    return " ".join(word for word in words if word)


def key_digest(key: CallKey) -> int:
    """64 bits of the call, the same in every process: BLAKE2b (RFC 7693) of its text form."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedCall:
    """Where in the program a certified call stood: its line, stage and micro-batch in the rehearsal."""

    site: str | None
    stage: str | None
    micro_batch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One form of what is called between two marks. `calls` and `places` are numbers in the role's tables."""

    kind: str
    count: int | None
    calls: tuple[int, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleProgram:
    """What a role's ranks call, as rank `rank` did in the rehearsal. See [Note: certificate]."""

    rank: int
    calls: tuple[CallKey, ...]
    places: tuple[CertifiedCall, ...]
    segments: tuple[Segment, ...]

    def to_json(self) -> dict[str, Any]:
        """The role as a JSON object. See [Note: certificate format]."""
        return {
            "rank": self.rank,
            "calls": [list(key) for key in self.calls],
            "places": [[place.site, place.stage, place.micro_batch] for place in self.places],
            "segments": [[each.kind, each.count, list(each.calls), list(each.places)] for each in self.segments],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RoleProgram":
        """The role that `to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            rank=data["rank"],
            calls=tuple(
                tuple(tuple(item) if isinstance(item, list) else item for item in key) for key in data["calls"]
            ),
            places=tuple(CertifiedCall(site=site, stage=stage, micro_batch=mb) for site, stage, mb in data["places"]),
            segments=tuple(
                Segment(kind=kind, count=count, calls=tuple(calls), places=tuple(places))
                for kind, count, calls, places in data["segments"]
            ),
        )

    def forms(self, kind: str, count: int | None) -> tuple[Segment, ...] | None:
        """Every form that a segment may have; None when it is not certified. See [Note: certificate]."""
        known = [each for each in self.segments if each.kind == kind]
        exact = tuple(each for each in known if each.count == count)
        if exact or count is None:
            return exact or ((_empty(kind, None),) if kind == GAP else None)
        if count == 0:
            return (_empty(kind, 0),)
        by_count: dict[int, Segment] = {each.count: each for each in known if each.count}
        made = [form for one in by_count.values() if (form := _multiplied(one, count)) is not None]
        for small in sorted(by_count):
            for large in sorted(by_count):
                if small < large and small < count:
                    form = _stretched(by_count[small], by_count[large], count)
                    made += [] if form is None else [form]
        return (made[0],) if made else None


def _empty(kind: str, count: int | None) -> Segment:
    return Segment(kind=kind, count=count, calls=(), places=())


def _multiplied(one: Segment, count: int) -> Segment | None:
    """`one` with another count where it is nothing but one part repeated, as a sample of tokens is."""
    assert one.count is not None
    length, rest = divmod(len(one.calls), one.count)
    unit = one.calls[:length]
    if one.count < 2 or rest or unit * one.count != one.calls:
        return None
    return Segment(kind=one.kind, count=count, calls=unit * count, places=one.places[:length] * count)


def _stretched(small: Segment, large: Segment, count: int) -> Segment | None:
    """`small` with the part that makes it `large` put in as often as `count` wants. See [Note: certificate].

    The part begins where the two first differ: were it put in earlier, the calls between would repeat it as well.
    """
    assert small.count is not None and large.count is not None
    more, grown = len(large.calls) - len(small.calls), large.count - small.count
    if more < 0:
        return None
    pairs = zip(small.calls, large.calls, strict=False)
    at = next((i for i, (one, other) in enumerate(pairs) if one != other), len(small.calls))
    inserted = large.calls[at : at + more]
    if large.calls[at + more :] != small.calls[at:]:
        return None
    for units in range(grown, 0, -1):
        length, rest = divmod(more, units)
        every, odd = divmod(grown, units)
        if not rest and not odd and inserted == inserted[:length] * units and not (count - small.count) % every:
            times = (count - small.count) // every
            places = large.places[at : at + length]
            return Segment(
                kind=small.kind,
                count=count,
                calls=small.calls[:at] + inserted[:length] * times + small.calls[at:],
                places=small.places[:at] + places * times + small.places[at:],
            )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The proved order of every role, and for which recipe and versions it holds."""

    recipe: str
    emberward: str
    torch: str
    role_of: tuple[int, ...]
    roles: tuple[RoleProgram, ...]

    def role(self, rank: int) -> RoleProgram:
        """What `rank` is to call. Raises IndexError for a rank outside the world."""
        return self.roles[self.role_of[rank]]

    def to_json(self) -> dict[str, Any]:
        """The certificate as a JSON object. See [Note: certificate format]."""
        return {
            "certificate": VERSION,
            "recipe": self.recipe,
            "emberward": self.emberward,
            "torch": self.torch,
            "role_of": list(self.role_of),
            "roles": [role.to_json() for role in self.roles],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Certificate":
        """The certificate that `to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        if data["certificate"] != VERSION:
            raise ValueError(f"certificate of version {data['certificate']}, this program reads {VERSION}")
        return cls(
            recipe=data["recipe"],
            emberward=data["emberward"],
            torch=data["torch"],
            role_of=tuple(data["role_of"]),
            roles=tuple(RoleProgram.from_json(role) for role in data["roles"]),
        )


def kind_of(phase: Phase, count: int | None) -> str:
    """The kind of segment that a mark of the trainer begins: a stage's own, a step when it has a count, else a gap."""
    if phase.stage is not None:
        return phase.stage.value
    return GAP if count is None else STEP


class ProgramWriter:
    """Collects a rehearsal's calls into a `RoleProgram`."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._keys: dict[CallKey, int] = {}
        self._places: dict[CertifiedCall, int] = {}
        self._found: dict[tuple[str, int | None, tuple[int, ...]], tuple[int, ...]] = {}

    def segment(self, kind: str, count: int | None, calls: Iterable[tuple[Body, Site | None, Phase]]) -> None:
        """Takes what was called between two marks; a form that is known already adds nothing."""
        numbers: list[int] = []
        places: list[int] = []
        for body, site, phase in calls:
            key = call_key(body)
            if key is not None:
                numbers.append(self._keys.setdefault(key, len(self._keys)))
                places.append(self._place(site, phase))
        self._found.setdefault((kind, count, tuple(numbers)), tuple(places))

    def _place(self, site: Site | None, phase: Phase) -> int:
        stage = phase.stage.value if isinstance(phase.stage, Stage) else None
        place = CertifiedCall(site=None if site is None else str(site), stage=stage, micro_batch=phase.micro_batch)
        return self._places.setdefault(place, len(self._places))

    def program(self) -> RoleProgram:
        """Everything so far."""
        return RoleProgram(
            rank=self._rank,
            calls=tuple(self._keys),
            places=tuple(self._places),
            segments=tuple(
                Segment(kind=kind, count=count, calls=calls, places=places)
                for (kind, count, calls), places in self._found.items()
            ),
        )


Publish = Callable[[int, int], None]
"""Is told the position and the rolling hash after each call that was as proved."""


def role_numbers(owners: Sequence[int]) -> tuple[int, ...]:
    """For each rank the index of its role, given the rank that stands for it; roles in order of their first rank."""
    numbers = {owner: number for number, owner in enumerate(sorted(set(owners)))}
    return tuple(numbers[owner] for owner in owners)
