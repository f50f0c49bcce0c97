"""What a rank of DeepSpeed holds, as tensors of that rank's own shape: flat partitions of ZeRO 1, 2 and 3 taken apart.

The layouts are those that `_deepspeed` tells.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

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


def kept_out(heads: Sequence[TorchFile]) -> dict[tuple[str, str], Stored]:
    """What the optimizer does not hold: buffers and frozen parameters, from the module's own weights.

    `heads` is the model's file; with frozen parameters under ZeRO 3 those of all data-parallel ranks, which hold parts.
    """
    head, module = heads[0], heads[0].tree.get("module")
    frozen = head.tree.get("frozen_param_shapes") or {}
    names = {*(head.tree.get("buffer_names") or ()), *frozen}
    kept = {
        (FP32, name): head.stored(ref, name)
        for name, ref in (module.items() if isinstance(module, dict) else ())
        if name in names and isinstance(ref, TensorRef) and 0 not in ref.shape
    }
    if len(heads) > 1:
        kept.update({(FP32, name): _frozen(heads, name, tuple(size)) for name, size in frozen.items()})
    return kept


def _frozen(heads: Sequence[TorchFile], name: str, shape: tuple[int, ...]) -> Stored:
    """A frozen parameter of ZeRO 3: its parts lie end to end over the ranks, the last one padded."""
    parts = [head.stored(head.tree["frozen_param_fragments"][name], name) for head in heads]
    return from_flat(concatenate(name, parts, 0), 0, name, shape)


def param_shapes(head: TorchFile) -> list[dict[str, tuple[int, ...]]]:
    shapes = head.tree.get("param_shapes")
    if not shapes:
        raise unreadable("a model's file does not say the shapes", where=str(head.path), found="no param_shapes")
    groups = shapes if isinstance(shapes, list) else [shapes]
    return [{name: tuple(size) for name, size in group.items()} for group in groups]


def shapes_of(head: TorchFile) -> dict[str, tuple[int, ...]]:
    """Shape of every parameter that a model's file names."""
    return {name: shape for group in param_shapes(head) for name, shape in group.items()}


def slices_of_stage_1(head: TorchFile, ranks: list[TorchFile]) -> dict[tuple[str, str], Stored]:
    found: dict[tuple[str, str], Stored] = {}
    for group, shapes in enumerate(param_shapes(head)):
        fragments: dict[tuple[str, str], list[Stored]] = {}
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
            for name, address in mappings[group].items():
                start, numel = address.state["start"], address.state["numel"]
                for kind, flat in flats.items():
                    fragments.setdefault((kind, name), []).append(cut(flat, ((start, start + numel),)))
        for (kind, name), parts in fragments.items():
            found[kind, name] = from_flat(concatenate(name, parts, 0), 0, name, shapes[name])
    return found


def slices_of_stage_3(head: TorchFile, ranks: list[TorchFile]) -> dict[tuple[str, str], Stored]:
    shapes = shapes_of(head)
    by_rank: list[dict[str, Stored]] = []
    for file in ranks:
        optimizer = optimizer_of(file)
        groups = optimizer["fp32_flat_groups"]
        state = optimizer["optimizer_state_dict"]["state"]
        flats = [_flats(file, ref, state, group) for group, ref in enumerate(groups)]
        by_rank.append({kind: concatenate(kind, [flat[kind] for flat in flats], 0) for kind in flats[0]})
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
    flats = {FP32: file.stored(fp32, FP32)}
    for moment in MOMENTS:
        ref = state.get(group, {}).get(moment)
        if isinstance(ref, TensorRef):
            flats[moment] = file.stored(ref, moment)
    return flats
