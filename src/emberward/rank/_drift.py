"""Compares, while a run goes, all that must be equal on several ranks; and makes copies equal again.

[Note: how copies are compared]
One word for each sharing (tied ends, whole over tp, dp's replicas) and one for the rank's state are made on the device:
sums of the tensors' digests times odd numbers made from their names, so that a difference in one tensor always shows.
They go through one all-gather over the world, 4 int64 a rank; every rank then knows whether any copies differ. This is
the phase CHECK, which a dry run rehearses. Only if they do, three more collectives find which, in the phase SEARCH: the
largest number of copies, every copy's digest, the names of those that differ. All ranks see the same answers, so that
all report, stop or repair together.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from emberward.checkpoint import DeviceDigests, Shard
from emberward.engine import Engine, Replica, Sharing, World, all_holders
from emberward.events import Phase, Stage
from emberward.findings import EmberwardError, Finding
from emberward.health import (
    Copies,
    Difference,
    Held,
    find_difference,
    repair_source,
    repaired_finding,
    state_finding,
    tensor_finding,
)
from emberward.rank._events import Enter
from emberward.recipe import DriftPolicy

_HALF, _WORD = 1 << 63, 1 << 64
_NUM_SHARINGS = len(Sharing)
MAX_NAMED = 64
"""Differing copies of one group of holders that get their names; the rest are counted."""
GENERATORS = "random numbers ({})"

all_gather_flat = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class Digests(Protocol):
    """What a check takes its digests with; a dry run, whose tensors hold nothing, gives its own."""

    def of_shards(self, shards: Sequence[Shard]) -> Tensor:
        """One int64 for each shard, on the shards' device."""

    def of_generators(self) -> dict[str, int]:
        """One number for the state of each random number generator that all ranks share, by its role."""


class RealDigests:
    """Digests of real tensors and generators on `device`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._of_shards = DeviceDigests()

    def of_shards(self, shards: Sequence[Shard]) -> Tensor:
        """One int64 for each shard, on the shards' device."""
        return self._of_shards(shards)

    def of_generators(self) -> dict[str, int]:
        """Torch's default generators: of the CPU, and of this rank's device.

        The engine draws from neither, so they are in their first state on all ranks, whatever their place.
        """
        return {role: _word_of(state.numpy().tobytes()) for role, state in generator_states(self._device).items()}


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """The state of torch's default generators as bytes on the host, by role."""
    found = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(device)
    return found


@dataclass(frozen=True, slots=True)
class _DriftedCopy:
    """Where a differing word was found: a sharing (None: the state) and the copy's number in it."""

    sharing: Sharing | None
    number: int
    ranks: tuple[int, ...]


