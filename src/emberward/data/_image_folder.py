"""Image files in a folder for each class, decoded by Pillow, which is imported when the first one is opened."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emberward.data._image_form import Block, ImageCorpus, bad_images
from emberward.findings import ConfigError

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
MODES = {"L": 1, "RGB": 3}
"""Pillow's names of the modes that are kept as they are, with their channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """What is done to image files as they are read: `side`: scaled so that the shorter side has as many pixels and cut
    square around the middle; `mode`: converted to that one of MODES. None: left as they are, and all must agree.
    """

    side: int | None = None
    mode: str | None = None


def find_folder(origin: str, place: Path, decoding: Decoding) -> ImageCorpus:
    """The images below the class folders of `place`; classes are numbered in the order of their folders' names.

    Raises D101 without such folders and files, and without Pillow.
    """
    classes = sorted(entry.name for entry in place.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    files = [
        (file, number)
        for number, name in enumerate(classes)
        for file in sorted((place / name).rglob("*"))
        if file.suffix.lower() in SUFFIXES
    ]
    if not files:
        loose = sum(entry.suffix.lower() in SUFFIXES for entry in place.iterdir())
        raise bad_images(
            "the folder holds no images by class",
            where=place,
            expected="a folder for each class, with image files below it, or images.npy and labels.npy",
            found=f"{len(classes)} folders without one" + (f", {loose} image files beside them" if loose else ""),
            next=f"mkdir {place.name}/CLASS and move its images there",
        )
    library = _import_pillow(place)

    def blocks() -> Iterator[Block]:
        for file, number in files:
            pixels = _decode(library, file, decoding)
            yield Block(images=pixels[None], labels=np.array([number], np.int64), file=str(file))

    return ImageCorpus(
        name=place.name,
        origin=origin,
        files=tuple(file for file, _ in files),
        blocks=blocks,
        class_names=tuple(classes),
    )


def _import_pillow(place: Path) -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ConfigError(
            "reading image files needs Pillow",
            code="D101",
            where=str(place),
            expected="the package Pillow",
            found=str(error),
            next="pip install 'emberward[images]'",
        ) from error


def _decode(library: Any, file: Path, decoding: Decoding) -> NDArray[np.uint8]:
    """The pixels of a file: uint8 [H, W, C]."""
    try:
        with library.open(file) as image:
            image.load()
            if image.mode != decoding.mode:
                image = _converted(image, file, decoding.mode)
            if decoding.side is not None:
                image = _scaled(library, image, decoding.side)
            pixels = np.asarray(image, np.uint8)
    except (OSError, SyntaxError, ValueError) as error:
        raise bad_images(
            "an image file is damaged",
            where=file,
            expected="a whole image that Pillow can read",
            found=f"{type(error).__name__}: {error}",
            next="fetch the file again, or move it away",
        ) from error
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _converted(image: Any, file: Path, mode: str | None) -> Any:
    if mode is not None:
        return image.convert(mode)
    if image.mode in MODES:
        return image
    raise bad_images(
        "an image is of another mode",
        where=file,
        expected=f"{' or '.join(MODES)}, all alike",
        found=image.mode,
        next="data.images.mode=RGB converts every image",
    )


def _scaled(library: Any, image: Any, side: int) -> Any:
    """The image with `side` pixels on its shorter side, cut square around the middle."""
    short = min(image.size)
    width, height = (max(side, round(length * side / short)) for length in image.size)
    image = image.resize((width, height), library.Resampling.BICUBIC)
    left, top = (width - side) // 2, (height - side) // 2
    return image.crop((left, top, left + side, top + side))
