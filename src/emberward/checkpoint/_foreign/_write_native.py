"""Writes DeepSpeed's own files of ZeRO 1, 2 and 3, which an engine of the same ranks loads without more ado.

[Note: native files]
The layout is the one that `_deepspeed` reads, cut as `_native_cut` tells. A flat part holds a group's parameters in the
order in which the module registers them. That order and the optimizer's own settings are known only where the source
came from DeepSpeed; of another source the universal form can be written, which needs neither.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.checkpoint._convert import OutFile, Plan
from emberward.checkpoint._foreign._family import Family
from emberward.checkpoint._foreign._native_cut import (
    SUB_GROUP_ELEMENTS,
    Stages,
    by_stage,
    flat_part,
    local_name,
    sub_groups,
)
from emberward.checkpoint._foreign._problems import not_writable
from emberward.checkpoint._foreign._source import MOMENTS, Form, Source
from emberward.checkpoint._foreign._stored import Stored, concatenate, cut, flattened
from emberward.checkpoint._foreign._tree import Global, Instance, Size
from emberward.checkpoint._foreign._write_universal import (
    DS_VERSION,
    Theirs,
    fresh_states,
    in_their_names,
    kept_tree,
    scalar_of,
    torch_out,
)
from emberward.checkpoint._foreign._zero import FP32
from emberward.checkpoint._format import DType
from emberward.checkpoint._storage import DISK, write_new

_HALVES = {"bf16": DType.BF16, "bfloat16": DType.BF16, "fp16": DType.F16}
_STAGES = {Form.ZERO_1: 1, Form.ZERO_2: 2, Form.ZERO_3: 3}
_KEPT = ("loss_scaler", "dynamic_loss_scale", "overflow", "clip_grad")
"""What the optimizer's file keeps of the source's. A clip that the source does not know is the engine's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """The source in DeepSpeed's words. `groups` are the optimizer's, of names; `steps` are counts of updates."""

    params: Mapping[str, Theirs]
    untrained: tuple[Theirs, ...]
    groups: tuple[tuple[str, ...], ...]
    settings: tuple[Mapping[str, Any], ...]
    states: Mapping[str, Any]
    optimizer: Mapping[str, Any]
    step: Any
    num_data: int
    tied: Mapping[str, str]
    tied_layers: Mapping[str, Any]

    def flat(self, kind: str, name: str) -> Stored:
        """A weight or moment, its elements one after the other."""
        param = self.params[name]
        return flattened(param.weight if kind == FP32 else param.moments[kind])

    @property
    def buffers(self) -> set[str]:
        """Names of what is no parameter at all."""
        return set(self.states.get("buffer_names") or ())

    def numel(self, name: str) -> int:
        return self.params[name].weight.num_elements


