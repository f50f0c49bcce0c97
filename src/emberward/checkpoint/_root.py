"""The checkpoint root: a run's folder of saves. What is on it, which save to resume from, and what a crash left
behind."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from emberward.checkpoint._format import FormatProblem, Manifest, manifest_from_bytes
from emberward.checkpoint._kept import Candidate, Keep, keeping_names, outdated
from emberward.checkpoint._names import (
    LOCK,
    MANIFEST,
    POINTER,
    POINTER_TEMPORARY,
    Temporary,
    step_name,
    step_of,
    temporary_name,
    temporary_of,
)
from emberward.checkpoint._plain_file import read_plain
from emberward.checkpoint._storage import DISK, Storage, remove_folder, write_new
from emberward.files import anew
from emberward.findings import Cause, Certainty, Finding, Kind, Severity

_HEAD_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """A save on the checkpoint root. `problem` says why it cannot be believed; None when it is whole by names and
    sizes.

    `manifest` is None when it cannot be read.
    """

    path: Path
    step: int
    manifest: Manifest | None
    problem: str | None

    @property
    def serial(self) -> int | None:
        """Its place in the order in which the checkpoint root's saves were made, None when the manifest is lost."""
        return None if self.manifest is None else self.manifest.serial

    @property
    def age_key(self) -> tuple[bool, int, int]:
        """Sorts saves in the order they were made; those that lost their manifest come first, by step."""
        serial = self.serial
        return (serial is not None, 0 if serial is None else serial, self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """The save to resume from, None when there is none; `findings` say what was passed over.

    `damaged`: the save that ``latest`` names, where it is there and is not whole by its names and sizes.
    """

    path: Path | None
    findings: tuple[Finding, ...]
    damaged: Path | None = None


def read_save(checkpoint: Path, step: int) -> Save:
    """The save in the folder, judged by its manifest and the sizes of its files; no data is read."""
    try:
        manifest = manifest_from_bytes(read_plain(checkpoint / MANIFEST))
    except OSError as error:
        return Save(path=checkpoint, step=step, manifest=None, problem=f"{MANIFEST}: {error.strerror}")
    except FormatProblem as error:
        return Save(path=checkpoint, step=step, manifest=None, problem=f"{MANIFEST}: {error}")
    problem = None if manifest.step == step else f"{MANIFEST} is of step {manifest.step}"
    for file in manifest.files:
        try:
            size_bytes = (checkpoint / file.name).stat().st_size
        except OSError as error:
            problem = problem or f"{file.name}: {error.strerror}"
        else:
            if size_bytes != file.size_bytes:
                problem = problem or f"{file.name}: {size_bytes} bytes of {file.size_bytes}"
    return Save(path=checkpoint, step=step, manifest=manifest, problem=problem)


def list_saves(root: Path) -> tuple[Save, ...]:
    """Every save on the checkpoint root, whole or not, in the order they were made. Reads manifests, no data.

    A save that was set aside for one of the same step counts while no folder bears its step's name: a crash came
    between the two renames.
    """
    names = sorted(entry.name for entry in root.iterdir()) if root.is_dir() else []
    saves = [read_save(root / name, step) for name in names if (step := step_of(name)) is not None]
    present = {save.step for save in saves}
    for name in names:
        temporary = temporary_of(name)
        if temporary is not None and temporary[2] is Temporary.REPLACED and temporary[0] not in present:
            saves.append(read_save(root / name, temporary[0]))
    return tuple(sorted(saves, key=lambda save: save.age_key))


def whole_saves(root: Path) -> tuple[Save, ...]:
    """The saves that are whole, in the order they were made."""
    return tuple(save for save in list_saves(root) if save.problem is None)


def read_pointer(root: Path) -> str | None:
    """The name in ``latest`` when it is a save's name, None when the pointer is missing or damaged."""
    try:
        name = read_plain(root / POINTER).decode("ascii").removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return None if step_of(name) is None else name


def write_pointer(storage: Storage, root: Path, name: str) -> None:
    """Points ``latest`` at a save and returns when that is on the disk."""
    temporary = root / POINTER_TEMPORARY
    if POINTER_TEMPORARY in storage.listdir(root):
        storage.remove(temporary)
    write_new(storage, temporary, f"{name}\n".encode())
    storage.rename(temporary, root / POINTER)
    storage.fsync_folder(root)


def find_latest(root: Path) -> Latest:
    """The save that ``latest`` names, or the newest whole one when that save or the pointer is lost or damaged.

    Any rank may call it; it reads manifests, no data. A finding tells of each fallback.
    """
    name = read_pointer(root)
    step = None if name is None else step_of(name)
    if name is not None and step is not None and read_save(root / name, step).problem is None:
        return Latest(path=root / name, findings=())
    saves = list_saves(root)
    if not saves and name is None:
        return Latest(path=None, findings=())
    whole = [save for save in saves if save.problem is None]
    chosen = next((save for save in whole if save.step == step), whole[-1] if whole else None)
    if chosen is not None and chosen.step == step:
        return Latest(path=chosen.path, findings=())
    return Latest(
        path=None if chosen is None else chosen.path,
        findings=(_fallback(root, name, chosen),),
        damaged=root / name if name is not None and (root / name).is_dir() else None,
    )


def older_save(checkpoint: Path) -> Path | None:
    """The newest save on the same checkpoint root, whole by names and sizes, that was made before this one; None
    without.

    Where the manifest of `checkpoint` is lost, the save with the largest step below its own. Reads manifests.
    """
    saves = list_saves(checkpoint.parent)
    own = next((save for save in saves if save.path == checkpoint), None)
    if own is None:
        return None
    older = [
        save
        for save in saves
        if save.problem is None
        and save.serial is not None
        and (save.step < own.step if own.serial is None else save.serial < own.serial)
    ]
    return older[-1].path if older else None


def _fallback(root: Path, name: str | None, newest: Save | None) -> Finding:
    if name is None:
        trouble = f"{root / POINTER} is missing or damaged"
    else:
        broken = next((save for save in list_saves(root) if save.path.name == name), None)
        trouble = f"{root / name} is {'gone' if broken is None else f'damaged ({broken.problem})'}"
    return Finding(
        code="K101",
        severity=Severity.WARNING if newest is not None else Severity.ERROR,
        kind=Kind.RESOURCE,
        cause=Cause.CORRUPT_FILE,
        certainty=Certainty.OBSERVED,
        message=trouble + (f"; the newest whole save is {newest.path.name}" if newest else "; no whole save is left"),
        next=f"emberward checkpoint verify {newest.path if newest else root}",
    )


def latest(root: Path) -> Path | None:
    """The save to resume from, None when there is none. See `find_latest`, which also says what was passed over."""
    return find_latest(root).path


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


def next_serial(root: Path) -> int:
    """One more than the largest serial on the checkpoint root, counted from 1. Reads only the first line or two of
    manifests.

    What it reads is not proved: a damaged number can only leave a gap, or name a serial that a damaged save bore.
    """
    serials = [0]
    for entry in root.iterdir():
        if step_of(entry.name) is not None and (entry / MANIFEST).is_file():
            match = re.search(rb'"serial": (\d+)', anew(partial(_head, entry / MANIFEST)))
            serials.append(0 if match is None else int(match[1]))
    return 1 + max(serials)


def next_attempt(storage: Storage, root: Path, step: int) -> int:
    """The first attempt number that no folder of `step` bears yet, counted from 1."""
    return 1 + max((temporary[1] for temporary in _temporaries(storage, root) if temporary[0] == step), default=0)


def _temporaries(storage: Storage, root: Path) -> list[tuple[int, int, Temporary]]:
    return [temporary for name in storage.listdir(root) if (temporary := temporary_of(name)) is not None]


def clean_leftovers(root: Path, *, storage: Storage = DISK) -> tuple[str, ...]:
    """Names of the folders it removed or put back: what crashed saves left behind. One process may call it at a time.

    Does nothing while any rank of any process holds the checkpoint root's lock, or where the file system has no
    locks. A whole
    save that was set aside is put back when its step's name is free, and removed only when a whole save bears it.
    Raises OSError when the file system does.
    """
    if storage.is_held(root / LOCK) is not False:
        return ()
    done = []
    for step, attempt, why in _temporaries(storage, root):
        path, final = root / temporary_name(step, attempt, why), root / step_name(step)
        if why is Temporary.REPLACED and not final.exists():
            storage.rename(path, final)
            storage.fsync_folder(root)
        elif why is Temporary.REPLACED and read_save(final, step).problem is not None:
            continue
        else:
            remove_folder(storage, path)
        done.append(path.name)
    return tuple(done)


def prune(root: Path, keep: Keep, *, storage: Storage = DISK) -> tuple[str, ...]:
    """Names of the saves it removed: the whole ones that `keep` does not keep; never the one ``latest`` names.

    Each is renamed aside first, so that a save half deleted never bears a save's name. Damaged saves are left alone.
    """
    if keep.last is None:
        return ()
    pointed = read_pointer(root)
    whole = [
        Candidate(path=save.path, step=save.step, names=keeping_names(save.path), is_pointed=save.path.name == pointed)
        for save in whole_saves(root)
    ]
    victims = outdated(whole, keep)
    for save in victims:
        temporary = root / temporary_name(save.step, next_attempt(storage, root, save.step), Temporary.DELETING)
        storage.rename(save.path, temporary)
        storage.fsync_folder(root)
        remove_folder(storage, temporary)
    return tuple(save.path.name for save in victims)
