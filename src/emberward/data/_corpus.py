"""Bodies of text: the standard library's sources, text files, folders, JSON lines, or tokens that are there already."""

import codecs
import json
import os
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import NoReturn

from emberward.data._indexed import bin_path, idx_path
from emberward.findings import ConfigError

STDLIB_NAME = "stdlib"
ROWS_SUFFIX = ".jsonl"
# Folders of the standard library that are left out: tests, and what others installed into it.
STDLIB_LEFT_OUT = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"})
# Areas of the standard library, each with a held-out set of its own. Every other package is in "packages".
STDLIB_MODULES = "modules"
STDLIB_PACKAGES = "packages"
STDLIB_AREAS = {
    "encodings": frozenset({"encodings"}),
    "network": frozenset({"asyncio", "email", "html", "http", "urllib", "wsgiref", "xml", "xmlrpc"}),
    "tools": frozenset(
        {"distutils", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "tkinter", "turtledemo", "unittest", "venv"}
    ),
}
# A corpus of fewer documents than this is split by blocks, so that a part can be held out of a single file.
FEW_DOCUMENTS = 100
# Documents over this size are always cut, so that memory stays flat.
LARGE_BYTES = 16 << 20
BLOCKS_WANTED = 200
MIN_BLOCK_BYTES, MAX_BLOCK_BYTES = 256, 1 << 20
MAX_NOTES = 20
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFile:
    """One file. `label` is its path within the corpus. `rows`: it holds a JSON object with a text on each line."""

    path: Path
    label: str
    area: str
    rows: bool
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCorpus:
    """A body of text. `block_bytes` is about how long the blocks are, None where documents are kept whole.

    Documents over LARGE_BYTES are cut all the same.
    """

    name: str
    origin: str
    files: tuple[CorpusFile, ...]
    block_bytes: int | None
    notes: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def cut_bytes(self) -> int:
        """About how long a block is where a document is cut."""
        return min(max(self.size_bytes // BLOCKS_WANTED, MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCorpus:
    """A Megatron pair that is used where it lies."""

    name: str
    origin: str
    prefix: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is held out or kept as one: a document, or a block of one. `document` counts through the corpus."""

    document: int
    label: str
    area: str
    data: bytes


def find_corpus(path: str) -> TextCorpus | TokenCorpus:
    """The corpus at `path`: ``stdlib``, a text file, a .jsonl file, a folder, or a Megatron prefix.

    Reads every text file once to see that it is UTF-8 text. Raises D101 when there is none, or it is empty.
    """
    if path == STDLIB_NAME:
        return _find_stdlib()
    place = Path(path).expanduser().absolute()
    if place.is_dir():
        return _find_folder(path, place)
    prefix = place.with_suffix("") if place.suffix in (".bin", ".idx") else place
    if (prefix != place or not place.is_file()) and (bin_path(prefix).is_file() or idx_path(prefix).is_file()):
        return _find_tokens(path, prefix)
    if not place.is_file():
        _raise_missing(path, place)
    problem = _text_problem(place)
    if problem is not None:
        raise ConfigError(
            "the file is not UTF-8 text",
            code="D101",
            where=str(place),
            expected="UTF-8 text, JSON lines (.jsonl), or a Megatron prefix",
            found=problem,
            next=f"convert it: iconv -t UTF-8 {place.name}",
        )
    return _text_corpus(place.stem, path, [_corpus_file(place, place.name, "")], ())


def iter_units(corpus: TextCorpus) -> Iterator[Unit]:
    """Every unit of the corpus in order: files by label, rows and blocks as they come. Empty documents are left out.

    Memory: one row, or a file of up to LARGE_BYTES, or a few blocks.
    """
    document = 0
    for file in corpus.files:
        if file.rows:
            for row in _iter_rows(file):
                large = corpus.block_bytes is not None or len(row) > LARGE_BYTES
                for block in cut_text(row, corpus.cut_bytes) if large else [row]:
                    yield Unit(document=document, label=file.label, area=file.area, data=block)
                document += 1
            continue
        with file.path.open("rb") as stream:
            if corpus.block_bytes is not None or file.size_bytes > LARGE_BYTES:
                for block in cut_stream(stream, corpus.cut_bytes):
                    yield Unit(document=document, label=file.label, area=file.area, data=block)
            elif data := stream.read():
                yield Unit(document=document, label=file.label, area=file.area, data=data)
        document += 1


def cut_stream(stream: BufferedIOBase, target_bytes: int) -> Iterator[bytes]:
    """Blocks of about `target_bytes` that make up the stream; see `cut_text`."""
    rest = b""
    keep = 4 * target_bytes
    while chunk := stream.read(max(_CHUNK_BYTES, 2 * keep)):
        rest += chunk
        at = 0
        while len(rest) - at > keep:
            end = _cut_at(rest, at, target_bytes)
            yield rest[at:end]
            at = end
        rest = rest[at:]
    yield from cut_text(rest, target_bytes)


def cut_text(data: bytes, target_bytes: int) -> Iterator[bytes]:
    """Blocks of `target_bytes` to four times as many that make up `data`; the last may be shorter.

    They end after the first blank line past the target, else after a line, else between two characters.
    """
    at = 0
    while at < len(data):
        end = _cut_at(data, at, target_bytes)
        yield data[at:end]
        at = end


def _cut_at(data: bytes, at: int, target_bytes: int) -> int:
    """Where the block that begins at `at` ends."""
    if len(data) - at <= target_bytes:
        return len(data)
    for mark, limit in ((b"\n\n", 2 * target_bytes), (b"\n", 4 * target_bytes)):
        found = data.find(mark, at + target_bytes, at + limit)
        if found >= 0:
            return found + len(mark)
    end = at + 4 * target_bytes
    if end >= len(data):
        return len(data)
    while data[end] & 0xC0 == 0x80:  # a byte within a character: RFC 3629, section 3
        end -= 1
    return end


def _find_stdlib() -> TextCorpus:
    """The .py files of the running interpreter's standard library, without tests and what others installed."""
    root = Path(sysconfig.get_path("stdlib"))
    files = []
    for path in _walk(root, left_out=STDLIB_LEFT_OUT):
        if path.suffix == ".py":
            label = path.relative_to(root).as_posix()
            files.append(_corpus_file(path, label, _stdlib_area(label)))
    return _text_corpus(STDLIB_NAME, STDLIB_NAME, *_readable(files))


def _stdlib_area(label: str) -> str:
    """The area of the standard library that a file belongs to."""
    package, _, rest = label.partition("/")
    if not rest:
        return STDLIB_MODULES
    return next((area for area, packages in STDLIB_AREAS.items() if package in packages), STDLIB_PACKAGES)


def _find_folder(origin: str, folder: Path) -> TextCorpus:
    """All text files below the folder; hidden ones and those that are not text are left out."""
    files = [_corpus_file(path, path.relative_to(folder).as_posix(), "") for path in _walk(folder, frozenset())]
    return _text_corpus(folder.name, origin, *_readable(files))


def _walk(root: Path, left_out: frozenset[str]) -> Iterator[Path]:
    """The files below `root` in the order of their paths. Hidden names and links to folders are left out."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in left_out)
        yield from (Path(folder) / name for name in sorted(files) if not name.startswith("."))


def _find_tokens(origin: str, prefix: Path) -> TokenCorpus:
    """The pair at `prefix`. Raises D101 when only one of the two files is there."""
    for path, other in ((bin_path(prefix), idx_path(prefix)), (idx_path(prefix), bin_path(prefix))):
        if not path.is_file():
            raise ConfigError(
                "half of a Megatron pair is missing",
                code="D101",
                where=str(path),
                expected=f"{bin_path(prefix).name} and {idx_path(prefix).name}",
                found=f"only {other.name}",
                next="copy the other file beside it",
            )
    return TokenCorpus(name=prefix.name, origin=origin, prefix=prefix)


def _corpus_file(path: Path, label: str, area: str) -> CorpusFile:
    return CorpusFile(
        path=path, label=label, area=area, rows=path.suffix == ROWS_SUFFIX, size_bytes=path.stat().st_size
    )


def _readable(files: list[CorpusFile]) -> tuple[list[CorpusFile], tuple[str, ...]]:
    """The files that are UTF-8 text, and a note on each of the others (the first MAX_NOTES of them by name)."""
    good, notes = [], []
    for file in files:
        problem = _text_problem(file.path)
        if problem is None:
            good.append(file)
        else:
            notes.append(f"left out {file.label}: {problem}")
    if len(notes) > MAX_NOTES:
        notes[MAX_NOTES:] = [f"left out {len(notes) - MAX_NOTES} more files that are not text"]
    return good, tuple(notes)


def _text_problem(path: Path) -> str | None:
    """Why the file is not UTF-8 text, None when it is. Reads it to the end or to the first bad byte."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                if b"\0" in chunk:
                    return f"a zero byte at {offset + chunk.index(0):,}: a binary file"
                offset += len(chunk)
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return f"not UTF-8 from byte {offset - len(error.object) + error.start:,} on"
    except OSError as error:
        return error.strerror or str(error)
    return None


def _text_corpus(name: str, origin: str, files: list[CorpusFile], notes: tuple[str, ...]) -> TextCorpus:
    """The corpus of `files`. Raises D101 when they hold no text."""
    files = [file for file in files if file.size_bytes > 0]
    if not files:
        raise ConfigError(
            "there is no text to train on",
            code="D101",
            where=origin,
            expected="at least one UTF-8 text file that is not empty",
            found=notes[0] if notes else "none",
            next="name another file or folder",
        )
    corpus = TextCorpus(
        name=re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "text",
        origin=origin,
        files=tuple(files),
        block_bytes=None,
        notes=notes,
    )
    if _has_many_documents(corpus):
        return corpus
    return TextCorpus(
        name=corpus.name, origin=origin, files=corpus.files, block_bytes=corpus.cut_bytes, notes=corpus.notes
    )


def _has_many_documents(corpus: TextCorpus) -> bool:
    """Whether the corpus has FEW_DOCUMENTS documents or more. Reads at most so many rows."""
    if len(corpus.files) >= FEW_DOCUMENTS:
        return True
    count = 0
    for file in corpus.files:
        count += sum(1 for _ in islice(_iter_rows(file), FEW_DOCUMENTS)) if file.rows else 1
        if count >= FEW_DOCUMENTS:
            return True
    return False


def _iter_rows(file: CorpusFile) -> Iterator[bytes]:
    """The text of each line that is not blank or empty, as UTF-8. Raises D101 that names the bad line."""
    with file.path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.isspace():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                _raise_row(file, number, str(error))
            if not isinstance(row, dict):
                _raise_row(file, number, f"a JSON {type(row).__name__}")
            if "text" not in row:
                _raise_row(file, number, "the keys " + ", ".join(sorted(row)[:8]))
            text = row["text"]
            if not isinstance(text, str):
                _raise_row(file, number, f'"text" is a {type(text).__name__}')
            if text:
                yield text.encode("utf-8", errors="replace")


def _raise_row(file: CorpusFile, number: int, found: str) -> NoReturn:
    raise ConfigError(
        "a line does not hold a document",
        code="D101",
        where=f"{file.path}:{number}",
        expected='a JSON object with a string "text"',
        found=found,
        next="fix or delete the line",
    )


def _raise_missing(origin: str, place: Path) -> NoReturn:
    """Raise D101 for a path where nothing is, with what may have been meant."""
    folder = place.parent
    names = [entry.name for entry in islice(folder.iterdir(), 10_000)] if folder.is_dir() else []
    close = get_close_matches(place.name, names, n=1)
    if close:
        hint = f"did you mean {folder / close[0]}?"
    else:
        meant = get_close_matches(origin, [STDLIB_NAME], n=1)
        hint = f"did you mean {STDLIB_NAME}?" if meant else "check the path"
    raise ConfigError(
        "there is no such text",
        code="D101",
        where=origin,
        expected=f"{STDLIB_NAME}, a text file, a folder, a .jsonl file, or a Megatron prefix",
        found=f"nothing at {place}" if folder.is_dir() else f"no folder {folder}",
        next=hint,
    )
