"""Writes DeepSpeed's universal form, of which an engine of any ZeRO stage can start.

[Note: one universal form]
DeepSpeed's own converter writes two forms that its engines do not take from each other: what comes from ZeRO 3 has no
shapes, no step files and other names for the model's file, and a ZeRO-1 engine that is given it dies of an assertion
(DeepSpeed 0.19.8, ``runtime/state_dict_factory.py`` ``check_ckpt_list``). Here each tensor is written in full shape
with its step beside it, the model's file under both names, and the optimizer's file with the keys that either engine
asks for.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from emberward.checkpoint._convert import OutFile, Plan, Tick
from emberward.checkpoint._foreign._family import Family, Rule, fuse
from emberward.checkpoint._foreign._problems import not_understood
from emberward.checkpoint._foreign._source import MOMENTS, Source, model_name, moment_name
from emberward.checkpoint._foreign._stored import Stored, whole
from emberward.checkpoint._foreign._torch_write import tensor_bytes, write_torch_file
from emberward.checkpoint._foreign._tree import Global, Instance, Size, from_json
from emberward.checkpoint._format import DType
from emberward.checkpoint._storage import DISK, write_new

_MODEL_FILES = ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt")
DS_VERSION = "0.19.8"
"""The version whose layout is written; DeepSpeed asks that there be one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TorchFile:
    """Writes one torch file out of a tree with stored tensors."""

    name: str
    tree: Any

    def __call__(self, file: FileIO, tick: Tick) -> Mapping[str, Any]:
        write_torch_file(file, self.name, self.tree, tick)
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """A weight under their name, with its moments in full precision, and the rule by which it is split."""

    name: str
    weight: Stored
    moments: Mapping[str, Stored]
    rule: Rule | None


def in_their_names(source: Source, family: Family | None) -> list[Theirs]:
    """The source's weights and moments under the names of a family; without one, under their own."""
    weights = [name.removeprefix("model/") for name in source.tensors if name.startswith("model/")]
    pairs: list[tuple[str, Rule | None, tuple[str, ...]]] = [(name, None, (name,)) for name in weights]
    if family is not None:
        pairs = [(theirs, match.rule, match.ours) for theirs, match in family.to_theirs(weights)]
    made = []
    for theirs, rule, ours in pairs:
        moments = {}
        for moment in MOMENTS:
            parts = [source.tensors.get(moment_name(moment, name)) for name in ours]
            if all(part is not None for part in parts):
                moments[moment] = _one(rule, [part for part in parts if part is not None], theirs)
        weight = _one(rule, [source.tensors[model_name(name)] for name in ours], theirs)
        made.append(Theirs(name=theirs, weight=weight, moments=moments, rule=rule))
    return made


def _one(rule: Rule | None, parts: Sequence[Stored], theirs: str) -> Stored:
    return parts[0].named(theirs) if rule is None else fuse(rule, parts, theirs)


def plan_universal(source: Source, result: Path, family: Family | None, stamp: Sequence[Any]) -> Plan:
    """The conversion of a source into a universal checkpoint `result`, with ``latest_universal`` beside it.

    Raises K110 when the source has no moments: an engine would start its optimizer from nothing without saying so.
    """
    params = in_their_names(source, family)
    without = [param.name for param in params if len(param.moments) != len(MOMENTS)]
    if without and len(without) == len(params):
        raise not_understood(
            "the checkpoint holds no optimizer state",
            where=str(source.path),
            expected="moments exp_avg and exp_avg_sq for each weight, which DeepSpeed's universal form has",
            found=f"none for {without[0]}",
            next="export it as huggingface or dcp",
        )
    step = float(source.meta.get("num_updates") or source.step or 0)
    trained = [param for param in params if len(param.moments) == len(MOMENTS)]
    files = [_param_file(param, kind, stored) for param in trained for kind, stored in _kinds(param)]
    files += [_step_file(param, step) for param in trained]
    optimizer = _optimizer(source, trained, step)
    files.append(torch_out("zero/optimizer_state.pt", "optimizer_state", optimizer))
    states = _states(source, trained, {param.name: param.weight for param in params if param.name in without})
    files += [torch_out(name, name.removesuffix(".pt"), states) for name in _MODEL_FILES]

    def finish(_temporary: Path, _results: Mapping[str, Mapping[str, Any]]) -> None:
        pointer = result.parent / "latest_universal"
        pointer.unlink(missing_ok=True)
        write_new(DISK, pointer, result.name.encode())

    about = {"form": "universal", "sources": list(stamp), "family": None if family is None else family.name}
    return Plan(
        result=result,
        files=tuple(files),
        about=about,
        finish=finish,
        num_tensors=len(trained) * (1 + len(MOMENTS)),
        left_behind=tuple(without),
    )


