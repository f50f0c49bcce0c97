"""DeepSpeed's universal checkpoints: one folder for each parameter, with its weight and moments as torch files.

Layout: DeepSpeed 0.19.8, measured (``checkpoint/ds_to_universal.py``, ``checkpoint/universal_checkpoint.py``). What
ZeRO 1 and 2 convert to are dictionaries with the tensor in full shape under ``param``; what ZeRO 3 converts to are bare
flat tensors whose shape only the model's file tells.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from emberward.checkpoint._foreign._bits import FLOATS, is_rounded, to_floats
from emberward.checkpoint._foreign._contents import Held, Item
from emberward.checkpoint._foreign._deepspeed import (
    LEFT_OUT,
    DeepSpeedSet,
    groups_of,
    scalar,
    states_of,
    without_state,
)
from emberward.checkpoint._foreign._evidence import Evidence
from emberward.checkpoint._foreign._merge import Reading, to_ours
from emberward.checkpoint._foreign._module import Module, add_whole_fragments, frozen_of_zero_3, names_in, sort_module
from emberward.checkpoint._foreign._open_deepspeed import source_of
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._replicas import is_equal
from emberward.checkpoint._foreign._source import MOMENTS, Form, Source, require_whole
from emberward.checkpoint._foreign._stored import Stored, from_flat, with_twin
from emberward.checkpoint._foreign._torch_file import Archives, TorchFile, tensors_in
from emberward.checkpoint._foreign._tree import Instance, TensorRef
from emberward.checkpoint._foreign._zero import FP32, shapes_of
from emberward.checkpoint._part import UintArray

OPTIMIZER_FILE = "optimizer_state.pt"


def is_universal(folder: Path) -> bool:
    """Whether a folder holds a universal checkpoint."""
    return (folder / "zero" / OPTIMIZER_FILE).is_file()


def open_universal(folder: Path, reading: Reading) -> Source:
    """The universal checkpoint in the folder, of whatever ZeRO stage. Reads pickles and tensors that stand more than
    once; no other."""
    archives = Archives(Evidence(reading.accepted))
    heads = [archives.open(path) for path in sorted(folder.glob("*mp_rank_*_model_states.pt"))]
    if not heads:
        raise unreadable(
            "a file of the checkpoint is missing",
            where=str(folder),
            expected="a file mp_rank_00_model_states.pt or zero_pp_rank_0_mp_rank_00_model_states.pt",
            found="none",
        )
    try:
        return _read_whole(folder, heads, archives, reading)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise unreadable(
            "the files are not laid out as DeepSpeed's universal form",
            where=str(folder),
            expected="folders of parameters below zero/, and model states",
            found=f"{type(error).__name__}: {error}",
        ) from error


def _read_whole(folder: Path, heads: list[TorchFile], archives: Archives, reading: Reading) -> Source:
    evidence = archives.evidence
    shapes = {name: shape for head in heads for name, shape in shapes_of(head).items()}
    for head in heads:
        for key in ("global_steps", "global_samples", "ds_version"):
            evidence.require_equal(head.path, key, heads[0].tree.get(key), head.tree.get(key))
    module = _module(folder, heads, evidence)
    tensors: dict[tuple[str, str], Stored] = {(FP32, name): stored for name, stored in module.kept.items()}
    counts: dict[Path, int] = {}
    for of_param in sorted(path for path in (folder / "zero").iterdir() if path.is_dir()):
        name = of_param.name
        for path in sorted(of_param.glob("*.pt")):
            if path.stem == "step":
                file = archives.open(path)
                counts[path] = scalar(file, file.tree)
                continue
            made = _tensor(archives.open(path), name, shapes)
            if name not in shapes and (name in module.kept or name in module.tied):
                module.items.append(_repeated(made, name, module, evidence))
                continue
            copy = module.copies.get(name)
            is_beside = path.stem == FP32 and copy is not None and copy.shape == made.shape
            tensors[path.stem, name] = with_twin(made, copy) if is_beside and copy is not None else made
            if name not in shapes:
                module.held[name] = Held.FROZEN
        missing = [kind for kind in (FP32, *MOMENTS) if not (of_param / f"{kind}.pt").is_file()]
        if missing and (name in shapes or missing[0] == FP32):
            raise _missing(of_param, f"{missing[0]}.pt")
    unstepped = [name for kind, name in tensors if kind == FP32 and folder / "zero" / name / "step.pt" not in counts]
    unstepped = [name for name in unstepped if name in shapes]
    if counts and unstepped:
        raise _missing(folder / "zero" / unstepped[0], "step.pt, as the other parameters have")
    absent = [name for name in shapes if (FP32, name) not in tensors]
    if absent:
        raise _missing(folder / "zero", f"a folder {absent[0]}")
    optimizer = archives.open(folder / "zero" / OPTIMIZER_FILE)
    num_updates = next(iter(counts.values()), None)
    for path, count in counts.items():
        evidence.require_equal(path, f"the count of updates of {path.parent.name}", num_updates, count)
    found = DeepSpeedSet(
        slices=(),
        zero_stage=_stage(optimizer),
        num_data_ranks=1,
        num_model_ranks=1,
        tensor_parallel=1,
        groups=groups_of(heads),
        num_updates=_update_count(optimizer) if num_updates is None else num_updates,
        states=states_of(heads),
        optimizer=without_state(optimizer, optimizer.tree),
        files=tuple(file.path for file in archives.files),
        held=module.held,
        tied=module.tied,
        tied_layers={},
        items=tuple(_items(module, archives, heads[0], optimizer)),
    )
    ours = to_ours(tensors, reading, found.held)
    require_whole(ours.tensors, folder)
    return source_of(
        folder=folder,
        form=Form.UNIVERSAL,
        found=found,
        archives=archives,
        tensors=ours.tensors,
        findings=ours.findings,
        items=(*ours.items, *found.items),
        reading=reading,
    )


def _missing(where: Path, expected: str) -> Exception:
    return unreadable("a file of the checkpoint is missing", where=str(where), expected=expected, found="none")


def _module(folder: Path, heads: list[TorchFile], evidence: Evidence) -> Module:
    """What the model's files hold: of ZeRO 3 one for each rank, else one for each pipeline stage."""
    made, shared = Module(), dict[str, str]()
    for head in heads:  # of several ranks only the first says which names are tied
        shared.update({str(name): str(of) for name, of in (head.tree.get("shared_params") or {}).items()})
    for head in heads:
        buffers = set(head.tree.get("buffer_names") or ())
        own = sort_module(names_in(head), shapes_of(head), buffers, shared, evidence)
        add_whole_fragments(own, head, evidence)
        fresh = {name: stored for name, stored in own.kept.items() if name not in made.kept}
        made.kept.update(fresh)
        made.held.update({name: own.held[name] for name in fresh})
        made.tied.update(own.tied)
        made.items.extend(own.items)
        made.copies.update({name: copy for name, copy in own.copies.items() if name not in made.copies})
        repeated = [name for name in own.kept if name not in fresh and own.kept[name].regions]
        for name in repeated:
            with Reader() as reader:
                if not is_equal(made.kept[name], own.kept[name], reader):
                    what = f"its {name} is not that of {heads[0].path.name}"
                    evidence.contradict(head.path, what, "equal buffers", "other values")
            why = "held more than once; compared, and one was imported"
            made.items.append(Item(name=name, held=Held.REPLICA, why=why, places=(own.kept[name],)))
    peers = [head for head in heads if head.tree.get("frozen_param_fragments")]
    if peers and _stage_of_zero_3(heads[0]):
        made.kept.update(frozen_of_zero_3(peers))
    return made


