"""What people ask of saves: the values behind ``emberward checkpoint ls`` and ``show``. Torch-free."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.checkpoint._boxes import volume
from emberward.checkpoint._format import TensorEntry
from emberward.checkpoint._kept import keeping_names
from emberward.checkpoint._names import step_of_folder
from emberward.checkpoint._reader import read_manifest
from emberward.checkpoint._root import find_latest, list_saves
from emberward.layout import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointInfo:
    """One line of ``ls``. `num_bytes`, `num_tensors` and `world_size` are None when the manifest is lost."""

    path: Path
    step: int
    is_latest: bool
    problem: str | None
    world_size: int | None
    num_tensors: int | None
    num_bytes: int | None
    names: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The line as one JSON object."""
        return {
            "path": str(self.path),
            "step": self.step,
            "is_latest": self.is_latest,
            "problem": self.problem,
            "world_size": self.world_size,
            "num_tensors": self.num_tensors,
            "num_bytes": self.num_bytes,
            "names": list(self.names),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor of ``show``. `pieces` are (file, box) in the order of the ranks that wrote them."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: str
    num_bytes: int
    pieces: tuple[tuple[str, Box], ...]

    def to_json(self) -> dict[str, Any]:
        """The tensor as one JSON object."""
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "digest": self.digest,
            "num_bytes": self.num_bytes,
            "pieces": [{"file": file, "box": [list(ends) for ends in box]} for file, box in self.pieces],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A save as ``show`` tells it. `num_elements` counts the elements of all tensors."""

    path: Path
    step: int
    world_size: int
    num_bytes: int
    num_elements: int
    files: tuple[tuple[str, int], ...]
    meta: dict[str, Any]
    tensors: tuple[TensorInfo, ...]

    def to_json(self) -> dict[str, Any]:
        """The description as one JSON object."""
        return {
            "path": str(self.path),
            "step": self.step,
            "world_size": self.world_size,
            "num_bytes": self.num_bytes,
            "num_elements": self.num_elements,
            "files": [{"name": name, "size_bytes": size_bytes} for name, size_bytes in self.files],
            "meta": self.meta,
            "tensors": [tensor.to_json() for tensor in self.tensors],
        }


def list_checkpoints(root: Path) -> tuple[CheckpointInfo, ...]:
    """Every save in a run's ``checkpoints`` folder, whole or not, in the order they were made. Reads no data."""
    newest = find_latest(root).path
    return tuple(
        CheckpointInfo(
            path=save.path,
            step=save.step,
            is_latest=save.path == newest,
            problem=save.problem,
            world_size=None if save.manifest is None else save.manifest.world_size,
            num_tensors=None if save.manifest is None else len(save.manifest.tensors),
            num_bytes=None if save.manifest is None else save.manifest.num_bytes,
            names=keeping_names(save.path),
        )
        for save in list_saves(root)
    )


def describe(checkpoint: Path) -> Description:
    """What one save holds, tensors by name. Reads the manifest, no data. Raises K101 when it cannot be believed."""
    manifest = read_manifest(checkpoint)
    tensors = tuple(tensor_info(name, entry) for name, entry in sorted(manifest.tensors.items()))
    return Description(
        path=checkpoint,
        step=manifest.step,
        world_size=manifest.world_size,
        num_bytes=manifest.num_bytes,
        num_elements=sum(volume(piece.box) for entry in manifest.tensors.values() for piece in entry.pieces),
        files=tuple((file.name, file.size_bytes) for file in manifest.files),
        meta=dict(manifest.meta),
        tensors=tensors,
    )


def tensor_info(name: str, entry: TensorEntry) -> TensorInfo:
    """What a manifest says of a tensor."""
    return TensorInfo(
        name=name,
        dtype=entry.dtype.value,
        shape=entry.shape,
        digest=f"{entry.digest:016x}",
        num_bytes=entry.dtype.item_bytes * sum(volume(piece.box) for piece in entry.pieces),
        pieces=tuple((piece.file, piece.box) for piece in entry.pieces),
    )


def is_checkpoint(path: Path) -> bool:
    """Whether the folder is one save, by its name, rather than a folder of saves."""
    return step_of_folder(path) is not None