def plan_native(
    source: Source,
    result: Path,
    family: Family | None,
    stamp: Sequence[Any],
    *,
    form: Form,
    num_ranks: int,
    stages: Stages,
) -> Plan:
    """The conversion of a source into DeepSpeed's files for `num_ranks` ranks in `stages`, with ``latest`` beside it.

    Raises K120 when the source does not tell the parameters' order or the optimizer's settings, or the ranks do not
    divide into the stages.
    """
    stage = _STAGES[form]
    if num_ranks % stages.count or (stage > 1 and stages.count > 1):
        raise not_writable(
            "the ranks cannot be cut so",
            where="--ranks and --stages",
            expected=f"one stage with ZeRO {stage}" if stage > 1 else f"a multiple of {stages.count} ranks",
            found=f"{num_ranks} ranks, {stages.count} stages",
        )
    model = _model(source, family, num_ranks // stages.count)
    files = _files_of_zero3(model) if stage == 3 else _files_of_zero1(model, stages, stage)

    def finish(_temporary: Path, _results: Mapping[str, Mapping[str, Any]]) -> None:
        pointer = result.parent / "latest"
        pointer.unlink(missing_ok=True)
        write_new(DISK, pointer, result.name.encode())

    about = {
        "form": form.value,
        "sources": list(stamp),
        "family": None if family is None else family.name,
        "ranks": num_ranks,
        "stages": [stages.count, list(stages.first_layers or ())],
    }
    num_tensors = len(model.params) * (1 + len(MOMENTS)) + len(model.untrained)
    return Plan(result=result, files=tuple(files), about=about, finish=finish, num_tensors=num_tensors)


def _model(source: Source, family: Family | None, num_data: int) -> _Model:
    params = in_their_names(source, family)
    trained = {param.name: param for param in params if len(param.moments) == len(MOMENTS)}
    named = source.meta.get("deepspeed", {}).get("groups", [])
    groups = [tuple(name for name in group if name in trained) for group in named]
    optimizer = kept_tree(source, "optimizer")
    base = optimizer.pop("base_optimizer_state", None) or optimizer.pop("optimizer_state_dict", None) or {}
    settings = base.get("param_groups") or optimizer.pop("param_groups", None) or []
    if not trained or sum(map(len, groups)) != len(trained) or len(settings) < len(groups):
        raise not_writable(
            "the source does not tell how DeepSpeed's optimizer orders and treats its parameters",
            where=str(source.path),
            expected="a checkpoint of DeepSpeed, or one that was imported from it",
            found=f"{len(trained)} trained parameters, {sum(map(len, groups))} of them in {len(groups)} groups",
            next="write it as deepspeed-universal, which an engine of any stage loads",
        )
    counts = [own["step"] for own in (base.get("state") or {}).values() if "step" in own]
    step = float(source.meta.get("num_updates") or source.step or 0)
    return _Model(
        params=trained,
        untrained=tuple(param for param in params if param.name not in trained),
        groups=tuple(groups),
        settings=tuple(settings),
        states={**fresh_states(source), **kept_tree(source, "states")},
        optimizer={key: optimizer[key] for key in _KEPT if key in optimizer},
        step=counts[0] if counts else scalar_of(step),
        num_data=num_data,
        tied=source.meta["deepspeed"].get("tied", {}),
        tied_layers=source.meta["deepspeed"].get("tied_layers", {}),
    )


def _fresh_optimizer(model: _Model, stage: int) -> dict[str, Any]:
    """What either stage's file says beside the flat parts."""
    scaler = Instance(
        of=Global(module="deepspeed.runtime.fp16.loss_scaler", name="LossScaler"),
        args=(),
        is_called=False,
        state={"cur_scale": 1.0, "dynamic": False},
    )
    enum = Global(module="deepspeed.runtime.zero.config", name="ZeroStageEnum")
    return {
        "loss_scaler": scaler,
        "dynamic_loss_scale": False,
        "overflow": False,
        **model.optimizer,
        "zero_stage": Instance(of=enum, args=(stage,), is_called=True),
    }


def _settings(model: _Model, indexes: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """The optimizer's groups, with the numbers of the flat tensors that each has now."""
    return [
        {**settings, "params": list(own)} for settings, own in zip(model.settings[: len(indexes)], indexes, strict=True)
    ]


def _optimizer_file(model: _Model, mp_rank: int, dp_rank: int, body: Mapping[str, Any]) -> OutFile:
    prefix = "bf16_" if _compute_type(model) is DType.BF16 else ""
    name = f"{prefix}zero_pp_rank_{dp_rank}_mp_rank_{mp_rank:02d}_optim_states"
    head = {"ds_config": model.states.get("ds_config", {}), "ds_version": DS_VERSION}
    return torch_out(f"{name}.pt", name, {"optimizer_state_dict": dict(body), **head})


def _frozen(model: _Model, part: Callable[[Stored], Stored]) -> dict[str, Any]:
    """What a model's file says of parameters that are not trained: their shapes, and of each what the rank holds."""
    frozen = [param for param in model.untrained if param.name not in model.buffers]
    return {
        "frozen_param_shapes": OrderedDict((param.name, Size(param.weight.shape)) for param in frozen),
        "frozen_param_fragments": OrderedDict((param.name, part(param.weight)) for param in frozen),
    }


def _model_file(
    model: _Model, name: str, groups: Sequence[Sequence[str]], *, num_stages: int, module: Any, **more: Any
) -> OutFile:
    states = {
        **model.states,
        "module": module,
        "optimizer": None,
        "dp_world_size": model.num_data,
        "mp_world_size": num_stages,
        "checkpoint_parallel_dimensions": {"pp_degree": num_stages, "tp_degree": 1},
        "param_shapes": [
            OrderedDict((name, Size(model.params[name].weight.shape)) for name in group) for group in groups
        ],
        **more,
    }
    return torch_out(f"{name}.pt", name, states)


# -- ZeRO 1, and 2, which keeps the same ------------------------------------------------------------------------------


def _files_of_zero1(model: _Model, stages: Stages, stage: int) -> list[OutFile]:
    names = [name for group in model.groups for name in group]
    files = []
    for mp_rank, of_stage in enumerate(by_stage(names, stages, model.tied_layers)):
        own = set(of_stage)
        groups = [[name for name in group if name in own] for group in model.groups]
        module = None if stages.count > 1 else _whole_module(model)
        file = f"mp_rank_{mp_rank:02d}_model_states"
        more = {} if stages.count > 1 else _frozen(model, lambda weight: weight)
        files.append(_model_file(model, file, groups, num_stages=stages.count, module=module, **more))
        flats = [_flats(model, group) for group in groups]
        for dp_rank in range(model.num_data):
            files.append(_optimizer_file(model, mp_rank, dp_rank, _part_of_zero1(model, groups, flats, dp_rank, stage)))
    return files + (_layer_files(model) if stages.count > 1 else [])


def _flats(model: _Model, group: Sequence[str]) -> dict[str, Stored]:
    """A group's weights and moments, each end to end."""
    return {kind: concatenate(kind, [model.flat(kind, name) for name in group], 0) for kind in (FP32, *MOMENTS)}


def _part_of_zero1(
    model: _Model, groups: Sequence[Sequence[str]], flats: Sequence[Mapping[str, Stored]], dp_rank: int, stage: int
) -> dict[str, Any]:
    weights, state, paddings, mappings = list[Stored](), dict[int, Any](), list[int](), list[Any]()
    for index, (group, flat) in enumerate(zip(groups, flats, strict=True)):
        begin, end, padding = flat_part(flat[FP32].num_elements, model.num_data, dp_rank)
        weights.append(cut(flat[FP32], ((begin, end),)))
        moments = {moment: cut(flat[moment], ((begin, end + padding),)) for moment in MOMENTS}
        state[index] = {"step": model.step, **moments}
        is_last = dp_rank == model.num_data - 1
        total = (end - begin + padding) * model.num_data
        paddings.append(total - flat[FP32].num_elements if is_last else 0)
        mappings.append(_mapping(model, group, begin, end))
    return {
        **_fresh_optimizer(model, stage),
        "base_optimizer_state": {
            "state": state,
            "param_groups": _settings(model, [[index] for index in range(len(groups))]),
        },
        "single_partition_of_fp32_groups": weights,
        "group_paddings": paddings,
        "partition_count": [model.num_data for _ in groups],
        "param_slice_mappings": mappings,
        "ds_version": DS_VERSION,
    }


def _mapping(model: _Model, group: Sequence[str], begin: int, end: int) -> OrderedDict[str, Instance]:
    """Where a rank's part has each parameter's elements."""
    found, at = OrderedDict[str, Instance](), 0
    for name in group:
        low, high = max(at, begin), min(at + model.numel(name), end)
        if low < high:
            found[name] = Instance(
                of=Global(module="deepspeed.utils.tensor_fragment", name="fragment_address"),
                args=(),
                is_called=False,
                state={"numel": high - low, "start": low - begin},
            )
        at += model.numel(name)
    return found


def _compute_type(model: _Model) -> DType:
    """The number type in which the model computes, as its configuration says."""
    config = model.states.get("ds_config") or {}
    found = (dtype for key, dtype in _HALVES.items() if (config.get(key) or {}).get("enabled"))
    return next(found, DType.F32)


def _whole_module(model: _Model) -> OrderedDict[str, Any]:
    """Every weight in its own shape, in full precision: the engine rounds it as it loads it."""
    names = [name for group in model.groups for name in group]
    tensors = {name: model.params[name].weight for name in names}
    tensors |= {param.name: param.weight for param in model.untrained}
    return OrderedDict({**tensors, **{name: tensors[of] for name, of in model.tied.items() if of in tensors}})


def _layer_files(model: _Model) -> list[OutFile]:
    """A pipeline's weights lie by layer; a layer without any has an empty file, as DeepSpeed writes it."""
    layers: dict[int, OrderedDict[str, Any]] = {}
    for name, stored in _whole_module(model).items():
        local, indexes = local_name(name, model.tied_layers)
        for layer in indexes:
            layers.setdefault(layer, OrderedDict())[local] = stored
    made = []
    for layer in range(1 + max(layers)):
        name = f"layer_{layer:02d}-model_states"
        made.append(torch_out(f"{name}.pt", name, layers.get(layer, OrderedDict())))
    return made


# -- ZeRO 3 ------------------------------------------------------------------------------------------------------------


def _files_of_zero3(model: _Model) -> list[OutFile]:
    config = (model.states.get("ds_config") or {}).get("zero_optimization") or {}
    limit = int(config.get("sub_group_size") or SUB_GROUP_ELEMENTS)
    cuts = [sub_groups([_share(model, name) for name in group], limit) for group in model.groups]
    files = []
    for rank in range(model.num_data):
        name = f"zero_pp_rank_{rank}_mp_rank_00_model_states"
        more = _frozen(model, _part_on(model.num_data, rank))
        files.append(_model_file(model, name, model.groups, num_stages=1, module=_empty_module(model), **more))
        files.append(_optimizer_file(model, 0, rank, _part_of_zero3(model, cuts, rank)))
    return files


def _share(model: _Model, name: str) -> int:
    """Elements of a parameter on one rank, padding included."""
    return -(-model.numel(name) // model.num_data)


def _fragment(flat: Stored, num_ranks: int, rank: int) -> Stored:
    """A rank's part of one parameter; the last ranks' is padded with zeros."""
    share = -(-flat.num_elements // num_ranks)
    return cut(flat, ((rank * share, (rank + 1) * share),))


def _part_of_zero3(model: _Model, cuts: Sequence[Sequence[Sequence[int]]], rank: int) -> dict[str, Any]:
    weights, state, indexes = list[Stored](), dict[int, Any](), list[list[int]]()
    for group, positions in zip(model.groups, cuts, strict=True):
        indexes.append([])
        for own in positions:
            names = [group[position] for position in own]
            made = _flat_of(model, names, rank)
            index = len(weights)
            indexes[-1].append(index)
            weights.append(made(FP32))
            state[index] = {"step": model.step, **{moment: made(moment) for moment in MOMENTS}}
    return {
        **_fresh_optimizer(model, 3),
        "partition_count": model.num_data,
        "optimizer_state_dict": {"state": state, "param_groups": _settings(model, indexes)},
        "fp32_flat_groups": weights,
    }


def _flat_of(model: _Model, names: Sequence[str], rank: int) -> Callable[[str], Stored]:
    """What makes the flat tensor of a kind that a rank holds of these parameters."""

    def make(kind: str) -> Stored:
        parts = [_fragment(model.flat(kind, name), model.num_data, rank) for name in names]
        return concatenate(kind, parts, 0)

    return make


def _part_on(num_ranks: int, rank: int) -> Callable[[Stored], Stored]:
    """What cuts out of a weight the part that a rank holds of it."""
    return lambda weight: _fragment(flattened(weight), num_ranks, rank)


def _empty_module(model: _Model) -> OrderedDict[str, Any]:
    """The module's names: parameters without elements, as the engine holds them, and the buffers."""
    dtype = _compute_type(model)
    names = [name for group in model.groups for name in group]
    empty = {name: Stored(name=name, dtype=dtype, shape=(0,), regions=()) for name in names}
    for param in model.untrained:
        is_buffer = param.name in model.buffers
        nothing = Stored(name=param.name, dtype=dtype, shape=(0,), regions=())
        empty[param.name] = param.weight if is_buffer else nothing
    empty |= {name: Stored(name=name, dtype=dtype, shape=(0,), regions=()) for name in model.tied}
    return OrderedDict(empty)
