"""Tokens that are there already: a Megatron pair used where it lies, with a list of what is held out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emberward.data._corpus import TokenCorpus
from emberward.data._indexed import IndexedReader, bin_path, idx_path
from emberward.data._manifest import Stream, record_file
from emberward.data._part import Part, make_part, part_key, read_part
from emberward.data._progress import Progress, Reporter
from emberward.data._split import hold_out, require_held_out
from emberward.data._tokenizer import Tokenizer
from emberward.draws import mix64_array
from emberward.findings import Cause, ConfigError

_SCAN_TOKENS = 1 << 23


def prepare_tokens(
    corpus: TokenCorpus, *, tokenizer: Tokenizer, share: float, cache: Path, progress: Progress | None
) -> Part:
    """The pair as a part; its files are not copied. Found in the cache, or checked and listed now.

    Documents are held out by the hash of their number, for their text is not at hand. Raises D101 when the pair is
    damaged, holds sequences that are not text, tokens that the tokenizer does not have, or too little to hold a part
    out. Blocks: reads the pair once in full the first time.
    """
    prefix = corpus.prefix
    reader = IndexedReader(prefix)
    records = tuple(record_file(cache, str(path)) for path in (bin_path(prefix), idx_path(prefix)))
    content = " ".join([str(prefix), *(record.sha256 for record in records)])
    key = part_key("tokens", content, tokenizer, share, None)
    found = read_part(cache, key)
    if found is not None:
        return found.of_origin(corpus.origin)
    reader.require_whole()
    _require_text(reader)
    _require_known_tokens(reader, tokenizer, Reporter(progress, f"checking {corpus.name}", reader.num_tokens))
    starts = reader.document_starts()
    sizes = np.diff(starts)
    held = hold_out(
        hashes=mix64_array(np.arange(len(sizes), dtype=np.uint64)),
        sizes=sizes * reader.dtype.itemsize,
        areas=np.zeros(len(sizes), dtype=np.int64),
        share=share,
    )
    require_held_out(held, share=share, origin=corpus.origin)
    whole = Stream(
        name="",
        weight=1.0,
        origin="",
        split=f"a document is held out when the hash of its number falls below {share:g}"
        if share > 0
        else "nothing held out",
        prefix=str(prefix),
        segments=None,
        num_tokens=reader.num_tokens,
        num_documents=reader.num_documents,
        files=records,
    )

    def build(folder: Path) -> Part:
        if not held.any():
            return Part(train=whole, held_out=())
        train = _part_of(whole, folder, key, "train", starts, ~held)
        return Part(train=train, held_out=(_part_of(whole, folder, key, "held_out", starts, held),))

    return make_part(cache, key, build).of_origin(corpus.origin)


def _part_of(
    whole: Stream, folder: Path, key: str, side: str, starts: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> Stream:
    """The stream of the chosen documents of `whole`; writes their segments into `folder`."""
    segments = _segments(starts, chosen)
    name = f"{side}.segments.npy"
    with (folder / name).open("wb") as stream:
        np.save(stream, segments)
    record = replace(record_file(folder, name), path=f"{key}/{name}")
    return replace(
        whole,
        segments=record.path,
        num_tokens=int(segments[:, 1].sum()),
        num_documents=int(chosen.sum()),
        files=(*whole.files, record),
    )


def _segments(starts: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(first token, number of tokens) of each run of chosen documents: [n, 2]. Empty runs are left out."""
    edges = np.diff(np.concatenate([[False], chosen, [False]]).astype(np.int8))
    firsts, ends = starts[np.flatnonzero(edges == 1)], starts[np.flatnonzero(edges == -1)]
    result: NDArray[np.int64] = np.stack([firsts, ends - firsts], axis=1)
    return result[result[:, 1] > 0]


def _require_text(reader: IndexedReader) -> None:
    """Raise D101 when a sequence has a mode other than 0: in multimodal files those are no text tokens."""
    if reader.sequence_modes is None:
        return
    wrong = np.flatnonzero(reader.sequence_modes)
    if len(wrong):
        raise ConfigError(
            "the pair holds sequences that are not text",
            code="D101",
            where=str(idx_path(reader.prefix)),
            expected="mode 0 for every sequence",
            found=f"mode {int(reader.sequence_modes[wrong[0]])} at sequence {int(wrong[0]):,}, {len(wrong):,} in all",
            next="write a pair of the text alone",
        )


def _require_known_tokens(reader: IndexedReader, tokenizer: Tokenizer, reporter: Reporter) -> None:
    """Raise D101 when a token lies outside the tokenizer's vocabulary. Reads every token."""
    for start in range(0, reader.num_tokens, _SCAN_TOKENS):
        tokens = reader.tokens(start, start + _SCAN_TOKENS)
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= tokenizer.size:
            place = start + int(np.argmax(tokens if high >= tokenizer.size else -tokens.astype(np.int64)))
            raise ConfigError(
                "the pair was made with another tokenizer",
                code="D101",
                where=str(bin_path(reader.prefix)),
                expected=f"tokens from 0 to {tokenizer.size - 1:,} of tokenizer {tokenizer.identity.name}",
                found=f"token {high if high >= tokenizer.size else low:,} at place {place:,}",
                next="set data.tokenizer to the tokenizer.json that the pair was made with",
                cause=Cause.BAD_DATA,
            )
        reporter.add(len(tokens))
    reporter.end()
