"""From the recipe's sources to a manifest."""

import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np

import emberward
from emberward.data._corpus import STDLIB_NAME, TextCorpus, find_corpus
from emberward.data._image_files import PACKAGE_SETS, find_images
from emberward.data._image_folder import Decoding
from emberward.data._image_form import ImageForm
from emberward.data._image_part import common_form, prepare_images
from emberward.data._manifest import Manifest, Stream, write_manifest
from emberward.data._part import Part
from emberward.data._progress import Progress
from emberward.data._text_part import prepare_text
from emberward.data._token_part import prepare_tokens
from emberward.data._tokenizer import Tokenizer, TokenizerIdentity, TokenizerKind, open_tokenizer
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
    opened = open_tokenizer(tokenizer)
    cache = cache.expanduser().absolute()

    def one(path: str, share: float) -> _Found:
        corpus = find_corpus(path)
        if isinstance(corpus, TextCorpus):
            part = prepare_text(corpus, tokenizer=opened, share=share, cache=cache, progress=progress)
            return _Found(name=corpus.name, part=part, notes=corpus.notes)
        part = prepare_tokens(corpus, tokenizer=opened, share=share, cache=cache, progress=progress)
        return _Found(name=corpus.name, part=part, notes=())

    made = _all_sources(train, evaluation, held_out, one)
    return _written(made, cache, held_out, _versions(opened), tokenizer=opened.identity)


def prepare_image_sets(
    *,
    train: Sequence[SourceArgument],
    evaluation: Sequence[SourceArgument],
    decoding: Decoding,
    held_out: float,
    cache: Path,
    progress: Progress | None,
) -> Manifest:
    """As `prepare`, for images: paths as `find_images` takes them. Decodes every image that is not in the cache.

    Raises D101 where sources differ in size or mode too.
    """
    cache = cache.expanduser().absolute()
    forms: list[tuple[str, ImageForm]] = []

    def one(path: str, share: float) -> _Found:
        corpus = find_images(path, decoding)
        part, form = prepare_images(corpus, decoding=decoding, share=share, cache=cache, progress=progress)
        forms.append((path, form))
        return _Found(name=corpus.name, part=part, notes=())

    made = _all_sources(train, evaluation, held_out, one)
    return _written(made, cache, held_out, _versions(None), images=common_form(forms))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A prepared body of data, with its own name and what was left out of it."""

    name: str
    part: Part
    notes: tuple[str, ...]


_One = Callable[[str, float], _Found]
"""Prepares what is at a path, with a share held out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """All streams of a manifest, and its notes."""

    train: tuple[Stream, ...]
    evaluation: tuple[Stream, ...]
    notes: tuple[str, ...]


def _all_sources(
    train: Sequence[SourceArgument], evaluation: Sequence[SourceArgument], held_out: float, one: _One
) -> _Made:
    _require_arguments(train, held_out)
    notes: list[str] = []
    sources = [_prepare_source(argument, held_out, one, notes) for argument in train]
    names = _unique_names([source.name for source in sources], [name for _, _, name in train])
    streams = [
        replace(source.part.train, name=name, weight=source.weight) for source, name in zip(sources, names, strict=True)
    ]
    if evaluation:
        sets = _given_sets(evaluation, sources, held_out, one, notes)
    else:
        sets = [
            replace(stream, name=f"{name}-{stream.name}" if stream.name else name)
            for source, name in zip(sources, names, strict=True)
            for stream in source.part.held_out
        ]
    return _Made(train=tuple(streams), evaluation=tuple(sets), notes=tuple(notes))


def _written(
    made: _Made,
    cache: Path,
    held_out: float,
    versions: dict[str, str],
    *,
    tokenizer: TokenizerIdentity | None = None,
    images: ImageForm | None = None,
) -> Manifest:
    """The manifest of what was made, written into the cache."""
    manifest = Manifest(
        root=cache,
        tokenizer=tokenizer,
        images=images,
        held_out=held_out,
        train=made.train,
        evaluation=made.evaluation,
        versions=versions,
        notes=made.notes,
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


def _prepare_source(argument: SourceArgument, share: float, one: _One, notes: list[str]) -> _Source:
    """Prepare one source; what was left out of it is added to `notes`."""
    path, weight, name = argument
    found = one(path, share)
    notes.extend(f"{path}: {note}" for note in found.notes)
    return _Source(name=name or found.name, weight=weight, place=_place(path), part=found.part)


def _given_sets(
    evaluation: Sequence[SourceArgument], sources: Sequence[_Source], share: float, one: _One, notes: list[str]
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
            notes.append(f"{path}: evaluated on the data that is trained on, for data.held_out is 0")
        source = _prepare_source((path, weight, name), 0.0, one, notes)
        sets.append((source.name, name, weight, source.part.train))
    names = _unique_names([own for own, *_ in sets], [given for _, given, *_ in sets])
    return [replace(stream, name=name, weight=weight) for name, (_, _, weight, stream) in zip(names, sets, strict=True)]


def _place(path: str) -> str:
    """What two spellings of one path have in common."""
    return path if path == STDLIB_NAME or path in PACKAGE_SETS else str(Path(path).expanduser().resolve())


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


def _versions(tokenizer: Tokenizer | None) -> dict[str, str]:
    """What prepared the data; recorded, but no part of the digests."""
    versions = {"emberward": emberward.__version__, "python": platform.python_version(), "numpy": np.__version__}
    if tokenizer is not None and tokenizer.identity.kind is TokenizerKind.HUGGING_FACE:
        versions["tokenizers"] = metadata.version("tokenizers")
    return versions
