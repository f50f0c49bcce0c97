"""DeepSpeed's universal checkpoints: one folder for each parameter, with its weight and moments as torch files.

Layout: DeepSpeed 0.19.8, measured (``checkpoint/ds_to_universal.py``, ``checkpoint/universal_checkpoint.py``). What
ZeRO 1 and 2 convert to are dictionaries with the tensor in full shape under ``param``; what ZeRO 3 converts to are bare
flat tensors whose shape only the model's file tells.
"""

import math
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._deepspeed import DeepSpeedSet, groups_of, scalar, states_of, without_state
from emberward.checkpoint._foreign._merge import Reading, to_ours
from emberward.checkpoint._foreign._open_deepspeed import source_of
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._source import MOMENTS, Form, Source, require_whole
from emberward.checkpoint._foreign._stored import Stored, from_flat
from emberward.checkpoint._foreign._torch_file import TorchFile, open_torch_file
from emberward.checkpoint._foreign._tree import Instance, TensorRef
from emberward.checkpoint._foreign._zero import FP32, shapes_of

OPTIMIZER_FILE = "optimizer_state.pt"


def is_universal(folder: Path) -> bool:
    """Whether a folder holds a universal checkpoint."""
    return (folder / "zero" / OPTIMIZER_FILE).is_file()


def open_universal(folder: Path, reading: Reading) -> Source:
    """The universal checkpoint in the folder, of whatever ZeRO stage. Reads pickles, no tensor."""
    heads = [open_torch_file(path) for path in sorted(folder.glob("*mp_rank_*_model_states.pt"))]
    if not heads:
        raise unreadable(
            "a file of the checkpoint is missing",
            where=str(folder),
            expected="a file mp_rank_00_model_states.pt or zero_pp_rank_0_mp_rank_00_model_states.pt",
            found="none",
        )
    shapes = {name: shape for head in heads for name, shape in shapes_of(head).items()}
    tensors: dict[tuple[str, str], Stored] = {}
    files, num_updates = [head.path for head in heads], None
    for of_param in sorted(path for path in (folder / "zero").iterdir() if path.is_dir()):
        for kind in (FP32, *MOMENTS):
            path = of_param / f"{kind}.pt"
            if path.is_file():
                tensors[kind, of_param.name] = _tensor(open_torch_file(path), of_param.name, shapes)
                files.append(path)
        step = of_param / "step.pt"
        if num_updates is None and step.is_file():
            file = open_torch_file(step)
            num_updates = scalar(file, file.tree)
    optimizer = open_torch_file(folder / "zero" / OPTIMIZER_FILE)
    if num_updates is None:
        num_updates = _update_count(optimizer)
    found = DeepSpeedSet(
        slices=(),
        zero_stage=_stage(optimizer),
        num_data_ranks=1,
        tensor_parallel=1,
        groups=groups_of(heads),
        num_updates=num_updates,
        states=states_of(heads[0]),
        optimizer=without_state(optimizer, optimizer.tree),
        files=(*files, optimizer.path),
    )
    ours, tied = to_ours(tensors, reading)
    require_whole(ours, folder)
    return source_of(folder=folder, form=Form.UNIVERSAL, found=found, tensors=ours, findings=tied, reading=reading)


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