class ReplicaWatch:
    """One rank's part in the comparisons. `check` must be called by all ranks together; it blocks.

    `enter` is told the phases, see [Note: how copies are compared].
    """

    def __init__(
        self, engine: Engine, *, policy: DriftPolicy, enter: Enter | None = None, digests: Digests | None = None
    ) -> None:
        self._engine = engine
        self._policy = policy
        self._enter = enter
        self._digests: Digests = RealDigests(engine.world.device) if digests is None else digests
        self._replicas: list[Replica] = engine.replicas()
        coefficients = [_word_of(each.shard.name.encode()) | 1 for each in self._replicas]
        self._coefficients = torch.tensor([_signed(word) for word in coefficients], dtype=torch.int64).to(
            engine.world.device
        )
        self._groups = list(_groups(engine.world, engine.tp_shared))
        self._last_equal_step: int | None = None
        self._told: set[Difference] = set()

    @property
    def num_bytes(self) -> int:
        """Bytes of this rank's copies, which a check reads once."""
        return sum(each.shard.tensor.numel() * each.shard.tensor.element_size() for each in self._replicas)

    def check(self, *, step: int, state: Mapping[str, Any]) -> list[Finding]:
        """What the comparison after `step` finished steps found, the same on all ranks; [] when all is equal.

        `state` holds what else must be equal on all ranks, by name, as JSON. What was told before is not told again.
        With the policy STOP, and for a state that cannot be repaired, raises EmberwardError R115 or R117 on all ranks.
        """
        states = {**state, **{GENERATORS.format(role): word for role, word in self._digests.of_generators().items()}}
        self._begin(Stage.CHECK, step)
        if self._are_equal(states):
            self._last_equal_step = step
            return []
        self._begin(Stage.SEARCH, step)
        differences = self._differences(states)
        tensors = [each for each in differences if each.held is not Held.STATE]
        others = [each for each in differences if each.held is Held.STATE]
        if self._policy is DriftPolicy.REPORT:
            return self._new_findings(tensors, others, step)
        findings: list[Finding] = []
        if self._policy is DriftPolicy.REPAIR:
            findings += self._repaired(tensors, others, step)
            tensors, others = [], [each for each in others if not each.name.startswith(GENERATORS.split("{")[0])]
        for finding in self._findings(tensors, others, step):
            raise _error(finding)
        self._last_equal_step = step
        return findings

    def _begin(self, stage: Stage, step: int) -> None:
        if self._enter is not None:
            self._enter(Phase(step=step, stage=stage, name="copies"))

    # -- comparing ---------------------------------------------------------------------------------------------------

    def _are_equal(self, states: Mapping[str, Any]) -> bool:
        """Whether all copies and states are equal: one all-gather. See [Note: how copies are compared]."""
        world = self._engine.world
        words = torch.zeros(_NUM_SHARINGS + 1, dtype=torch.int64, device=world.device)
        if self._replicas:
            mixed = self._digests.of_shards([each.shard for each in self._replicas]) * self._coefficients
            for sharing, first, last in self._runs():
                words[sharing] = mixed[first:last].sum()
        words[_NUM_SHARINGS] = _signed(_word_of(json.dumps(states, sort_keys=True).encode()))
        table = self._gather("replica_words", words)
        return all(len({table[rank][word] for rank in ranks}) == 1 for word, ranks in self._groups)

    def _differences(self, states: Mapping[str, Any]) -> list[Difference]:
        """Every difference with its name, the same list on all ranks. See [Note: how copies are compared]."""
        world = self._engine.world
        counts = [0] * _NUM_SHARINGS
        for sharing, first, last in self._runs():
            counts[sharing] = last - first
        mine = [*counts, *(_signed(_word_of(json.dumps(value).encode())) for value in states.values())]
        num_head = len(mine)
        if self._replicas:
            mine += self._digests.of_shards([each.shard for each in self._replicas]).tolist()
        longest = torch.tensor(len(mine), device=world.device)
        dist.all_reduce(longest, op=dist.ReduceOp.MAX, group=world.channels["world"].handle)
        padded = torch.zeros(int(world.read("num_copies", longest)[0]), dtype=torch.int64)
        padded[: len(mine)] = torch.tensor(mine, dtype=torch.int64)
        table = self._gather("copies", padded.to(world.device))
        return self._named(_places(table, self._groups, num_head), list(states), table, num_head)

    def _named(
        self,
        found: Sequence[tuple[_DriftedCopy, dict[int, int]]],
        states: Sequence[str],
        table: list[list[int]],
        head: int,
    ) -> list[Difference]:
        """The differences under their names, which the first holder of each tells all."""
        world = self._engine.world
        told: list[dict[tuple[int, int], tuple[str, str, bool]]] = [{} for _ in world.mesh.ranks]
        mine = {
            (place.sharing, place.number): _title(self._replicas[_offset(table[world.rank], place)])
            for place, _ in found
            if place.sharing is not None and place.ranks[0] == world.rank
        }
        dist.all_gather_object(told, dict(list(mine.items())[:MAX_NAMED]), group=world.channels["world"].handle)
        differences = []
        for place, digests in found:
            if place.sharing is None:
                copies = Copies(held=Held.STATE, name=states[place.number], place="", digests=digests)
            else:
                key = (place.sharing, place.number)
                name, where, is_moment = told[place.ranks[0]].get(key, (f"copy {place.number}", "", False))
                held = Held.MOMENT if is_moment else Held.PARAMETER
                copies = Copies(held=held, name=name, place=where, digests=digests)
            difference = find_difference(copies)
            assert difference is not None, "only what differs is named"
            differences.append(difference)
        return differences

    def _runs(self) -> Iterator[tuple[Sharing, int, int]]:
        """(sharing, first, last + 1) of the replicas of each sharing."""
        for sharing in Sharing:
            numbers = [i for i, each in enumerate(self._replicas) if each.sharing is sharing]
            if numbers:
                yield sharing, numbers[0], numbers[-1] + 1

    def _gather(self, name: str, mine: Tensor) -> list[list[int]]:
        """Every rank's `mine`, by rank."""
        world = self._engine.world
        out = torch.zeros(world.mesh.size * mine.numel(), dtype=torch.int64, device=world.device)
        all_gather_flat(out, mine, group=world.channels["world"].handle)
        values = [int(value) for value in world.read(name, out)]
        return [values[first : first + mine.numel()] for first in range(0, len(values), mine.numel())]

    # -- acting ------------------------------------------------------------------------------------------------------

    def _findings(self, tensors: Sequence[Difference], others: Sequence[Difference], step: int) -> Iterator[Finding]:
        if tensors:
            yield tensor_finding(tensors, step=step, last_equal_step=self._last_equal_step)
        if others:
            yield state_finding(others, step=step, last_equal_step=self._last_equal_step)

    def _new_findings(self, tensors: list[Difference], others: list[Difference], step: int) -> list[Finding]:
        tensors = [each for each in tensors if each not in self._told]
        others = [each for each in others if each not in self._told]
        self._told |= {*tensors, *others}
        return list(self._findings(tensors, others, step))

    def _repaired(self, tensors: Sequence[Difference], others: Sequence[Difference], step: int) -> list[Finding]:
        """Makes tensors and generators equal, and says so. Each source sends to each odd rank, in one order."""
        by_key = {_title(each)[:2]: each.shard.tensor for each in self._replicas}
        states = generator_states(self._engine.world.device)
        roles = {GENERATORS.format(role): role for role in states}
        repaired = [*tensors, *(each for each in others if each.name in roles)]
        for difference in repaired:
            role = roles.get(difference.name)
            if role is None:
                self._send(difference, by_key.get((difference.name, difference.place)))
            else:
                self._send(difference, states[role])
                _set_generator(role, states[role], self._engine.world.device)
        return [repaired_finding(repaired, step=step)] if repaired else []

    def _send(self, difference: Difference, tensor: Tensor | None) -> None:
        """Overwrites the odd ranks' copies by the source's. On the source and each odd rank it blocks."""
        world = self._engine.world
        source = repair_source(difference)
        device = world.device
        for rank in difference.odd:
            if rank == source or world.rank not in (rank, source):
                continue
            assert tensor is not None, f"rank {world.rank} holds no {difference.name}"
            travelling = tensor.to(device) if world.rank == source else torch.empty_like(tensor, device=device)
            group = world.channels["world"].handle
            if world.rank == source:
                dist.send(travelling.contiguous(), dst=rank, group=group)
            else:
                dist.recv(travelling, src=source, group=group)
                tensor.copy_(travelling)


