"""What a rank of DeepSpeed holds, as tensors of that rank's own shape: flat partitions of ZeRO 1, 2 and 3 taken apart.

The layouts are those that `_deepspeed` tells.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from emberward.checkpoint._foreign._evidence import Evidence
from emberward.checkpoint._foreign._problems import not_understood, unreadable
from emberward.checkpoint._foreign._source import MOMENTS
from emberward.checkpoint._foreign._stored import Stored, concatenate, cut, from_flat, join
from emberward.checkpoint._foreign._torch_file import TorchFile
from emberward.checkpoint._foreign._tree import TensorRef

FP32 = "fp32"
"""The kind of a full-precision weight, by the name that DeepSpeed's universal form gives it."""


def optimizer_of(file: TorchFile) -> Mapping[str, Any]:
    try:
        found = file.tree["optimizer_state_dict"]
    except (KeyError, TypeError) as error:
        raise unreadable(
            "an optimizer's file holds no state", where=str(file.path), found="no optimizer_state_dict"
        ) from error
    assert isinstance(found, dict)
    return found


def param_shapes(head: TorchFile) -> list[dict[str, tuple[int, ...]]]:
    shapes = head.tree.get("param_shapes")
    if not shapes:
        raise unreadable("a model's file does not say the shapes", where=str(head.path), found="no param_shapes")
    groups = shapes if isinstance(shapes, list) else [shapes]
    return [{name: tuple(size) for name, size in group.items()} for group in groups]


def shapes_of(head: TorchFile) -> dict[str, tuple[int, ...]]:
    """Shape of every parameter that a model's file names."""
    return {name: shape for group in param_shapes(head) for name, shape in group.items()}


def slices_of_stage_1(head: TorchFile, ranks: list[TorchFile], evidence: Evidence) -> dict[tuple[str, str], Stored]:
    found: dict[tuple[str, str], Stored] = {}
    for group, shapes in enumerate(param_shapes(head)):
        fragments: dict[tuple[str, str], list[Stored]] = {}
        order: list[str] = []
        for file in ranks:
            optimizer = optimizer_of(file)
            flats = _flats(
                file,
                optimizer["single_partition_of_fp32_groups"][group],
                optimizer["base_optimizer_state"]["state"],
                group,
            )
            mappings = optimizer.get("param_slice_mappings")
            if mappings is None:
                raise not_understood(
                    "this checkpoint is older than DeepSpeed's slice mappings",
                    where=str(file.path),
                    expected="DeepSpeed 0.8 or later",
                    found=str(optimizer.get("ds_version")),
                )
            expected = [name for name in shapes if name in mappings[group]]
            evidence.require_equal(file.path, "the order of its parameters", expected, list(mappings[group]))
            order += [name for name in mappings[group] if name not in order[-1:]]
            if order != list(shapes)[: len(order)]:
                what = "it holds another range of the parameters than its rank does"
                evidence.contradict(file.path, what, _after(list(shapes), order), next(iter(mappings[group]), "none"))
            for name, address in mappings[group].items():
                start, numel = address.state["start"], address.state["numel"]
                room = min(flat.num_elements for flat in flats.values())
                if start + numel > room:
                    evidence.contradict(file.path, f"{name} reaches beyond its part", str(start + numel), str(room))
                for kind, flat in flats.items():
                    fragments.setdefault((kind, name), []).append(cut(flat, ((start, start + numel),)))
        _require_paddings(head, ranks, group, sum(map(math.prod, shapes.values())), evidence)
        for (kind, name), parts in fragments.items():
            whole = concatenate(name, parts, 0)
            if whole.num_elements != math.prod(shapes[name]):
                what = f"the parts of {name} ({kind}) do not have its elements"
                evidence.contradict(ranks[-1].path, what, str(math.prod(shapes[name])), str(whole.num_elements))
            found[kind, name] = from_flat(whole, 0, name, shapes[name])
    return found


def _after(names: list[str], order: list[str]) -> str:
    """The parameter with which a rank should begin: the first that differs."""
    return next((name for name, own in zip(names, order, strict=False) if name != own), "no more parameters")


