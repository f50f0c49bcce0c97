"""What images are: their form, a batch of them, and a body of them as it is found."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emberward.findings import Cause, ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageForm:
    """What all images of a run have in common. `channels`: 1 grey, 3 red, green and blue."""

    height: int
    width: int
    channels: int
    num_classes: int

    def content(self) -> dict[str, object]:
        """The part that counts for a digest."""
        return {"size": [self.height, self.width, self.channels], "num_classes": self.num_classes}

    def __str__(self) -> str:
        return f"{self.height} x {self.width} pixels, {self.channels} channel{'s' if self.channels > 1 else ''}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageBatch:
    """B images as a network takes them.

    `images` float32 [B, C, H, W], from -1 (0) to 1 (255); `targets` float32 [B, classes], each row the share of each
    class, sum 1; `mask` float32 [B], 0 for padding; `samples` the number of each row in the run, None for padding or
    evaluation.
    """

    images: NDArray[np.float32]
    targets: NDArray[np.float32]
    mask: NDArray[np.float32]
    samples: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Images uint8 [n, H, W, C] with their class numbers int64 [n], and the file where they were read; `first`: the
    number there of the first of them, None in a file of one image."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    file: str
    first: int | None = None

    def where(self, number: int = 0) -> str:
        """Where image `number` of these was read, in words."""
        return self.file if self.first is None else f"{self.file}, image {self.first + number:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCorpus:
    """A body of images. `files` decide what it holds; `blocks` reads all of them; `class_names` by number, if known."""

    name: str
    origin: str
    files: tuple[Path, ...]
    blocks: Callable[[], Iterator[Block]]
    class_names: tuple[str, ...] | None


def bad_images(what: str, *, where: object, expected: str, found: str, next: str | None = None) -> ConfigError:
    """The D101 of images that cannot be used."""
    return ConfigError(
        what, code="D101", where=str(where), expected=expected, found=found, next=next, cause=Cause.BAD_DATA
    )
