"""State that outlives a process: sharded, atomic saves that are proved byte by byte and read on any layout.

The format and its guarantees are in ``docs/checkpoints.md``. What needs torch (`Shard`, `save`, `load`, `digest_of`,
`BackgroundSaves`) is imported when it is first asked for, so that a machine without torch can list, show and verify
saves.
"""

from typing import TYPE_CHECKING

from emberward.checkpoint._background import Begun, Written
from emberward.checkpoint._describe import (
    CheckpointInfo,
    Description,
    TensorInfo,
    describe,
    is_checkpoint,
    list_checkpoints,
)
from emberward.checkpoint._diff import Comparison, Difference, diff
from emberward.checkpoint._digest import add_digests
from emberward.checkpoint._exchange import Exchanged, Foreign, export_checkpoint, import_checkpoint, reshape
from emberward.checkpoint._foreign._open import open_source
from emberward.checkpoint._foreign._source import Form
from emberward.checkpoint._format import DType, FileEntry, Manifest, Piece, TensorEntry
from emberward.checkpoint._kept import Keep, name_save, names_of, unname_save
from emberward.checkpoint._names import step_name
from emberward.checkpoint._probe import Probe, read_probe, relative_difference, write_probe
from emberward.checkpoint._reader import read_manifest
from emberward.checkpoint._repair import Repaired, repair_replicas, repair_save
from emberward.checkpoint._save import NUM_AGREEMENTS, Agree, Saved, alone, is_echo, rehearse
from emberward.checkpoint._set_aside import put_back, set_aside
from emberward.checkpoint._shelf import Latest, clean_leftovers, find_latest, latest, older_save, prune
from emberward.checkpoint._storage import DISK, Hold, Storage, WritableFile
from emberward.checkpoint._verify import digest_findings, verify, verify_rest

if TYPE_CHECKING:
    from emberward.checkpoint._device_digest import DeviceDigests
    from emberward.checkpoint._staging import BackgroundSaves
    from emberward.checkpoint._tensors import Shard, digest_of, load, save

_NEED_TORCH = ("Shard", "digest_of", "load", "save")
_BESIDE = ("BackgroundSaves",)
_ON_DEVICE = ("DeviceDigests",)


def __getattr__(name: str) -> object:
    if name in _ON_DEVICE:
        from emberward.checkpoint import _device_digest  # as below

        return getattr(_device_digest, name)
    if name in _BESIDE:
        from emberward.checkpoint import _staging  # as below

        return getattr(_staging, name)
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from emberward.checkpoint import _tensors  # not for a cycle: torch is an optional dependency (PEP 562)

    return getattr(_tensors, name)


__all__ = [
    "DISK",
    "NUM_AGREEMENTS",
    "Agree",
    "BackgroundSaves",
    "Begun",
    "CheckpointInfo",
    "Comparison",
    "DType",
    "Description",
    "DeviceDigests",
    "Difference",
    "Exchanged",
    "FileEntry",
    "Foreign",
    "Form",
    "Hold",
    "Keep",
    "Latest",
    "Manifest",
    "Piece",
    "Probe",
    "Repaired",
    "Saved",
    "Shard",
    "Storage",
    "TensorEntry",
    "TensorInfo",
    "WritableFile",
    "Written",
    "add_digests",
    "alone",
    "clean_leftovers",
    "describe",
    "diff",
    "digest_findings",
    "digest_of",
    "export_checkpoint",
    "find_latest",
    "import_checkpoint",
    "is_checkpoint",
    "is_echo",
    "latest",
    "list_checkpoints",
    "load",
    "name_save",
    "names_of",
    "older_save",
    "open_source",
    "prune",
    "put_back",
    "read_manifest",
    "read_probe",
    "rehearse",
    "relative_difference",
    "repair_replicas",
    "repair_save",
    "reshape",
    "save",
    "set_aside",
    "step_name",
    "unname_save",
    "verify",
    "verify_rest",
    "write_probe",
]
