"""State that outlives a process: sharded, atomic saves that are proved byte by byte and read on any layout.

The format and its guarantees are in ``docs/checkpoints.md``. What needs torch (`Shard`, `save`, `load`, `digest_of`) is
imported when it is first asked for, so that a machine without torch can list, show and verify saves.
"""

from typing import TYPE_CHECKING

from emberward.checkpoint._describe import (
    CheckpointInfo,
    Description,
    TensorInfo,
    describe,
    is_checkpoint,
    list_checkpoints,
)
from emberward.checkpoint._digest import add_digests
from emberward.checkpoint._format import DType, FileEntry, Manifest, Piece, TensorEntry
from emberward.checkpoint._reader import read_manifest
from emberward.checkpoint._save import Agree, Saved, alone, rehearse
from emberward.checkpoint._shelf import Latest, clean_leftovers, find_latest, latest, prune
from emberward.checkpoint._storage import DISK, Hold, Storage, WritableFile
from emberward.checkpoint._verify import digest_findings, verify

if TYPE_CHECKING:
    from emberward.checkpoint._tensors import Shard, digest_of, load, save

_NEED_TORCH = ("Shard", "digest_of", "load", "save")


def __getattr__(name: str) -> object:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from emberward.checkpoint import _tensors  # not for a cycle: torch is an optional dependency (PEP 562)

    return getattr(_tensors, name)


__all__ = [
    "DISK",
    "Agree",
    "CheckpointInfo",
    "DType",
    "Description",
    "FileEntry",
    "Hold",
    "Latest",
    "Manifest",
    "Piece",
    "Saved",
    "Shard",
    "Storage",
    "TensorEntry",
    "TensorInfo",
    "WritableFile",
    "add_digests",
    "alone",
    "clean_leftovers",
    "describe",
    "digest_findings",
    "digest_of",
    "find_latest",
    "is_checkpoint",
    "latest",
    "list_checkpoints",
    "load",
    "prune",
    "read_manifest",
    "rehearse",
    "save",
    "verify",
]
