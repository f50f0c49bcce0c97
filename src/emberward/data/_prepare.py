"""From the recipe's sources to a manifest."""

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np

import emberward
from emberward.data._corpus import STDLIB_NAME, TextCorpus, find_corpus
from emberward.data._manifest import Manifest, Stream, write_manifest
from emberward.data._part import Part
from emberward.data._progress import Progress
from emberward.data._text_part import prepare_text
from emberward.data._token_part import prepare_tokens
from emberward.data._tokenizer import Tokenizer, TokenizerKind, open_tokenizer
from emberward.findings import ConfigError

SourceArgument = tuple[str, float, str | None]


def prepare(
    *,
    train: Sequence[SourceArgument],
    evaluation: Sequence[SourceArgument],
    tokenizer: str,
    held_out: float,
    cache: Path,
    progress: Progress | None,
) -> Manifest:
    """The manifest of the data of a run, all of whose files are then in `cache` or where the recipe names them.

    A source is (path, weight, name): path as `find_corpus` takes it, name None for the file's own. `held_out` is the
    share of each training source kept out of training. With no `evaluation` sources, those parts are the evaluation
    sets, one for each source and, of the standard library, one for each area; else the sets are the given sources,
    whole, but of one that is trained on too only what was held out of it.

    Blocks: reads all text, and tokenises what is not in the cache. No ranks: one process prepares, the ranks read the
    manifest. Two programs may prepare at once. Raises D101, D102, D104 and, for bad arguments, C103.
    """
    _require_arguments(train, held_out)
    opened = open_tokenizer(tokenizer)
    cache = cache.expanduser().absolute()
    notes: list[str] = []
    sources = [_prepare_source(argument, opened, held_out, cache, progress, notes) for argument in train]
    names = _unique_names([source.name for source in sources], [name for _, _, name in train])
    train_streams = [
        replace(source.part.train, name=name, weight=source.weight) for source, name in zip(sources, names, strict=True)
    ]
    if evaluation:
        sets = _given_sets(evaluation, sources, opened, held_out, cache, progress, notes)
    else:
        sets = [
            replace(stream, name=f"{name}-{stream.name}" if stream.name else name)
            for source, name in zip(sources, names, strict=True)
            for stream in source.part.held_out
        ]
    manifest = Manifest(
        root=cache,
        tokenizer=opened.identity,
        held_out=held_out,
        train=tuple(train_streams),
        evaluation=tuple(sets),
        versions=_versions(opened),
        notes=tuple(notes),
    )
    path = cache / f"manifest-{manifest.digest[:24]}.json"
    write_manifest(manifest, path)
    return replace(manifest, path=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A prepared source with what the recipe says of it. `place` tells two sources of one text."""

    name: str
    weight: float
    place: str
    part: Part


def _prepare_source(
    argument: SourceArgument,
    tokenizer: Tokenizer,
    share: float,
    cache: Path,
    progress: Progress | None,
    notes: list[str],
) -> _Source:
    """Prepare one source; what was left out of it is added to `notes`."""
    path, weight, name = argument
    corpus = find_corpus(path)
    if isinstance(corpus, TextCorpus):
        notes.extend(f"{path}: {note}" for note in corpus.notes)
        part = prepare_text(corpus, tokenizer=tokenizer, share=share, cache=cache, progress=progress)
    else:
        part = prepare_tokens(corpus, tokenizer=tokenizer, share=share, cache=cache, progress=progress)
    return _Source(name=name or corpus.name, weight=weight, place=_place(path), part=part)


def _given_sets(
    evaluation: Sequence[SourceArgument],
    sources: Sequence[_Source],
    tokenizer: Tokenizer,
    share: float,
    cache: Path,
    progress: Progress | None,
    notes: list[str],
) -> list[Stream]:
    """The evaluation sets that the recipe names."""
    trained = {source.place: source for source in sources}
    sets: list[tuple[str, str | None, float, Stream]] = []
    for path, weight, name in evaluation:
        known = trained.get(_place(path))
        if known is not None and share > 0:
            for stream in known.part.held_out:
                own = f"{name or known.name}-{stream.name}" if stream.name else name or known.name
                sets.append((own, name, weight, stream))
            notes.append(f"{path}: also trained on, so only its held-out part is evaluated")
            continue
        if known is not None:
            notes.append(f"{path}: evaluated on the text that is trained on, for data.held_out is 0")
        source = _prepare_source((path, weight, name), tokenizer, 0.0, cache, progress, notes)
        sets.append((source.name, name, weight, source.part.train))
    names = _unique_names([own for own, *_ in sets], [given for _, given, *_ in sets])
    return [replace(stream, name=name, weight=weight) for name, (_, _, weight, stream) in zip(names, sets, strict=True)]


def _place(path: str) -> str:
    """What two spellings of one path have in common."""
    return path if path == STDLIB_NAME else str(Path(path).expanduser().resolve())


def _unique_names(names: Sequence[str], given: Sequence[str | None]) -> list[str]:
    """`names` with a number behind those that come again. Raises C103 when a person gave one name twice."""
    result: list[str] = []
    for name, by_hand in zip(names, given, strict=True):
        count = 2
        unique = name
        while unique in result:
            if by_hand is not None:
                raise ConfigError(
                    f"two data sources are called {name}",
                    code="C103",
                    where="data",
                    expected="a name of its own for each source",
                    found=", ".join(names),
                    next="change one of the names",
                )
            unique, count = f"{name}-{count}", count + 1
        result.append(unique)
    return result


def _require_arguments(train: Sequence[SourceArgument], held_out: float) -> None:
    """Raise C103 for arguments that no data can be made of."""
    if not train:
        raise ConfigError(
            "there is no training source",
            code="C103",
            where="data.train",
            expected="at least one",
            found="none",
            next=f"set data.train to [{{path: {STDLIB_NAME}}}]",
        )
    if not (math.isfinite(held_out) and 0 <= held_out <= 0.5):
        raise ConfigError(
            "the held-out share is out of range",
            code="C103",
            where="data.held_out",
            expected="from 0 to 0.5",
            found=repr(held_out),
            next="set data.held_out=0.05",
        )
    for path, weight, _ in train:
        if not (math.isfinite(weight) and weight > 0):
            raise ConfigError(
                "the weight of a source must be a positive number",
                code="C103",
                where=f"data.train, source {json.dumps(path)}",
                expected="> 0",
                found=repr(weight),
                next="leave the source out to give it no share",
            )


def _versions(tokenizer: Tokenizer) -> dict[str, str]:
    """What prepared the data; recorded, but no part of the digests."""
    versions = {"emberward": emberward.__version__, "python": platform.python_version(), "numpy": np.__version__}
    if tokenizer.identity.kind is TokenizerKind.HUGGING_FACE:
        versions["tokenizers"] = metadata.version("tokenizers")
    return versions
