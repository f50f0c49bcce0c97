"""The protocol of a save: every rank writes aside, rank 0 makes it whole with one rename, and all of them agree.

[Note: order of a save]
1. Rank 0 clears what crashes left (if nobody writes), and makes ``.step-S.N.tmp``.               agree
2. Every rank writes its data file and its index there, fsyncs both, and reads them back if told.  agree
3. Rank 0 merges the indexes into the manifest, fsyncs it, removes the indexes, fsyncs the folder;
   renames a save of the same step aside, renames the folder to its own name, fsyncs the checkpoint root;
   then writes the pointer aside, fsyncs, renames and fsyncs the checkpoint root.                           agree
4. Rank 0 removes the save it replaced, and old saves beyond `keep`.
Until the rename of step 3 no name of a whole save has been touched; after it the new save is whole. Between the two
renames of step 3 the old save bears its ``.old`` name, under which readers find it. Every step ends in an agreement,
so that an error on one rank is an error on all and none waits for a rank that has given up.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from emberward.checkpoint._format import FormatProblem, Manifest, manifest_to_bytes
from emberward.checkpoint._kept import Keep
from emberward.checkpoint._names import LOCK, MANIFEST, Temporary, rank_index_name, step_name, temporary_name
from emberward.checkpoint._pace import AT_ONCE, Pace
from emberward.checkpoint._part import Part
from emberward.checkpoint._problems import not_written
from emberward.checkpoint._read_back import require_as_written
from emberward.checkpoint._root import clean_leftovers, next_attempt, next_serial, prune, write_pointer
from emberward.checkpoint._storage import Hold, Storage, remove_folder, write_new
from emberward.checkpoint._tiling import merge_tensors
from emberward.checkpoint._writer import RankIndex, read_rank_index, write_rank
from emberward.findings import Cause, Certainty, EmberwardError, Finding, Kind, Severity
from emberward.recipe import ReadBack

Agree = Callable[[bool], bool]
"""Tells every rank whether all of them passed True. Each rank must call it the same number of times; it blocks until
all have, for as long as the caller's own limit. With torch: an all-reduce (min) of one number over a host group."""

NUM_AGREEMENTS = 3
"""Agreements of a save that goes well. See [Note: order of a save]."""

_ECHO = "another rank could not write its part of the checkpoint"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A whole save. `written_bytes` is this rank's own data; `notices` tell of old saves that could not be removed."""

    path: Path
    step: int
    written_bytes: int
    notices: tuple[Finding, ...] = ()


def alone(is_well: bool) -> bool:
    """The agreement of a run of one rank."""
    return is_well


def save_parts(
    root: Path,
    *,
    step: int,
    parts: Callable[[], Sequence[Part]],
    meta: Mapping[str, Any],
    rank: int,
    world_size: int,
    agree: Agree,
    keep: Keep,
    storage: Storage,
    read_back: ReadBack = ReadBack.NONE,
    pace: Pace = AT_ONCE,
) -> Saved:
    """The save, whole and pointed to, on every rank; or K103 on every rank, with the saves before it untouched.

    All ranks must call it, each with the parts it alone owns: together they tile each tensor. `parts` is called once,
    when they are to be written. It blocks until the data is on the disk and all agree. `meta` of rank 0 is kept.
    See [Note: order of a save].
    """
    if step < 0 or not 0 <= rank < world_size:
        raise ValueError(f"save of step {step} by rank {rank} of {world_size}")
    temporary, locks = _Temporary(), list[Hold]()
    group = _Group(rank=rank, agree=agree, root=root, storage=storage, temporary=temporary)
    leads = rank == 0
    try:
        group.together(lambda: _open_temporary(storage, root, step, temporary, locks) if leads else None)
        share = _Share(step=step, rank=rank, read_back=read_back, pace=pace)
        index = group.together(lambda: _write_share(storage, root, share, parts(), temporary, locks))
        replaced = group.together(
            lambda: _commit(storage, root, temporary.path, step, meta, world_size) if leads else None
        )
    finally:
        for lock in locks:
            lock.close()
    return Saved(
        path=root / step_name(step),
        step=step,
        written_bytes=0 if index.file is None else index.file.size_bytes,
        notices=_tidy(storage, root, replaced, keep) if leads else (),
    )


def rehearse(*, agree: Agree) -> bool:
    """Whether all ranks agreed: makes the agreements of a save that goes well, and touches no disk.

    For a dry run: what `save_parts` communicates, no more and no less. See [Note: order of a save].
    """
    return all([agree(True) for _ in range(NUM_AGREEMENTS)])


def is_echo(error: Exception) -> bool:
    """Whether the error of a save only says that another rank has one: that rank's own says what happened."""
    return isinstance(error, EmberwardError) and error.what == _ECHO