def _groups(world: World, tp_shared: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(number of the word, ranks that must have it equal), each group of two or more once, on all ranks alike."""
    for sharing in Sharing:
        for ranks in all_holders(world.mesh, sharing, world.ends, tp_shared=tp_shared):
            yield sharing, ranks
    if world.mesh.size > 1:
        yield _NUM_SHARINGS, tuple(world.mesh.ranks)


def _places(
    table: list[list[int]], groups: Sequence[tuple[int, tuple[int, ...]]], num_head: int
) -> list[tuple[_DriftedCopy, dict[int, int]]]:
    """Where the words of a group are not all equal, with each holder's word."""
    found = []
    for word, ranks in groups:
        sharing = None if word == _NUM_SHARINGS else Sharing(word)
        count = num_head - _NUM_SHARINGS if sharing is None else table[ranks[0]][sharing]
        for number in range(count):
            place = _DriftedCopy(sharing, number, ranks)
            first = _NUM_SHARINGS if sharing is None else num_head
            digests = {
                rank: table[rank][first + (number if sharing is None else _offset(table[rank], place))]
                for rank in ranks
            }
            if len(set(digests.values())) > 1:
                found.append((place, digests))
    return found


def _offset(row: Sequence[int], place: _DriftedCopy) -> int:
    """The number among all of a rank's copies, whose counts by sharing begin `row`."""
    assert place.sharing is not None, "a state is no copy"
    return sum(row[: place.sharing]) + place.number


def _title(replica: Replica) -> tuple[str, str, bool]:
    """Name, place in the whole tensor ("" for all of it), and whether it is a moment."""
    shard = replica.shard
    is_whole = all(span == (0, size) for span, size in zip(shard.box, shard.global_shape, strict=True))
    place = "" if is_whole else "[" + ", ".join(f"{start}:{stop}" for start, stop in shard.box) + "]"
    return shard.name, place, replica.is_moment


def _set_generator(role: str, state: Tensor, device: torch.device) -> None:
    if role == "cpu":
        torch.set_rng_state(state)
    else:
        torch.cuda.set_rng_state(state, device)


def _word_of(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _signed(word: int) -> int:
    return word - _WORD if word >= _HALF else word


def _error(finding: Finding) -> EmberwardError:
    """The finding as the error that ends all ranks."""
    return EmberwardError(
        finding.message,
        code=finding.code,
        expected="equal copies on all ranks",
        found="; ".join(finding.evidence),
        next=finding.next,
        cause=finding.cause,
        ranks=finding.culprit_ranks,
    )
