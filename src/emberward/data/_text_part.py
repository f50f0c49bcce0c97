"""Text to tokens: a corpus read twice, split, tokenised and written as .bin/.idx into the cache."""

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emberward.data._corpus import TextCorpus, Unit, iter_units
from emberward.data._indexed import IndexedWriter, bin_path, idx_path
from emberward.data._manifest import Stream, record_file
from emberward.data._part import Part, make_part, part_key, read_part
from emberward.data._progress import Progress, Reporter
from emberward.data._split import hold_out, require_held_out
from emberward.data._tokenizer import Tokenizer, Tokens, token_dtype
from emberward.findings import Cause, ConfigError

TRAIN = "train"
HELD_OUT = "held_out"
_GROUP_BYTES, _GROUP_UNITS = 4 << 20, 1024


def prepare_text(
    corpus: TextCorpus, *, tokenizer: Tokenizer, share: float, cache: Path, progress: Progress | None
) -> Part:
    """The corpus as tokens in the cache, `share` of it held out: found there, or made now. See [Note: cache].

    Raises D101 when there is no text or too little to hold a part out, D102 when it changes meanwhile, D104 when the
    disk does not take it. Blocks: reads the text once when it is found, twice when it is made.
    """
    scan = _scan(corpus, share, Reporter(progress, f"reading {corpus.name}", corpus.size_bytes))
    key = part_key("text", scan.digest, tokenizer, share, corpus.cut_bytes)
    found = read_part(cache, key)
    if found is not None:
        return found.of_origin(corpus.origin)

    def build(folder: Path) -> Part:
        reporter = Reporter(progress, f"tokenising {corpus.name}", corpus.size_bytes)
        with _SideWriters(folder, tokenizer) as writers:
            again = _write_units(corpus, scan, tokenizer, writers, reporter)
            if again != scan.digest:
                raise _changed_meanwhile(corpus)
        reporter.end()
        sides = {side: _stream(folder, key, side, writer, scan.rule) for side, writer in writers.written()}
        return Part(train=sides.pop(TRAIN), held_out=tuple(sides.values()))

    return make_part(cache, key, build).of_origin(corpus.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scan:
    """What one reading of a corpus tells: its digest, which units are held out, and the rule in words."""

    digest: str
    held: NDArray[np.bool_]
    rule: str


def _scan(corpus: TextCorpus, share: float, reporter: Reporter) -> _Scan:
    """Read the corpus once and decide the split. See [Note: split]."""
    digest = hashlib.sha256()
    hashes, sizes, areas = array("Q"), array("q"), array("q")
    numbers: dict[str, int] = {}
    for unit in iter_units(corpus):
        own = _unit_digest(unit)
        digest.update(_unit_line(unit, own))
        hashes.append(int.from_bytes(own[:8], "little"))
        sizes.append(len(unit.data))
        areas.append(numbers.setdefault(unit.area, len(numbers)))
        reporter.add(len(unit.data))
    reporter.end()
    if not hashes:
        raise ConfigError(
            "there is no text to train on",
            code="D101",
            where=corpus.origin,
            expected="at least one document that is not empty",
            found="none",
            next="name another file or folder",
        )
    held = hold_out(
        hashes=np.frombuffer(hashes, np.uint64),
        sizes=np.frombuffer(sizes, np.int64),
        areas=np.frombuffer(areas, np.int64),
        share=share,
    )
    require_held_out(held, share=share, origin=corpus.origin)
    what = "document" if corpus.block_bytes is None else f"block of about {corpus.block_bytes:,} bytes"
    rule = f"a {what} is held out when the hash of its text falls below {share:g}" if share > 0 else "nothing held out"
    return _Scan(digest=digest.hexdigest(), held=held, rule=rule)


def _unit_digest(unit: Unit) -> bytes:
    """sha256 of the unit's text."""
    return hashlib.sha256(unit.data).digest()


def _unit_line(unit: Unit, own: bytes) -> bytes:
    """What a unit adds to the digest of its corpus: where it stands and what it is."""
    return f"{unit.label}\0{unit.area}\0{unit.document}\0".encode() + own


def _write_units(
    corpus: TextCorpus, scan: _Scan, tokenizer: Tokenizer, writers: "_SideWriters", reporter: Reporter
) -> str:
    """Tokenise every unit into its side. Returns the digest of what was read now, to compare with the scan's."""
    digest = hashlib.sha256()
    place = 0
    for group in _groups(iter_units(corpus)):
        for unit in group:
            digest.update(_unit_line(unit, _unit_digest(unit)))
        if place + len(group) > len(scan.held):
            return digest.hexdigest()
        try:
            texts = [unit.data.decode("utf-8") for unit in group]
        except UnicodeDecodeError:
            return digest.hexdigest()
        for unit, tokens in zip(group, tokenizer.encode_batch(texts), strict=True):
            writers.add(unit, bool(scan.held[place]), tokens)
            reporter.add(len(unit.data))
            place += 1
    return digest.hexdigest()


def _groups(units: Iterator[Unit]) -> Iterator[list[Unit]]:
    """The units in lists of a few MiB, to tokenise several at once."""
    group: list[Unit] = []
    size = 0
    for unit in units:
        group.append(unit)
        size += len(unit.data)
        if size >= _GROUP_BYTES or len(group) >= _GROUP_UNITS:
            yield group
            group, size = [], 0
    if group:
        yield group


class _SideWriters:
    """One indexed pair for training and one for each held-out area, in one folder.

    Blocks of a document that follow each other on one side stay one document: the end token stands only where the text
    ends or the split cuts it.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer) -> None:
        self._folder = folder
        self._dtype = token_dtype(tokenizer.size)
        self._eod = np.array([tokenizer.eod], dtype=self._dtype)
        self._writers: dict[str, IndexedWriter] = {}
        self._open: tuple[str, int] | None = None
        self._last: Tokens | None = None

    def add(self, unit: Unit, held: bool, tokens: Tokens) -> None:
        """Append a unit's tokens to its side."""
        side = TRAIN if not held else f"{HELD_OUT}.{unit.area}" if unit.area else HELD_OUT
        if self._open is not None and self._open != (side, unit.document):
            self._end_document()
        if side not in self._writers:
            self._writers[side] = IndexedWriter(self._folder / side, self._dtype)
        if self._last is not None:
            self._writers[side].add_sequence(self._last)
        self._open, self._last = (side, unit.document), tokens

    def written(self) -> list[tuple[str, IndexedWriter]]:
        """Each side with its writer."""
        return sorted(self._writers.items())

    def _end_document(self) -> None:
        """Write the last unit of the document that is open, with the end token."""
        if self._open is None or self._last is None:
            return
        writer = self._writers[self._open[0]]
        writer.add_document(np.concatenate([self._last, self._eod]))
        self._open = self._last = None

    def __enter__(self) -> "_SideWriters":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self._end_document()
        for writer in self._writers.values():
            writer.__exit__(kind, error, None)


def _stream(folder: Path, key: str, side: str, writer: IndexedWriter, rule: str) -> Stream:
    """The stream of a pair that was written into `folder`, which will be called `key` in the cache."""
    prefix = folder / side
    records = (record_file(folder, path.name) for path in (bin_path(prefix), idx_path(prefix)))
    return Stream(
        name=side.partition(".")[2],
        weight=1.0,
        origin="",
        split=rule,
        prefix=f"{key}/{side}",
        segments=None,
        num_tokens=writer.num_tokens,
        num_documents=writer.num_documents,
        files=tuple(replace(record, path=f"{key}/{record.path}") for record in records),
    )


def _changed_meanwhile(corpus: TextCorpus) -> ConfigError:
    """The D102 of a text that is being written to."""
    return ConfigError(
        "the text changed while it was being prepared",
        code="D102",
        where=corpus.origin,
        expected="the same text at both readings",
        found="another digest at the second",
        next="start again when nothing writes to it",
        cause=Cause.BAD_DATA,
    )