def _kinds(param: Theirs) -> list[tuple[str, Stored]]:
    return [("fp32", param.weight), *param.moments.items()]


def torch_out(path: str, name: str, tree: Any) -> OutFile:
    """A torch file to write, out of a tree with stored tensors."""
    return OutFile(name=path, num_bytes=tensor_bytes(tree), write=_TorchFile(name=name, tree=tree))


def _param_file(param: Theirs, kind: str, stored: Stored) -> OutFile:
    tree: dict[str, Any] = {"cat_dim": 0, "param": stored}
    rule = param.rule
    if rule is not None:
        tree["cat_dim"] = rule.split or 0
        if rule.parts > 1:
            tree["param_n_sub_params"] = rule.parts
        if rule.is_vocab:
            tree["vocab_tensor"] = True
    return torch_out(f"zero/{param.name}/{kind}.pt", kind, tree)


def _step_file(param: Theirs, step: float) -> OutFile:
    return torch_out(f"zero/{param.name}/step.pt", "step", scalar_of(step))


def scalar_of(value: float) -> Stored:
    """A tensor of that one number."""
    return whole("step", DType.F32, (), np.array(value, dtype="<f4").tobytes())


def kept_tree(source: Source, part: str) -> dict[str, Any]:
    """What DeepSpeed itself said when the source came from it; empty otherwise."""
    tree = from_json(source.meta.get("deepspeed", {}).get(part, {}), lambda name: source.tensors[name])
    assert isinstance(tree, dict)
    return tree


def groups_for(source: Source, params: Sequence[Theirs]) -> list[list[str]]:
    """Names of the parameters of each optimizer group: as DeepSpeed had them, else all in one."""
    known = {param.name for param in params}
    groups = [[name for name in group if name in known] for group in source.meta.get("deepspeed", {}).get("groups", [])]
    return groups if sum(map(len, groups)) == len(known) else [[param.name for param in params]]


def _states(source: Source, params: Sequence[Theirs], untrained: Mapping[str, Stored]) -> dict[str, Any]:
    """The model's file; weights without moments have no folder of their own, and lie in its module."""
    shapes = {param.name: Size(param.weight.shape) for param in params}
    return {
        **fresh_states(source),
        **kept_tree(source, "states"),
        "module": OrderedDict(untrained) or None,
        "optimizer": None,
        "mp_world_size": 1,
        "checkpoint_parallel_dimensions": {"pp_degree": 1, "tp_degree": 1},
        "param_shapes": [OrderedDict((name, shapes[name]) for name in group) for group in groups_for(source, params)],
    }


def fresh_states(source: Source) -> dict[str, Any]:
    """What DeepSpeed asks of a model's file beside the weights, where the source did not come from it."""
    step = source.step or 0
    return {
        "buffer_names": [],
        "optimizer": None,
        "frozen_param_shapes": None,
        "shared_params": {},
        "frozen_param_fragments": None,
        "lr_scheduler": None,
        "data_sampler": None,
        "random_ltd": None,
        "skipped_steps": 0,
        "global_steps": step,
        "global_samples": source.meta.get("consumed_samples") or 0,
        "dp_world_size": 1,
        "ds_config": {},
        "ds_version": DS_VERSION,
    }


def _optimizer(source: Source, params: Sequence[Theirs], step: float) -> dict[str, Any]:
    """The optimizer's file. `state` has a step for each group, which is all that ZeRO 3 asks of it.

    What the source does not know (the clip, the loss scale) is left out: an engine then keeps what its own
    configuration says. A clip of 0 in place of none would switch clipping off in an engine of ZeRO 1.
    """
    kept = kept_tree(source, "optimizer")
    base = kept.pop("base_optimizer_state", None) or kept.pop("optimizer_state_dict", None) or {}
    groups = kept.get("param_groups") or base.get("param_groups") or _param_groups(source, params)
    stage = Instance(of=Global(module="deepspeed.runtime.zero.config", name="ZeroStageEnum"), args=(1,), is_called=True)
    return {
        "ds_version": DS_VERSION,
        **kept,
        "zero_stage": stage,
        "param_groups": groups,
        "optimizer_state_dict": {
            "state": {index: {"step": scalar_of(step)} for index in range(len(groups))},
            "param_groups": groups,
        },
    }


def _param_groups(source: Source, params: Sequence[Theirs]) -> list[dict[str, Any]]:
    """A group for DeepSpeed to match with its own: it keeps its own keys where this has none."""
    return [{"params": [index]} for index, _ in enumerate(groups_for(source, params))]
