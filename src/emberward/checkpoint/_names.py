"""Names of files and folders, and how to tell ours from others'.

[Note: names in the checkpoint root]
A run's ``checkpoints/`` folder, the checkpoint root, holds

    step-00000100/              a save, whole since the rename that gave it this name
    latest                      one line: the name of the save to resume from
    .step-00000110.0001.tmp/    a save being written, or what a crash left of it
    .step-00000100.0001.old/    a whole save that another one of the same step is about to replace
    .step-00000090.0001.gone/   a save that is being deleted
    .latest.tmp                 the pointer being written
    .lock                       held (flock, shared) by every rank that writes

and a save, beside its manifest and the ranks' files, may hold

    names                       one line for each name that keeps it
    probe.json                  what the saved model made of one known batch
    .names.tmp .probe.tmp       one of them being written

Only names of these forms are ever renamed or deleted; anything else is a person's and is left alone.
"""

import re
from enum import StrEnum
from pathlib import Path

POINTER = "latest"
POINTER_TEMPORARY = ".latest.tmp"
LOCK = ".lock"
MANIFEST = "manifest.json"
NAMES = "names"
NAMES_TEMPORARY = ".names.tmp"
PROBE = "probe.json"
PROBE_TEMPORARY = ".probe.tmp"
SAVE_WRITER = "emberward-save-writer"
"""An early word of the argv of a process that writes saves: what looks at a rank's children knows it by this."""

_STEP = re.compile(r"step-(\d{8,})")
_TEMPORARY = re.compile(r"\.step-(\d{8,})\.(\d{4,})\.(tmp|old|gone)")
_RANK_FILE = re.compile(r"rank-(\d{5,})\.safetensors")


class Temporary(StrEnum):
    """Why a folder stands aside. See [Note: names in the checkpoint root]."""

    WRITING = "tmp"
    REPLACED = "old"
    DELETING = "gone"


def step_name(step: int) -> str:
    """Folder name of the save of `step`."""
    return f"step-{step:08d}"


def temporary_name(step: int, attempt: int, why: Temporary) -> str:
    """Folder name beside the saves. See [Note: names in the checkpoint root]."""
    return f".{step_name(step)}.{attempt:04d}.{why.value}"


def rank_file_name(rank: int) -> str:
    """Name of the data file that `rank` writes."""
    return f"rank-{rank:05d}.safetensors"


def rank_index_name(rank: int) -> str:
    """Name of the list of what `rank` wrote; rank 0 merges these into the manifest and removes them."""
    return f"rank-{rank:05d}.index.json"


def step_of(name: str) -> int | None:
    """The step of a save's folder name, None for any other name."""
    match = _STEP.fullmatch(name)
    return None if match is None or name != step_name(int(match[1])) else int(match[1])


def temporary_of(name: str) -> tuple[int, int, Temporary] | None:
    """Step, attempt and reason of a folder that stands aside, None for any other name."""
    match = _TEMPORARY.fullmatch(name)
    if match is None:
        return None
    temporary = int(match[1]), int(match[2]), Temporary(match[3])
    return temporary if name == temporary_name(*temporary) else None


def step_of_folder(checkpoint: Path) -> int | None:
    """The step of a save, also of one that stands aside, by its folder's name."""
    temporary = temporary_of(checkpoint.name)
    return step_of(checkpoint.name) if temporary is None else temporary[0]


def is_rank_file(name: str) -> bool:
    """Whether a data file may have this name; keeps a damaged manifest from naming files elsewhere."""
    return _RANK_FILE.fullmatch(name) is not None