def _require_paddings(
    head: TorchFile, ranks: list[TorchFile], group: int, num_elements: int, evidence: Evidence
) -> None:
    """Raises K123 unless all parts are equally long, and the last rank's padding fills the rest."""
    lengths = [_part_length(optimizer_of(file), group) for file in ranks]
    for file, length in zip(ranks, lengths, strict=True):
        if file is not ranks[-1] or length > lengths[0]:
            evidence.require_equal(file.path, f"the length of its part of group {group}", lengths[0], length)
        optimizer = optimizer_of(file)
        paddings, aligned = optimizer.get("group_paddings"), optimizer.get("param_alignment_paddings")
        if paddings is None or any(any(own) for own in aligned or ()):
            continue
        padding = lengths[0] * len(ranks) - num_elements if file is ranks[-1] else 0
        evidence.require_equal(file.path, f"the padding of its part of group {group}", padding, paddings[group])


def _part_length(optimizer: Mapping[str, Any], group: int) -> int:
    """Elements of a rank's part with its padding, which the weights alone may lack."""
    state = optimizer["base_optimizer_state"]["state"].get(group, {})
    flats = [optimizer["single_partition_of_fp32_groups"][group], *(state.get(moment) for moment in MOMENTS)]
    return max(math.prod(ref.shape) for ref in flats if isinstance(ref, TensorRef))


def slices_of_stage_3(head: TorchFile, ranks: list[TorchFile], evidence: Evidence) -> dict[tuple[str, str], Stored]:
    shapes = shapes_of(head)
    by_rank: list[dict[str, Stored]] = []
    length = sum(-(-math.prod(shape) // len(ranks)) for shape in shapes.values())
    for file in ranks:
        optimizer = optimizer_of(file)
        groups = optimizer["fp32_flat_groups"]
        state = optimizer["optimizer_state_dict"]["state"]
        flats = [_flats(file, ref, state, group) for group, ref in enumerate(groups)]
        by_rank.append({kind: concatenate(kind, [flat[kind] for flat in flats], 0) for kind in flats[0]})
        for kind, stored in by_rank[-1].items():
            evidence.require_equal(file.path, f"the elements of its {kind}", length, stored.num_elements)
        evidence.require_equal(file.path, "its moments", sorted(by_rank[0]), sorted(by_rank[-1]))
    found: dict[tuple[str, str], Stored] = {}
    offset = 0
    for name, shape in shapes.items():
        numel = math.prod(shape)
        share = -(-numel // len(ranks))
        for kind in by_rank[0]:
            parts = []
            for rank, own in enumerate(by_rank):
                begin = min(rank * share, numel)
                end = min(begin + share, numel)
                parts.append(((begin,), cut(own[kind], ((offset, offset + end - begin),))))
            found[kind, name] = from_flat(join(name, (numel,), parts), 0, name, shape)
        offset += share
    return found


def _flats(file: TorchFile, fp32: TensorRef, state: Mapping[Any, Any], group: int) -> dict[str, Stored]:
    """A rank's flat tensors of a group: the fp32 weights, and the moments where the optimizer has any yet."""
    own = state.get(group, {})
    least = math.prod(fp32.shape)  # the last rank's weights may lack the padding that its moments have
    moments = {key: ref for key, ref in own.items() if isinstance(ref, TensorRef) and _reaches(ref, least)}
    return {FP32: file.stored(fp32, FP32), **{key: file.stored(ref, key) for key, ref in moments.items()}}


def _reaches(ref: TensorRef, least: int) -> bool:
    return len(ref.shape) == 1 and ref.shape[0] >= least


def is_flat(keys: Sequence[Any], ref: TensorRef) -> bool:
    """Whether a tensor of an optimizer's file is one of those that `_flats` finds."""
    if "single_partition_of_fp32_groups" in keys or "fp32_flat_groups" in keys:
        return True
    return "state" in keys and keys[-1] != "step" and len(ref.shape) == 1


def is_padding(
    keys: Sequence[Any], ref: TensorRef, head: TorchFile, file: TorchFile, rank: int, num_ranks: int
) -> bool:
    """Whether a rank's part, of a frozen parameter or of all, lies behind the last element that there is."""
    if keys[0] == "frozen_param_fragments":
        numel = math.prod(head.tree["frozen_param_shapes"][keys[1]])
        return ref.shape != tuple(head.tree["frozen_param_shapes"][keys[1]]) and rank * -(-numel // num_ranks) >= numel
    if not is_flat(keys, ref):
        return False
    mappings = optimizer_of(file).get("param_slice_mappings")
    if mappings is None:  # ZeRO 3: a part of each parameter
        return all(rank * -(-math.prod(shape) // num_ranks) >= math.prod(shape) for shape in shapes_of(head).values())
    is_weight = "single_partition_of_fp32_groups" in keys
    return not mappings[int(keys[-1] if is_weight else keys[-2])]
