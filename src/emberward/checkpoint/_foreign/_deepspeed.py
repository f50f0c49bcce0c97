"""DeepSpeed's checkpoints of ZeRO 1, 2 and 3, with pipeline and tensor parallelism, as logical tensors.

Layout: DeepSpeed 0.19.8, measured (``runtime/engine.py``, ``runtime/zero/stage_1_and_2.py``,
``runtime/zero/stage3.py``):

- ``[bf16_]zero_pp_rank_{DP}_mp_rank_{MP}_optim_states.pt`` holds a rank's part of the fp32 weights and moments. MP
  counts pipeline stages, and within a stage tensor-parallel ranks.
- ZeRO 1 and 2: each group's parameters are laid end to end and cut into one flat part a rank; ``param_slice_mappings``
  says which range of a rank's part belongs to a parameter. A parameter may span ranks.
- ZeRO 3: every parameter is cut on its own: rank r holds elements [r * ceil(n / ranks), ...), and these lie end to end
  in the order of ``param_shapes``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._bits import to_floats
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._stored import Stored
from emberward.checkpoint._foreign._torch_file import TorchFile, open_torch_file
from emberward.checkpoint._foreign._tree import Instance, TensorRef
from emberward.checkpoint._foreign._zero import (
    kept_out,
    optimizer_of,
    param_shapes,
    slices_of_stage_1,
    slices_of_stage_3,
)

_OPTIM = re.compile(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_MODEL = re.compile(r"mp_rank_(\d+)_model_states\.pt")
_MODEL_ZERO3 = re.compile(r"zero_pp_rank_(\d+)_mp_rank_(\d+)_model_states\.pt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """What one model-parallel rank holds: by (kind, name) a tensor of that rank's own shape.

    Kinds: fp32, the moments.
    """

    stage: int
    group_rank: int
    tensors: Mapping[tuple[str, str], Stored]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeedSet:
    """A whole checkpoint: each model-parallel rank's slices, and the trees of its files without the flat tensors.

    `groups` are the optimizer's parameter groups, by name. Tensors in the trees are `Stored`.
    """

    slices: tuple[Slices, ...]
    zero_stage: int
    num_data_ranks: int
    tensor_parallel: int
    groups: tuple[tuple[str, ...], ...]
    num_updates: int | None
    states: Mapping[str, Any]
    optimizer: Mapping[str, Any]
    files: tuple[Path, ...]


def is_deepspeed(folder: Path) -> bool:
    """Whether a folder holds a DeepSpeed checkpoint of some ZeRO stage."""
    return folder.is_dir() and any(_OPTIM.fullmatch(entry.name) for entry in folder.iterdir())


def read_set(folder: Path) -> DeepSpeedSet:
    """The checkpoint in the folder. Reads pickles, no tensor. Raises K110 when files are missing or contradict."""
    names = sorted(entry.name for entry in folder.iterdir())
    optim = {(int(m[2]), int(m[1])): folder / name for name in names if (m := _OPTIM.fullmatch(name))}
    models = {
        **{(int(m[2]), int(m[1])): folder / name for name in names if (m := _MODEL_ZERO3.fullmatch(name))},
        **{(int(m[1]), 0): folder / name for name in names if (m := _MODEL.fullmatch(name))},
    }
    num_model, num_data = _require_complete(folder, optim, models)
    try:
        return _read_whole(optim, models, num_model, num_data)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise unreadable(
            "the files are not laid out as DeepSpeed 0.8 and later lay them out",
            where=str(folder),
            expected="rigid ZeRO checkpoints with slice mappings (no elastic_checkpoint, no 1-bit optimizer)",
            found=f"{type(error).__name__}: {error}",
        ) from error


def _require_complete(
    folder: Path, optim: Mapping[tuple[int, int], Path], models: Mapping[tuple[int, int], Path]
) -> tuple[int, int]:
    """How many model-parallel and data-parallel ranks there were. Raises K110 when a file of one is missing."""
    num_model, num_data = 1 + max(key[0] for key in optim), 1 + max(key[1] for key in optim)
    if (0, 0) in models:  # a last rank's files may be missing: what rank 0 knew counts
        first = open_torch_file(models[0, 0]).tree
        num_model = max(num_model, int(first.get("mp_world_size") or 1))
        num_data = max(num_data, int(first.get("dp_world_size") or 1))
    for mp_rank in range(num_model):
        if (mp_rank, 0) not in models:
            raise _missing(folder, f"the model's file of model rank {mp_rank}")
        for dp_rank in range(num_data):
            if (mp_rank, dp_rank) not in optim:
                raise _missing(folder, f"the optimizer's file of data rank {dp_rank} and model rank {mp_rank}")
    return num_model, num_data


def _read_whole(
    optim: Mapping[tuple[int, int], Path], models: Mapping[tuple[int, int], Path], num_model: int, num_data: int
) -> DeepSpeedSet:
    heads = [open_torch_file(models[mp_rank, 0]) for mp_rank in range(num_model)]
    tp_size = _tensor_parallel(heads[0].tree, num_model)
    slices, zero_stage, first = [], 0, open_torch_file(optim[0, 0])
    for mp_rank, head in enumerate(heads):
        ranks = [open_torch_file(optim[mp_rank, dp_rank]) for dp_rank in range(num_data)]
        zero_stage = _zero_stage(ranks[0])
        is_cut = zero_stage == 3 and bool(head.tree.get("frozen_param_shapes"))
        peers = [open_torch_file(models[mp_rank, dp_rank]) for dp_rank in range(num_data)] if is_cut else [head]
        read = slices_of_stage_3 if zero_stage == 3 else slices_of_stage_1
        slices.append(
            Slices(
                stage=mp_rank // tp_size,
                group_rank=mp_rank % tp_size,
                tensors={**kept_out(peers), **read(head, ranks)},
            )
        )
    return DeepSpeedSet(
        slices=tuple(slices),
        zero_stage=zero_stage,
        num_data_ranks=num_data,
        tensor_parallel=tp_size,
        groups=groups_of(heads),
        num_updates=_update_count(first),
        states=states_of(heads[0]),
        optimizer=without_state(first, optimizer_of(first)),
        files=(*(head.path for head in heads), *optim.values()),
    )


def _missing(folder: Path, what: str) -> Exception:
    return unreadable(
        "a file of the checkpoint is missing",
        where=str(folder),
        expected=what,
        found="no such file",
        next="copy the folder again, with the files of all ranks",
    )


def _tensor_parallel(tree: Mapping[str, Any], num_model: int) -> int:
    sizes = tree.get("checkpoint_parallel_dimensions") or {}
    tp_size = int(sizes.get("tp_degree") or 0)
    if tp_size > 0:
        return tp_size
    stages = int(sizes.get("pp_degree") or 1)
    return max(1, num_model // stages)


def _zero_stage(file: TorchFile) -> int:
    stage = optimizer_of(file).get("zero_stage")
    return int(stage.args[0]) if isinstance(stage, Instance) else int(stage or 1)


def low_precision_weights(folder: Path, name: str) -> list[Stored]:
    """The copies of a parameter that the model computes with, in every file that has one.

    They lie under the parameter's name in a model's file, or, with a pipeline, under its name within the layer in
    ``layer_{LAYER}-model_{TP}-model_states.pt``.
    """
    found = []
    for path in sorted(folder.glob("*mp_rank_*_model_states.pt")):
        file = open_torch_file(path)
        module = file.tree.get("module")
        ref = module.get(name) if isinstance(module, dict) else None
        found += [file.stored(ref, name)] if isinstance(ref, TensorRef) and 0 not in ref.shape else []
    layer, _, local = name.partition(".")
    if layer == "tied_modules":
        layer, local = "*", local.partition(".")[2]
    if layer == "*" or layer.isdigit():
        for path in sorted(folder.glob(f"layer_{layer if layer == '*' else f'{int(layer):02d}'}-*model_states.pt")):
            file = open_torch_file(path)
            ref = file.tree.get(local) if isinstance(file.tree, dict) else None
            found += [file.stored(ref, name)] if isinstance(ref, TensorRef) else []
    return found


def groups_of(heads: Sequence[TorchFile]) -> tuple[tuple[str, ...], ...]:
    """Names of the parameters of each optimizer group, over all model-parallel ranks, in the order of the stages."""
    groups: list[dict[str, None]] = []
    for head in heads:
        for index, shapes in enumerate(param_shapes(head)):
            if index == len(groups):
                groups.append({})
            groups[index].update(dict.fromkeys(shapes))
    return tuple(tuple(group) for group in groups)


def states_of(head: TorchFile) -> dict[str, Any]:
    """What a model's file holds beside the weights: scheduler, counts, configuration, the client's own values."""
    left_out = ("module", "optimizer", "param_shapes", "frozen_param_shapes", "frozen_param_fragments")
    return {key: head.placed(value, f"/{key}") for key, value in head.tree.items() if key not in left_out}


def _update_count(file: TorchFile) -> int | None:
    """How many updates the moments have seen, None when the optimizer does not say."""
    tree = optimizer_of(file)
    base = tree.get("base_optimizer_state") or tree.get("optimizer_state_dict") or {}
    for state in (base.get("state") or {}).values():
        step = state.get("step")
        return scalar(file, step) if step is not None else None
    return None


def scalar(file: TorchFile, value: Any) -> int:
    """A count that is a number or a tensor of one element; reads it."""
    if not isinstance(value, TensorRef):
        return int(value)
    with Reader() as reader:
        return int(to_floats(reader.array(file.stored(value, "step")), value.dtype).reshape(-1)[0])


def without_state(file: TorchFile, optimizer: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's tree without its flat tensors; they are made anew where they are needed."""
    kept: dict[str, Any] = {}
    for key, value in optimizer.items():
        if key in ("single_partition_of_fp32_groups", "fp32_flat_groups", "param_slice_mappings"):
            continue
        if key in ("base_optimizer_state", "optimizer_state_dict") and isinstance(value, dict):
            value = {**value, "state": _plain_steps(value.get("state") or {})}
        kept[key] = file.placed(value, f"/optimizer/{key}")
    return kept


def _plain_steps(state: Mapping[Any, Any]) -> dict[Any, Any]:
    """The count of updates where it is a number: some optimizers keep it so, and take no tensor back."""
    steps = {index: own.get("step") for index, own in state.items() if isinstance(own, dict)}
    return {index: {"step": step} for index, step in steps.items() if isinstance(step, int)}
