"""From what model-parallel ranks hold to whole tensors with our names: slices joined, replicas settled, padding cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from emberward.checkpoint._foreign._contents import Held, Item
from emberward.checkpoint._foreign._deepspeed import Slices
from emberward.checkpoint._foreign._family import Family, Rule, join_ranks, split_fused
from emberward.checkpoint._foreign._problems import no_rule, unreadable
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._replicas import Replicas, settle
from emberward.checkpoint._foreign._source import model_name, moment_name
from emberward.checkpoint._foreign._stored import Stored, cut
from emberward.checkpoint._foreign._zero import FP32
from emberward.findings import Finding

NOTHING: Mapping[str, Held] = MappingProxyType({})
IGNORED = "the family ignores it"
COMPARED = "held more than once; compared, and one was imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How foreign tensors are read: the model's family, what counts when replicas disagree, rows of the vocabulary.

    Without a family names stay as they are and nothing is split. `accepted` names files whose damage is accepted.
    """

    family: Family | None = None
    replicas: Replicas = field(default_factory=Replicas)
    vocab_size: int | None = None
    accepted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Whole tensors by (kind, their name), a finding for each whose replicas were not equal, and what is left out."""

    tensors: Mapping[tuple[str, str], Stored]
    findings: tuple[Finding, ...]
    items: tuple[Item, ...]


def merge(slices: Sequence[Slices], tensor_parallel: int, reading: Reading) -> Merged:
    """The whole tensors that the slices of all model-parallel ranks make up. Reads replicated tensors, to compare them.

    Raises K114 when slices must be joined and no family says how, K112 when replicas disagree and none is to count.
    """
    holders: dict[tuple[str, str], list[Slices]] = {}
    for part in slices:
        for key in part.tensors:
            holders.setdefault(key, []).append(part)
    tensors, findings, items = {}, list[Finding](), list[Item]()
    with Reader() as reader:
        for (kind, name), held_by in holders.items():
            stages: dict[int, dict[int, Stored]] = {}
            for part in held_by:
                stages.setdefault(part.stage, {})[part.group_rank] = part.tensors[kind, name]
            text = our_name(kind, name)
            rule = None if tensor_parallel == 1 else _rule_for(reading.family, name)
            places = tuple(part.tensors[kind, name] for part in held_by)
            if tensor_parallel > 1 and rule is None:
                items.append(Item(name=text, held=Held.TENSOR, why=IGNORED, places=places))
                continue
            wholes = {}
            for stage, by_rank in stages.items():
                if rule is not None and rule.split is not None:
                    wholes[stage] = join_ranks(rule, name, [by_rank[rank] for rank in sorted(by_rank)])
                    continue
                settled = settle(text, by_rank, reading.replicas, reader)
                findings += [settled.finding] if settled.finding else []
                wholes[stage] = settled.stored.named(name)
            settled = settle(text, wholes, reading.replicas, reader)  # tied ends of a pipeline
            findings += [settled.finding] if settled.finding else []
            tensors[kind, name] = settled.stored.named(name)
            if len(stages) > 1 or (len(held_by) > 1 and (rule is None or rule.split is None)):
                items.append(Item(name=text, held=Held.REPLICA, why=COMPARED, places=places))
    return Merged(tensors=tensors, findings=tuple(findings), items=tuple(items))


def _rule_for(family: Family | None, name: str) -> Rule | None:
    """The rule by which the ranks' slices are joined; None when the name is ignored."""
    if family is None:
        raise no_rule(
            "tensor-parallel slices can be joined only with a model family",
            where=name,
            expected="a family that says which dim is split and what is replicated",
            found="none",
            next="give --family NAME or --family FILE.yaml; docs/convert.md shows the form",
        )
    match = family.match(name)
    return None if match is None else match.rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """Tensors under our names, findings for tied copies that are not equal to their original, and each one's item."""

    tensors: dict[str, Stored]
    findings: tuple[Finding, ...]
    items: tuple[Item, ...]


def to_ours(tensors: Mapping[tuple[str, str], Stored], reading: Reading, held: Mapping[str, Held] = NOTHING) -> Ours:
    """The tensors under our names, by family. `held` says what a weight is that is not a trained one.

    Raises K114 for a name without a rule, K112 when a tied copy differs and nothing is said to count.
    """
    ours: dict[str, Stored] = {}
    family, items = reading.family, list[Item]()
    tied: list[tuple[str, str, Stored]] = []
    for (kind, name), stored in tensors.items():
        what = held.get(name, Held.WEIGHT) if kind == FP32 else Held.MOMENT
        title = name if kind == FP32 else f"{name} ({kind})"
        if family is not None and name in family.tied:
            tied.append((kind, name, _without_padding(stored, reading)))
            continue
        match = None if family is None else family.match(name)
        if family is not None and match is None:
            items.append(Item(name=title, held=what, why=IGNORED, places=(stored,)))
            continue
        names: list[str] = []
        if match is None:
            parts = [stored.named(name)]
        else:
            stored = _without_padding(stored, reading) if match.rule.is_vocab else stored
            parts = split_fused(match.rule, stored, match.ours)
        for part in parts:
            names.append(our_name(kind, part.name))
            ours[names[-1]] = part.named(names[-1])
        items.append(Item(name=title, held=what, ours=tuple(names)))
    findings = []
    with Reader() as reader:
        for kind, name, copy in tied:
            finding, item = _settle_tied(ours, kind, name, copy, reading, reader)
            findings += [finding] if finding else []
            items.append(item)
    return Ours(tensors=ours, findings=tuple(findings), items=tuple(items))


def _without_padding(stored: Stored, reading: Reading) -> Stored:
    """A tensor of the vocabulary without its padded rows, where their number was given."""
    if reading.vocab_size is None:
        return stored
    return cut(stored, ((0, min(reading.vocab_size, stored.shape[0])), *((0, n) for n in stored.shape[1:])))


def _settle_tied(
    ours: dict[str, Stored], kind: str, theirs: str, copy: Stored, reading: Reading, reader: Reader
) -> tuple[Finding | None, Item]:
    """Compares a tied copy with its original; it is the original where there is no other."""
    assert reading.family is not None
    original = reading.family.tied[theirs]
    name = our_name(kind, original)
    if name not in ours:
        ours[name] = copy.named(name)
        return None, Item(name=theirs, held=Held.TIED, ours=(name,))
    if copy.shape != ours[name].shape:
        raise unreadable(
            "a tied copy does not have the shape of its original",
            where=f"{theirs}, tied to {original}",
            expected=str(ours[name].shape),
            found=str(copy.shape),
            next="--vocab-size cuts padded rows of both",
        )
    settled = settle(name, {0: ours[name], 1: copy}, reading.replicas, reader)
    ours[name] = settled.stored
    return settled.finding, Item(name=theirs, held=Held.TIED, why=f"the same as {name}", places=(copy,))


def our_name(kind: str, name: str) -> str:
    """Our name of a tensor: the weight, or a moment of it."""
    return model_name(name) if kind == FP32 else moment_name(kind, name)
