"""Renames that the scratch layer cannot do and the machine could: across its layers, and of folders below it. No torch.

overlayfs answers EXDEV to the rename of a folder that lies in its lower layer, and each folder of the machine is a
mount of its own in the view (`_sandbox.py`). Where both names are on one mount of the machine, what is renamed is
copied instead, and then removed.
"""

import errno
import functools
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def stand_in_for_renames(mount_points: Sequence[str]) -> None:
    """Replaces ``os.rename`` and ``os.replace`` of this process; `mount_points` are the machine's."""
    points = tuple(sorted(mount_points, key=len, reverse=True))
    os.rename = _copying(os.rename, points)
    os.replace = _copying(os.replace, points)


def _copying(original: Callable[..., None], points: Sequence[str]) -> Callable[..., None]:
    @functools.wraps(original)
    def rename(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        try:
            original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        except OSError as error:
            if error.errno != errno.EXDEV or src_dir_fd is not None or dst_dir_fd is not None:
                raise
            source, target = Path(os.fsdecode(src)), Path(os.fsdecode(dst))
            if _mount_of(source, points) != _mount_of(target, points):
                raise
            _copy(source, target, original)

    return rename


def _mount_of(path: Path, points: Sequence[str]) -> str:
    real = str(path.parent.resolve() / path.name)
    return next((point for point in points if real == point or real.startswith(point.rstrip("/") + "/")), "/")


def _copy(source: Path, target: Path, rename: Callable[..., None]) -> None:
    """As rename(2): a file replaces what is there, a folder only an empty one; the new name appears whole."""
    if source.is_dir() and not source.is_symlink():
        if target.is_dir():
            target.rmdir()
        shutil.copytree(source, target, symlinks=True)
        shutil.rmtree(source)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copy2(source, temporary, follow_symlinks=False)
    rename(temporary, target)
    source.unlink()
