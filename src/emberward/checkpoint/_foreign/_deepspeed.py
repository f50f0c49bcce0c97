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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._bits import to_floats
from emberward.checkpoint._foreign._contents import Held, Item
from emberward.checkpoint._foreign._module import (
    LAYER,
    TIED_PREFIX,
    Layer,
    Module,
    add_whole_fragments,
    frozen_of_zero_3,
    layer_of_file,
    names_in,
    sort_module,
)
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._replicas import Replicas, settle
from emberward.checkpoint._foreign._stored import Stored, with_twin
from emberward.checkpoint._foreign._torch_file import Archives, TorchFile, open_torch_file, tensors_in
from emberward.checkpoint._foreign._tree import Instance, TensorRef
from emberward.checkpoint._foreign._zero import (
    FP32,
    is_flat,
    is_padding,
    optimizer_of,
    param_shapes,
    shapes_of,
    slices_of_stage_1,
    slices_of_stage_3,
)

_OPTIM = re.compile(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_MODEL = re.compile(r"mp_rank_(\d+)_model_states\.pt")
_MODEL_ZERO3 = re.compile(r"zero_pp_rank_(\d+)_mp_rank_(\d+)_model_states\.pt")
LEFT_OUT = ("module", "optimizer", "param_shapes", "frozen_param_shapes", "frozen_param_fragments")
"""Keys of a model's file that are taken apart; the others are kept as they are."""


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

    `groups` are the optimizer's parameter groups, by name. Tensors in the trees are `Stored`. `held` says what a weight
    without moments is, `tied` which names repeat another, `tied_layers` where a pipeline's tied modules are used.
    """

    slices: tuple[Slices, ...]
    zero_stage: int
    num_data_ranks: int
    num_model_ranks: int
    tensor_parallel: int
    groups: tuple[tuple[str, ...], ...]
    num_updates: int | None
    states: Mapping[str, Any]
    optimizer: Mapping[str, Any]
    files: tuple[Path, ...]
    held: Mapping[str, Held]
    tied: Mapping[str, str]
    tied_layers: Mapping[str, Any]
    items: tuple[Item, ...]


def is_deepspeed(folder: Path) -> bool:
    """Whether a folder holds a DeepSpeed checkpoint of some ZeRO stage."""
    return folder.is_dir() and any(_OPTIM.fullmatch(entry.name) for entry in folder.iterdir())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The files of a checkpoint, by (model rank, data rank); `heads` are the model's, and `layers` a pipeline's."""

    archives: Archives
    heads: Mapping[tuple[int, int], TorchFile]
    optim: Mapping[tuple[int, int], TorchFile]
    layers: tuple[Path, ...]
    num_model: int
    num_data: int

    def data_ranks(self, mp_rank: int) -> list[TorchFile]:
        """The optimizer's files of one model rank."""
        return [self.optim[mp_rank, dp_rank] for dp_rank in range(self.num_data)]

    def peers(self, mp_rank: int) -> list[TorchFile]:
        """The model's files of one model rank: one, or with ZeRO 3 one for each data rank."""
        return [head for (of_rank, _), head in sorted(self.heads.items()) if of_rank == mp_rank]


def read_set(folder: Path, archives: Archives, replicas: Replicas) -> DeepSpeedSet:
    """The checkpoint in the folder. Reads pickles and what stands more than once, no other tensor.

    Raises K110 when files are missing, K123 when they contradict one another, K112 when buffers of ranks do.
    """
    files = _open_all(folder, archives)
    try:
        _require_one_save(files)
        return _read_whole(files, replicas)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise unreadable(
            "the files are not laid out as DeepSpeed 0.8 and later lay them out",
            where=str(folder),
            expected="rigid ZeRO checkpoints with slice mappings (no elastic_checkpoint, no 1-bit optimizer)",
            found=f"{type(error).__name__}: {error}",
        ) from error


def _open_all(folder: Path, archives: Archives) -> _Files:
    """Every file of the checkpoint. Raises K110 when one is missing, K123 when there is one of a rank too many."""
    names = sorted(entry.name for entry in folder.iterdir())
    optim = {(int(m[2]), int(m[1])): folder / name for name in names if (m := _OPTIM.fullmatch(name))}
    models = {
        **{(int(m[2]), int(m[1])): folder / name for name in names if (m := _MODEL_ZERO3.fullmatch(name))},
        **{(int(m[1]), 0): folder / name for name in names if (m := _MODEL.fullmatch(name))},
    }
    num_model, num_data = 1 + max(key[0] for key in optim), 1 + max(key[1] for key in optim)
    if (0, 0) in models:  # a last rank's files may be missing, or another run's lie there: what rank 0 knew counts
        first = archives.open(models[0, 0]).tree
        num_model, num_data = int(first.get("mp_world_size") or num_model), int(first.get("dp_world_size") or num_data)
    for (mp_rank, dp_rank), path in {**models, **optim}.items():
        if mp_rank >= num_model or dp_rank >= num_data:
            found = f"model rank {mp_rank}, data rank {dp_rank}"
            wanted = f"{num_model} model ranks and {num_data} data ranks"
            archives.evidence.contradict(path, "it was written by a rank that the run did not have", wanted, found)
    for mp_rank in range(num_model):
        if (mp_rank, 0) not in models:
            raise _missing(folder, f"the model's file of model rank {mp_rank}")
        for dp_rank in range(num_data):
            if (mp_rank, dp_rank) not in optim:
                raise _missing(folder, f"the optimizer's file of data rank {dp_rank} and model rank {mp_rank}")
            if (0, 1) in models and (mp_rank, dp_rank) not in models:
                raise _missing(folder, f"the model's file of data rank {dp_rank} and model rank {mp_rank}")
    ranks = [(mp_rank, dp_rank) for mp_rank in range(num_model) for dp_rank in range(num_data)]
    return _Files(
        archives=archives,
        heads={key: archives.open(models[key]) for key in ranks if key in models},
        optim={key: archives.open(optim[key]) for key in ranks},
        layers=tuple(folder / name for name in names if LAYER.fullmatch(name)),
        num_model=num_model,
        num_data=num_data,
    )


def _require_one_save(files: _Files) -> None:
    """Raises K123 unless all files tell the same step, ranks, stage and count of updates."""
    evidence, first = files.archives.evidence, files.heads[0, 0]
    for head in files.heads.values():
        for key in ("global_steps", "global_samples", "dp_world_size", "mp_world_size", "ds_version"):
            evidence.require_equal(head.path, key, first.tree.get(key), head.tree.get(key))
    one = files.optim[0, 0]
    for file in files.optim.values():
        evidence.require_equal(file.path, "the stage of ZeRO", _zero_stage(one), _zero_stage(file))
        evidence.require_equal(file.path, "the count of updates", _update_count(one), _update_count(file))
        counts = optimizer_of(file).get("partition_count")
        for count in counts if isinstance(counts, list) else [counts]:
            if count is not None:
                evidence.require_equal(file.path, "the number of data ranks", files.num_data, count)


def _read_whole(files: _Files, replicas: Replicas) -> DeepSpeedSet:
    head, first = files.heads[0, 0], files.optim[0, 0]
    tp_size = _tensor_parallel(head.tree, files.num_model)
    zero_stage = _zero_stage(first)
    modules = [_module_of(files, mp_rank, zero_stage, replicas) for mp_rank in range(files.num_model)]
    trained = [_trained(files, mp_rank, zero_stage) for mp_rank in range(files.num_model)]
    layers = _layers_of(files)
    modules += [_module_of_layer(layer, files) for layer in layers]
    for layer, module in zip(layers, modules[files.num_model :], strict=True):
        for mp_rank, own in enumerate(trained):
            if mp_rank % tp_size == layer.group_rank:
                trained[mp_rank] = _beside(own, module.copies)
    slices = []
    for mp_rank, own in enumerate(trained):
        module = modules[mp_rank]
        tensors = {**_beside(own, module.copies), **{(FP32, name): kept for name, kept in module.kept.items()}}
        slices.append(Slices(stage=mp_rank // tp_size, group_rank=mp_rank % tp_size, tensors=tensors))
    num_stages = max(1, files.num_model // tp_size)
    for layer, module in zip(layers, modules[files.num_model :], strict=True):
        tensors = {(FP32, name): kept for name, kept in module.kept.items()}
        slices.append(Slices(stage=num_stages + layer.index, group_rank=layer.group_rank, tensors=tensors))
    heads = [files.heads[mp_rank, 0] for mp_rank in range(files.num_model)]
    return DeepSpeedSet(
        slices=tuple(slices),
        zero_stage=zero_stage,
        num_data_ranks=files.num_data,
        num_model_ranks=files.num_model,
        tensor_parallel=tp_size,
        groups=groups_of(heads),
        num_updates=_update_count(first),
        states=states_of(heads),
        optimizer=without_state(first, optimizer_of(first)),
        files=tuple(file.path for file in files.archives.files),
        held={name: held for module in modules for name, held in module.held.items()},
        tied={name: original for module in modules for name, original in module.tied.items()},
        tied_layers=_tied_layers(layers, heads, tp_size),
        items=(*(item for module in modules for item in module.items), *_beside_the_tensors(files)),
    )


def _module_of(files: _Files, mp_rank: int, zero_stage: int, replicas: Replicas) -> Module:
    """What the model's files of one model rank hold; their buffers are compared."""
    peers, evidence = files.peers(mp_rank), files.archives.evidence
    head = peers[0]
    shared = {str(name): str(original) for name, original in (head.tree.get("shared_params") or {}).items()}
    buffers = set(head.tree.get("buffer_names") or ())
    module = sort_module(names_in(head), shapes_of(head), buffers, shared, evidence)
    if zero_stage < 3:
        add_whole_fragments(module, head, evidence)
        return module
    module.kept.update(frozen_of_zero_3(peers))
    with Reader() as reader:
        for name in [name for name, held in module.held.items() if held is Held.BUFFER]:
            copies = {rank: names_in(peer)[name] for rank, peer in enumerate(peers)}
            settled = settle(f"model/{name}", copies, replicas, reader)
            module.kept[name] = settled.stored
            places = tuple(copies.values())
            if len(copies) > 1:
                why = "each rank holds it, and they were compared"
                module.items.append(Item(name=name, held=Held.REPLICA, why=why, places=places))
    return module


def _trained(files: _Files, mp_rank: int, zero_stage: int) -> dict[tuple[str, str], Stored]:
    read = slices_of_stage_3 if zero_stage == 3 else slices_of_stage_1
    return read(files.heads[mp_rank, 0], files.data_ranks(mp_rank), files.archives.evidence)


def _beside(tensors: dict[tuple[str, str], Stored], copies: Mapping[str, Stored]) -> dict[tuple[str, str], Stored]:
    """The tensors, each weight with the copy that the model computes with beside it, to be compared when it is read."""
    return {
        (kind, name): with_twin(stored, copies[name])
        if kind == FP32 and name in copies and copies[name].shape == stored.shape
        else stored
        for (kind, name), stored in tensors.items()
    }


def _layers_of(files: _Files) -> list[Layer]:
    known = {
        name for head in files.heads.values() for name in (*shapes_of(head), *(head.tree.get("buffer_names") or ()))
    }
    found = []
    for path in files.layers:
        match = LAYER.fullmatch(path.name)
        assert match is not None
        file = files.archives.open(path)
        found.append(layer_of_file(file, int(match[1]), int(match[2] or 0), known))
    return found


def _module_of_layer(layer: Layer, files: _Files) -> Module:
    trained = {name: shape for head in files.heads.values() for name, shape in shapes_of(head).items()}
    buffers = {name for head in files.heads.values() for name in head.tree.get("buffer_names") or ()}
    return sort_module(layer.tensors(), trained, buffers, {}, files.archives.evidence)


def _tied_layers(layers: Sequence[Layer], heads: Sequence[TorchFile], tp_size: int) -> dict[str, Any]:
    """Of each tied module of a pipeline the layers that have a file, and those that only call it.

    What only calls it is a function, which has no file: it is taken to end its stage.
    """
    found: dict[str, Any] = {}
    own = [layer for layer in layers if layer.group_rank == 0]
    for key in sorted({layer.tied_as for layer in own if layer.tied_as is not None}):
        indexes = [layer.index for layer in own if layer.tied_as == key]
        calls, begin = [], 0
        for head in heads[::tp_size]:
            numbers = [int(name.partition(".")[0]) for name in shapes_of(head) if name.partition(".")[0].isdigit()]
            end = max([begin, *(number + 1 for number in numbers)])
            holds = any(name.startswith(f"{TIED_PREFIX}{key}.") for name in shapes_of(head))
            if holds and not any(begin <= index < max(end, begin + 1) for index in indexes):
                calls.append(end)
            begin = end
        found[key] = {"files": indexes, "calls": calls}
    return found


def _beside_the_tensors(files: _Files) -> Iterator[Item]:
    """Tensors that are neither weights nor moments: counts of updates, and what each rank keeps for itself."""
    for (mp_rank, dp_rank), file in (*files.heads.items(), *files.optim.items()):
        is_first = (mp_rank, dp_rank) == (0, 0)
        for keys, ref in tensors_in(file.tree):
            is_state = "state" in keys and "optimizer_state_dict" in keys
            name = "/".join(map(str, keys))
            place = file.stored(ref, name)
            if is_padding(keys, ref, files.heads[mp_rank, 0], file, dp_rank, files.num_data):
                why = "no parameter reaches into this part"
                yield Item(name=f"{file.path.name} {name}", held=Held.PADDING, why=why, places=(place,))
            elif not (keys[0] in LEFT_OUT or is_flat(keys, ref) or (is_first and not is_state)):
                why = "the count of updates, kept as a number" if keys[-1] == "step" else "that of rank 0 is kept"
                yield Item(name=f"{file.path.name} {name}", held=Held.STATE, why=why, places=(place,))


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


def states_of(heads: Sequence[TorchFile]) -> dict[str, Any]:
    """What a model's file holds beside the weights: scheduler, counts, configuration, the client's own values."""
    head = heads[0]
    states = {key: head.placed(value, f"/{key}") for key, value in head.tree.items() if key not in LEFT_OUT}
    names = dict.fromkeys(name for one in heads for name in one.tree.get("buffer_names") or ())
    return {**states, "buffer_names": list(names)}


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