def _repeated(made: Stored, name: str, module: Module, evidence: Evidence) -> Item:
    """The item of a weight without moments that lies below ``zero/`` too: DeepSpeed's converter puts it there."""
    if name in module.tied:
        return Item(name=name, held=Held.TIED, why=f"the same as {module.tied[name]}", places=(made,))
    kept = module.kept[name]
    with Reader() as reader:
        bits, own = reader.array(made), reader.array(kept)
    is_float = {made.dtype, kept.dtype} <= FLOATS
    same = is_rounded(bits, made.dtype, own, kept.dtype) if is_float else _is_number(bits, made, own, kept)
    if not same:
        where = made.regions[0].where
        assert isinstance(where, Path)
        evidence.contradict(where, f"it is not the {name} of the model's file", "the same numbers", "others")
    return Item(name=name, held=Held.COPY, why="the same as in the model's file, and compared with it", places=(made,))


def _is_number(bits: UintArray, made: Stored, own: UintArray, kept: Stored) -> bool:
    numbers = to_floats(own, kept.dtype).astype(np.float32)
    return bool(np.array_equal(to_floats(bits, made.dtype).astype(np.float32), numbers))


def _stage_of_zero_3(head: TorchFile) -> bool:
    """Whether the model's file is one of ZeRO 3, whose frozen parameters lie in parts."""
    fragments = head.tree["frozen_param_fragments"]
    return any(fragments[name].shape != tuple(size) for name, size in head.tree["frozen_param_shapes"].items())


def _items(module: Module, archives: Archives, head: TorchFile, optimizer: TorchFile) -> Iterator[Item]:
    """What is left out: copies, tied names, and tensors that are neither weights nor moments."""
    yield from module.items
    for file in archives.files:
        is_param = file.path.parent.name != "zero" and file.path.parent.parent.name == "zero"
        if is_param and file.path.stem != "step":
            continue
        for keys, ref in tensors_in(file.tree):
            name = "/".join(map(str, keys))
            place = file.stored(ref, name)
            if file is optimizer:
                is_left = "state" in keys or "fp32_flat_groups" in keys or "single_partition_of_fp32_groups" in keys
                why = "a part of one rank; the whole lies in the folders of the parameters"
            else:
                is_left = is_param or (file is not head and keys[0] not in LEFT_OUT)
                why = "the count of updates, kept as a number" if is_param else "that of rank 0 is kept"
            if is_left:
                yield Item(name=f"{file.path.name} {name}", held=Held.STATE, why=why, places=(place,))


def _tensor(file: TorchFile, name: str, shapes: dict[str, tuple[int, ...]]) -> Stored:
    ref = file.tree.get("param") if isinstance(file.tree, dict) else file.tree
    if not isinstance(ref, TensorRef):
        raise unreadable("a parameter's file holds no tensor", where=str(file.path), found=type(ref).__name__)
    stored = file.stored(ref, name)
    shape = shapes.get(name)
    if len(ref.shape) != 1 or shape is None or shape == ref.shape:
        return stored
    if stored.num_elements != math.prod(shape):
        raise unreadable(
            "a flat tensor does not have the elements of its parameter",
            where=str(file.path),
            expected=f"{math.prod(shape)} elements of shape {shape}",
            found=f"{stored.num_elements}",
        )
    return from_flat(stored, 0, name, shape)


def _update_count(optimizer: TorchFile) -> int | None:
    states: dict[Any, Any] = (optimizer.tree.get("optimizer_state_dict") or {}).get("state") or {}
    for state in states.values():
        return scalar(optimizer, state["step"]) if "step" in state else None
    return None


def _stage(optimizer: TorchFile) -> int:
    stage = optimizer.tree.get("zero_stage")
    return int(stage.args[0]) if isinstance(stage, Instance) else int(stage or 1)
