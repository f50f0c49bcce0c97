"""Taking saves off the checkpoint root and putting them back: what a rewind and its undoing do. Nothing is copied or
deleted.

[Note: order of setting aside]
The pointer moves first to the save that stays, then the later saves are renamed away one by one, newest first. Cut at
any point, the run resumes from that save or from none newer than it, and every save is whole in one of two places.
"""

from pathlib import Path

from emberward.checkpoint._names import step_of
from emberward.checkpoint._root import whole_saves, write_pointer
from emberward.checkpoint._storage import DISK, Storage


def set_aside(root: Path, *, after_step: int, to: Path, storage: Storage = DISK) -> tuple[str, ...]:
    """Names of the saves of later steps, which now lie in the folder `to`, made here on the checkpoint root's file
    system.

    ``latest`` names the save of `after_step`. One process calls it, while no rank runs. Raises ValueError when that
    save is not whole, OSError as the file system does. See [Note: order of setting aside].
    """
    stays = next((save for save in whole_saves(root) if save.step == after_step), None)
    if stays is None:
        raise ValueError(f"{root} has no whole save of step {after_step}")
    to.mkdir(parents=True, exist_ok=True)
    write_pointer(storage, root, stays.path.name)
    later = [
        (step, name) for name in storage.listdir(root) if (step := step_of(name)) is not None and step > after_step
    ]
    for _, name in sorted(later, reverse=True):
        storage.rename(root / name, to / name)
    storage.fsync_folder(to)
    storage.fsync_folder(root)
    return tuple(name for _, name in sorted(later))


def put_back(root: Path, *, source: Path, storage: Storage = DISK) -> tuple[str, ...]:
    """Names of the saves that `set_aside` took to `source`, which are on the checkpoint root again; ``latest`` names
    the newest.

    The checkpoint root must hold no save of those steps. As `set_aside` otherwise.
    """
    names = sorted(
        (step, name)
        for name in (storage.listdir(source) if source.is_dir() else [])
        if (step := step_of(name)) is not None
    )
    for _, name in names:
        storage.rename(source / name, root / name)
    storage.fsync_folder(root)
    whole = whole_saves(root)
    if whole:
        write_pointer(storage, root, max(whole, key=lambda save: save.step).path.name)
    return tuple(name for _, name in names)
