"""State that outlives a process: sharded, atomic saves that are proved byte by byte and read on any layout.

The format and its guarantees are in ``docs/checkpoints.md``.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.checkpoint._background import Begun, Written
    from emberward.checkpoint._describe import (
        CheckpointInfo,
        Description,
        TensorInfo,
        describe,
        is_checkpoint,
        list_checkpoints,
    )
    from emberward.checkpoint._device_digest import DeviceDigests
    from emberward.checkpoint._diff import Comparison, Difference, diff
    from emberward.checkpoint._digest import add_digests
    from emberward.checkpoint._exchange import Exchanged, Foreign, export_checkpoint, import_checkpoint, reshape
    from emberward.checkpoint._foreign._family import family_names
    from emberward.checkpoint._foreign._open import is_foreign, open_source
    from emberward.checkpoint._foreign._source import Form
    from emberward.checkpoint._format import DType, FileEntry, Manifest, Piece, TensorEntry
    from emberward.checkpoint._inspect import InspectedTensor, assemble_tensor, inspect_tensor
    from emberward.checkpoint._kept import Keep, name_save, names_of, unname_save
    from emberward.checkpoint._names import SAVE_WRITER, step_name
    from emberward.checkpoint._part import Part
    from emberward.checkpoint._pinned import PinnedMemory
    from emberward.checkpoint._probe import Probe, read_probe, relative_difference, write_probe
    from emberward.checkpoint._reader import read_manifest
    from emberward.checkpoint._repair import Repaired, repair_replicas, repair_save
    from emberward.checkpoint._root import Latest, clean_leftovers, find_latest, latest, older_save, prune
    from emberward.checkpoint._save import NUM_AGREEMENTS, Agree, Saved, alone, is_echo, rehearse
    from emberward.checkpoint._set_aside import put_back, set_aside
    from emberward.checkpoint._staging import BackgroundSaves
    from emberward.checkpoint._start import find_start, require_start
    from emberward.checkpoint._storage import DISK, Hold, Storage, WritableFile
    from emberward.checkpoint._tensors import Shard, digest_of, load, save
    from emberward.checkpoint._verify import digest_findings, verify, verify_rest
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "DISK",
    "NUM_AGREEMENTS",
    "SAVE_WRITER",
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
    "InspectedTensor",
    "Keep",
    "Latest",
    "Manifest",
    "Part",
    "Piece",
    "PinnedMemory",
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
    "assemble_tensor",
    "clean_leftovers",
    "describe",
    "diff",
    "digest_findings",
    "digest_of",
    "export_checkpoint",
    "family_names",
    "find_latest",
    "find_start",
    "import_checkpoint",
    "inspect_tensor",
    "is_checkpoint",
    "is_echo",
    "is_foreign",
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
    "require_start",
    "reshape",
    "save",
    "set_aside",
    "step_name",
    "unname_save",
    "verify",
    "verify_rest",
    "write_probe",
]