class _Temporary:
    """The folder in which this save is written, once it is known."""

    _path: Path | None = None

    @property
    def path(self) -> Path:
        assert self._path is not None, "step 1 of a save makes the folder"
        return self._path

    def set(self, path: Path) -> None:
        self._path = path

    def is_known(self) -> bool:
        return self._path is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """This rank, and how it learns whether all are well."""

    rank: int
    agree: Agree
    root: Path
    storage: Storage
    temporary: _Temporary

    def together(self, work: Callable[[], _T]) -> _T:
        """The result of this rank's work once every rank's has succeeded. Raises on all ranks when one fails."""
        try:
            result = work()
        except BaseException as error:  # also Ctrl-C: the others wait in agree until this rank answers
            self.agree(False)
            self._discard()
            if isinstance(error, OSError):
                raise not_written(error, where=self.root, rank=self.rank) from error
            raise
        if not self.agree(True):
            self._discard()
            raise EmberwardError(
                _ECHO,
                code="K103",
                where=str(self.root),
                found=f"rank {self.rank} itself is well",
                next="read the error of the rank that failed; the saves before this one are untouched",
                cause=Cause.CHECKPOINT_IO,
            )
        return result

    def _discard(self) -> None:
        """Frees the disk of the half-save: all ranks have stopped writing. What stays, the next save removes."""
        if self.rank == 0 and self.temporary.is_known():
            with contextlib.suppress(OSError):
                remove_folder(self.storage, self.temporary.path)


def _open_temporary(storage: Storage, root: Path, step: int, temporary: _Temporary, locks: list[Hold]) -> None:
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    for folder in reversed(missing):
        storage.mkdir(folder)
        storage.fsync_folder(folder.parent)
    clean_leftovers(root, storage=storage)
    locks.append(storage.hold(root / LOCK))
    path = root / temporary_name(step, next_attempt(storage, root, step), Temporary.WRITING)
    storage.mkdir(path)
    temporary.set(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """Whose part of which save is written, how much of it is read again, and at whose cost."""

    step: int
    rank: int
    read_back: ReadBack
    pace: Pace


def _write_share(
    storage: Storage, root: Path, share: _Share, parts: Sequence[Part], temporary: _Temporary, locks: list[Hold]
) -> RankIndex:
    if not temporary.is_known():
        locks.append(storage.hold(root / LOCK))
        newest = next_attempt(storage, root, share.step) - 1
        temporary.set(root / temporary_name(share.step, newest, Temporary.WRITING))
    index = write_rank(storage, temporary.path, parts, step=share.step, rank=share.rank, pace=share.pace)
    require_as_written(temporary.path, index, how=share.read_back, step=share.step, pace=share.pace)
    return index


def _commit(
    storage: Storage, root: Path, temporary: Path, step: int, meta: Mapping[str, Any], world_size: int
) -> Path | None:
    """Where the save of the same step stands that this one has replaced, None when there was none."""
    indexes = [_require_index(temporary, rank) for rank in range(world_size)]
    manifest = Manifest(
        step=step,
        serial=next_serial(root),
        world_size=world_size,
        meta=meta,
        files=tuple(index.file for index in indexes if index.file is not None),
        tensors=merge_tensors(indexes),
    )
    write_new(storage, temporary / MANIFEST, manifest_to_bytes(manifest))
    for rank in range(world_size):
        storage.remove(temporary / rank_index_name(rank))
    storage.fsync_folder(temporary)
    final, replaced = root / step_name(step), None
    if final.exists():
        replaced = root / temporary_name(step, next_attempt(storage, root, step), Temporary.REPLACED)
        storage.rename(final, replaced)
    storage.rename(temporary, final)
    storage.fsync_folder(root)
    write_pointer(storage, root, final.name)
    return replaced


def _require_index(temporary: Path, rank: int) -> RankIndex:
    try:
        return read_rank_index(temporary, rank)
    except FormatProblem as error:
        raise EmberwardError(
            f"what rank {rank} says that it wrote cannot be read back",
            code="K103",
            where=str(temporary / rank_index_name(rank)),
            found=str(error),
            next="check that all hosts see one file system here",
            cause=Cause.CHECKPOINT_IO,
            ranks=(rank,),
        ) from error


def _tidy(storage: Storage, root: Path, replaced: Path | None, keep: Keep) -> tuple[Finding, ...]:
    """Removes the replaced save and old ones. The new save is whole, so trouble here is told and does not raise."""
    try:
        if replaced is not None:
            remove_folder(storage, replaced)
        prune(root, keep, storage=storage)
    except OSError as error:
        return (
            Finding(
                code="K104",
                severity=Severity.WARNING,
                kind=Kind.RESOURCE,
                cause=Cause.CHECKPOINT_IO,
                certainty=Certainty.OBSERVED,
                message=f"the checkpoint is saved, but an old one could not be removed: {error}",
                next=f"check the file system of {root}; the next save tries again",
            ),
        )
    return ()
