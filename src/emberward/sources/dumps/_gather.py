"""Paths in, evidence out: what belongs to one incident, and what to another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from emberward.diagnose import Evidence, rank_of_path
from emberward.processes import ProcessTree
from emberward.sources.dumps._files import (
    MAX_FILES,
    MAX_FOUND_ARCHIVE_BYTES,
    Readable,
    UnreadableError,
    archive_kind,
    files_below,
    keep_piped,
    unpack,
)
from emberward.sources.dumps._gatherer import RING_MAGIC, Gatherer, no_collector
from emberward.sources.dumps._last_attempt import left_before, of_last_attempt


def _kinds_below(paths: Sequence[Path]) -> frozenset[tuple[int, str]]:
    """What is there of which ranks, by the files' names and first bytes."""
    return frozenset((rank, _kind(path)) for path in paths if (rank := rank_of_path(path)) is not None)


def _kind(path: Path) -> str:
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError:
        return "text"
    if head.startswith(RING_MAGIC):
        return "ring"
    if head[:1] == b"\x80" or head.lstrip()[:1] == b"{":
        return "dump"
    return "stacks" if head.lstrip()[:1] == b"[" else "text"


@dataclass(slots=True)
class _Bundle:
    """The files of one given path, or of all of them."""

    label: str
    files: list[Path] = field(default_factory=list)
    named: set[Path] = field(default_factory=set)
    shown: dict[Path, str] = field(default_factory=dict)
    problems: list[tuple[Path, str]] = field(default_factory=list)
    since_bytes: dict[Path, int] = field(default_factory=dict)

    def take(self, path: Path, *, is_named: bool, rooms: ProcessTree, shown: str | None = None) -> None:
        """Adds a file, or what an archive holds. `shown`: how people call it."""
        kind = archive_kind(path)
        label = str(path) if shown is None else shown
        if kind is None or not (is_named or path.stat().st_size <= MAX_FOUND_ARCHIVE_BYTES):
            self.files.append(path)
            self.named |= {path} if is_named else set()
            self.shown.update({} if shown is None else {path: shown})
            return
        room = rooms.folder("emberward-explain-")
        inside = room / path.stem
        inside.mkdir()
        try:
            unpack(path, kind, inside)
        except UnreadableError as error:
            # What could be unpacked is judged all the same.
            self.problems.append((path, str(error)))
        found = [file for file, _ in zip(files_below(inside, self.problems), range(MAX_FILES), strict=False)]
        self.files += found
        # The one file that was packed is what the person meant.
        self.named |= set(found) if is_named and len(found) == 1 else set()
        self.shown.update({file: f"{label}:{file.relative_to(inside)}" for file in found})


def _bundles(paths: Sequence[Path], rooms: ProcessTree) -> tuple[list[_Bundle], list[Path]]:
    """(a bundle for each folder and archive, the single files)."""
    loose: list[Path] = []
    bundles: list[_Bundle] = []
    for path in paths:
        if path.is_dir():
            bundle = _Bundle(str(path))
            files = (file for file, _ in zip(files_below(path, bundle.problems), range(MAX_FILES), strict=False))
            bundle.since_bytes = of_last_attempt(files, path, left_before(path))
            for file in bundle.since_bytes:
                bundle.take(file, is_named=False, rooms=rooms)
            bundles.append(bundle)
        elif not path.exists():
            raise FileNotFoundError(str(path))
        elif archive_kind(path) is not None:
            bundle = _Bundle(str(path))
            bundle.take(path, is_named=True, rooms=rooms)
            bundles.append(bundle)
        else:
            loose.append(path)
    return bundles, loose


def gather(
    paths: Sequence[Path],
    *,
    piped: Readable | None = None,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> list[Evidence]:
    """The evidence below `paths`: one incident, or one for each folder when folders hold the same kind of file of the
    same ranks. `piped`: standard input, which is read to its end. `told`: called with bytes read and bytes in all.

    Reads the files and runs nothing that they hold; archives are unpacked into a folder that is removed. Raises
    FileNotFoundError for a path that is not there.
    """
    with ProcessTree() as rooms:
        bundles, loose = _bundles(paths, rooms)
        if piped is not None:
            room = rooms.folder("emberward-explain-")
            bundle = _Bundle("standard input")
            bundle.take(keep_piped(piped, room), is_named=True, rooms=rooms, shown="standard input")
            bundles.append(bundle)
        kinds = [_kinds_below(bundle.files) for bundle in bundles]
        is_apart = len(bundles) > 1 and all(a & b or not (a or b) for a, b in pairwise(kinds))
        if not is_apart:
            whole = _Bundle(bundles[0].label if bundles else str(loose[0]))
            for bundle in bundles:
                whole.files += bundle.files
                whole.named |= bundle.named
                whole.shown.update(bundle.shown)
                whole.problems += bundle.problems
                whole.since_bytes |= bundle.since_bytes
            bundles = [whole]
        bundles[0].files += loose
        bundles[0].named |= set(loose)
        sizes = {file: _size(file) for bundle in bundles for file in bundle.files}
        done = 0

        def read(file: Path) -> None:
            nonlocal done
            done += sizes[file]
            told(done, sum(sizes.values()))

        return [_read(bundle, read) for bundle in bundles]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _read(bundle: _Bundle, on_read: Callable[[Path], None]) -> Evidence:
    gatherer = Gatherer(bundle.label)
    with no_collector():
        for path, reason in bundle.problems:
            gatherer.add_problem(path, "cannot be read", reason)
        for file in bundle.files:
            gatherer.add(
                file,
                is_named=file in bundle.named,
                shown=bundle.shown.get(file),
                since_byte=bundle.since_bytes.get(file, 0),
            )
            on_read(file)
    return gatherer.finish()
