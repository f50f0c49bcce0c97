"""Recognises a checkpoint by its files and opens it: ours, DeepSpeed's, DCP's or Hugging Face's."""

import re
from collections.abc import Callable
from pathlib import Path

from emberward.checkpoint._boxes import box_shape, volume
from emberward.checkpoint._foreign._contents import Held, Item
from emberward.checkpoint._foreign._dcp import is_dcp, open_dcp
from emberward.checkpoint._foreign._deepspeed import is_deepspeed
from emberward.checkpoint._foreign._hugging_face import is_hugging_face, open_hugging_face
from emberward.checkpoint._foreign._merge import Reading
from emberward.checkpoint._foreign._open_deepspeed import open_deepspeed
from emberward.checkpoint._foreign._problems import not_understood
from emberward.checkpoint._foreign._source import Form, Source
from emberward.checkpoint._foreign._stored import Proof, Region, Stored, row_major
from emberward.checkpoint._foreign._universal import is_universal, open_universal
from emberward.checkpoint._names import step_of_folder
from emberward.checkpoint._reader import read_manifest
from emberward.checkpoint._root import latest

_POINTERS = ("latest_universal", "latest")
_STEP = re.compile(r"(?:global_)?step[-_]?(\d+)")


def open_source(path: Path, reading: Reading) -> Source:
    """The checkpoint at `path`, whatever its form: a save, a run, or a folder of another program. Reads no tensor.

    A folder with DeepSpeed's ``latest`` is followed. Raises K110 when the form is not known or the files contradict,
    K111 when a pickle names what is not known, K112 when replicas disagree, K114 when a family lacks a rule, K123 for
    damage.
    """
    for folder in _candidates(path):
        if _is_save(folder):
            return open_save(folder)
        for is_form, open_form in _FORMS:
            if is_form(folder):
                return _checked(open_form(folder, reading))
    raise not_understood(
        "no checkpoint is known here",
        code="K110" if path.exists() else "K102",
        where=str(path),
        expected="a save or run of Emberward, or a folder of DeepSpeed, torch's DCP or Hugging Face",
        found="none of their files" if path.exists() else "no such folder",
        next="give the folder that holds the files themselves",
    )


_FORMS: tuple[tuple[Callable[[Path], bool], Callable[[Path, Reading], Source]], ...] = (
    (is_universal, open_universal),
    (is_deepspeed, open_deepspeed),
    (is_dcp, open_dcp),
    (is_hugging_face, open_hugging_face),
)


def _checked(source: Source) -> Source:
    source.evidence.require_names(source.files)
    source.require_accounted()
    return source


def is_foreign(path: Path) -> bool:
    """Whether another program's checkpoint lies at `path`, DeepSpeed's ``latest`` followed. Reads no tensor."""
    return any(is_form(folder) for folder in _candidates(path) if not _is_save(folder) for is_form, _ in _FORMS)


def _is_save(folder: Path) -> bool:
    return step_of_folder(folder) is not None and (folder / "manifest.json").exists()


def _candidates(path: Path) -> list[Path]:
    found = [path]
    for root in (path, path / "checkpoints"):
        newest = latest(root) if root.is_dir() else None
        found += [newest] if newest is not None else []
    for pointer in _POINTERS:
        if (path / pointer).is_file():
            found.append(path / (path / pointer).read_text(encoding="utf-8").strip())
    return found


def open_save(save: Path) -> Source:
    """One of our saves; every byte that is read of it is compared with its checksum. Raises K101, K102."""
    manifest = read_manifest(save)
    tensors = {}
    for name, entry in manifest.tensors.items():
        regions = tuple(
            Region(
                box=piece.box,
                where=save / piece.file,
                offset=piece.offset,
                strides=row_major(box_shape(piece.box)),
                proof=Proof(checkpoint=save, piece=piece, piece_bytes=volume(piece.box) * entry.dtype.item_bytes),
            )
            for piece in entry.pieces
        )
        tensors[name] = Stored(name=name, dtype=entry.dtype, shape=entry.shape, regions=regions)
    return Source(
        form=Form.EMBERWARD,
        path=save,
        step=manifest.step,
        num_ranks=manifest.world_size,
        tensors=tensors,
        meta=manifest.meta,
        files=(save / "manifest.json", *(save / file.name for file in manifest.files)),
        items=tuple(Item(name=name, held=Held.TENSOR, ours=(name,)) for name in tensors),
    )


def step_in_name(path: Path) -> int | None:
    """The step that a folder's name tells, as ``global_step94767`` and ``step-00000100`` do; None without one."""
    found = [_STEP.match(part) for part in reversed(path.parts[-2:])]
    return next((int(match[1]) for match in found if match is not None), None)
