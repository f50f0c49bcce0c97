"""From what model-parallel ranks hold to whole tensors with our names: slices joined, replicas settled, padding cut."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from emberward.checkpoint._foreign._deepspeed import Slices
from emberward.checkpoint._foreign._family import Family, Rule, join_ranks, split_fused
from emberward.checkpoint._foreign._problems import no_rule
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._replicas import Replicas, settle
from emberward.checkpoint._foreign._source import model_name, moment_name
from emberward.checkpoint._foreign._stored import Stored, cut
from emberward.checkpoint._foreign._zero import FP32
from emberward.findings import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How foreign tensors are read: the model's family, what counts when replicas disagree, rows of the vocabulary.

    Without a family names stay as they are and nothing is split.
    """

    family: Family | None = None
    replicas: Replicas = field(default_factory=Replicas)
    vocab_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Whole tensors by (kind, their name), and a finding for each whose replicas were not equal."""

    tensors: Mapping[tuple[str, str], Stored]
    findings: tuple[Finding, ...]


def merge(slices: Sequence[Slices], tensor_parallel: int, reading: Reading) -> Merged:
    """The whole tensors that the slices of all model-parallel ranks make up. Reads replicated tensors, to compare them.

    Raises K114 when slices must be joined and no family says how, K112 when replicas disagree and none is to count.
    """
    holders: dict[tuple[str, str], list[Slices]] = {}
    for part in slices:
        for key in part.tensors:
            holders.setdefault(key, []).append(part)
    tensors, findings = {}, list[Finding]()
    with Reader() as reader:
        for (kind, name), held_by in holders.items():
            stages: dict[int, dict[int, Stored]] = {}
            for part in held_by:
                stages.setdefault(part.stage, {})[part.group_rank] = part.tensors[kind, name]
            text = our_name(kind, name)
            wholes = {}
            for stage, by_rank in stages.items():
                if tensor_parallel == 1:
                    wholes[stage] = by_rank[0]
                    continue
                rule = _rule_for(reading.family, name)
                if rule is None:
                    continue
                if rule.split is not None:
                    wholes[stage] = join_ranks(rule, name, [by_rank[rank] for rank in sorted(by_rank)])
                else:
                    settled = settle(text, by_rank, reading.replicas, reader)
                    findings += [settled.finding] if settled.finding else []
                    wholes[stage] = settled.stored.named(name)
            if not wholes:
                continue
            settled = settle(text, wholes, reading.replicas, reader)  # tied ends of a pipeline
            findings += [settled.finding] if settled.finding else []
            tensors[kind, name] = settled.stored.named(name)
    return Merged(tensors=tensors, findings=tuple(findings))


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


def to_ours(
    tensors: Mapping[tuple[str, str], Stored], reading: Reading
) -> tuple[dict[str, Stored], tuple[Finding, ...]]:
    """The tensors under our names, by family; findings for tied copies that are not equal to their original.

    Raises K114 for a name without a rule, K112 when a tied copy differs and nothing is said to count.
    """
    ours: dict[str, Stored] = {}
    family = reading.family
    if family is None:
        return {
            our_name(kind, name): stored.named(our_name(kind, name)) for (kind, name), stored in tensors.items()
        }, ()
    tied: list[tuple[str, str, Stored]] = []
    for (kind, name), stored in tensors.items():
        if name in family.tied:
            tied.append((kind, family.tied[name], stored))
            continue
        match = family.match(name)
        if match is None:
            continue
        if match.rule.is_vocab and reading.vocab_size is not None:
            stored = cut(stored, ((0, min(reading.vocab_size, stored.shape[0])), *((0, n) for n in stored.shape[1:])))
        for part in split_fused(match.rule, stored, match.ours):
            ours[our_name(kind, part.name)] = part.named(our_name(kind, part.name))
    return ours, _settle_tied(ours, tied, reading)


def _settle_tied(
    ours: dict[str, Stored], tied: Iterable[tuple[str, str, Stored]], reading: Reading
) -> tuple[Finding, ...]:
    findings = []
    with Reader() as reader:
        for kind, original, copy in tied:
            name = our_name(kind, original)
            if name not in ours:
                ours[name] = copy.named(name)
            elif copy.shape == ours[name].shape:
                settled = settle(name, {0: ours[name], 1: copy}, reading.replicas, reader)
                ours[name] = settled.stored
                findings += [settled.finding] if settled.finding else []
    return tuple(findings)


def our_name(kind: str, name: str) -> str:
    """Our name of a tensor: the weight, or a moment of it."""
    return model_name(name) if kind == FP32 else moment_name(kind, name)
