"""A process that dies in the middle of a save, once for every operation. Torch-free, so that it forks safely.

Usage: checkpoint_child.py FOLDER AGAIN. For n = 1, 2, ... it copies FOLDER/before to FOLDER/<fault>-<n>, forks, and the
child saves there and is killed at its n-th operation; it ends when a child lives. Prints one JSON object.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
from unit.checkpoint.checkpoint_storages import Fault, FaultyStorage, Plan

from emberward.checkpoint import Keep, alone, find_latest, read_manifest, verify
from emberward.checkpoint._format import DType
from emberward.checkpoint._part import Part
from emberward.checkpoint._reader import read_parts
from emberward.checkpoint._save import save_parts
from emberward.checkpoint._storage import DISK, Storage

KILLS = (Fault.KILL_BEFORE, Fault.KILL_WITHIN, Fault.KILL_AFTER)
MAX_OPERATIONS = 500


def parts(step: int, seed: int) -> list[Part]:
    """The tensors of a save: their bits follow from `seed`."""
    rng = np.random.default_rng(seed)
    shapes = {"model/w": (40, 30), "optim/m/w": (40, 30), "optim/step": ()}
    return [
        Part(
            name=name,
            dtype=DType.F32,
            global_shape=shape,
            box=tuple((0, length) for length in shape),
            bits=rng.integers(0, 1 << 32, shape, dtype=np.uint32) if shape else np.array(step, dtype=np.uint32),
        )
        for name, shape in shapes.items()
    ]


def save_once(root: Path, step: int, seed: int, storage: Storage = DISK, keep: int | None = 1) -> None:
    """One save by one rank; `seed` stands in the meta, so that a reader knows which bits to expect."""
    save_parts(
        root,
        step=step,
        parts=lambda: parts(step, seed),
        meta={"seed": seed},
        rank=0,
        world_size=1,
        agree=alone,
        keep=Keep(last=keep),
        storage=storage,
    )


def require_parts(root: Path) -> int:
    """The seed of the save that a resume would take, after every bit of it was found right."""
    found = find_latest(root)
    path = found.path
    assert path is not None, f"no save is left: {sorted(p.name for p in root.iterdir())}"
    assert found.findings == (), "a crash is no damage: the pointer is always right"
    assert verify(path) == ()
    manifest = read_manifest(path)
    seed = manifest.meta["seed"]
    for part in parts(manifest.step, seed):
        read = Part(
            name=part.name, dtype=part.dtype, global_shape=part.global_shape, box=part.box, bits=part.bits.copy()
        )
        read.bits[...] = 0xA5A5A5A5
        read_parts(path, manifest, [read])
        assert (read.bits == part.bits).all()
    return int(seed)


def main(folder: Path, step: int) -> dict[str, int]:
    """How many operations each kind of kill was tried at."""
    tried = {}
    for fault in KILLS:
        for at in range(1, MAX_OPERATIONS):
            root = folder / f"{fault.value.replace(' ', '-')}-{at}"
            shutil.copytree(folder / "before", root)
            child = os.fork()
            if child == 0:
                try:
                    save_once(root, step, 2, FaultyStorage(Plan(fault, at)))
                finally:
                    os._exit(0)
            _, status = os.waitpid(child, 0)
            if os.WIFEXITED(status):
                tried[fault.value] = at - 1
                break
    return tried


if __name__ == "__main__":
    json.dump(main(Path(sys.argv[1]), int(sys.argv[2])), sys.stdout)
