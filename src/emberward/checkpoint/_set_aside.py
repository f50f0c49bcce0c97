"""Taking saves off the shelf and putting them back: what a rewind and its undoing do. Nothing is copied or deleted.

[Note: order of setting aside]
The pointer moves first to the save that stays, then the later saves are renamed away one by one, newest first. Cut at
any point, the run resumes from that save or from none newer than it, and every save is whole in one of two places.
"""

from pathlib import Path

from emberward.checkpoint._names import step_of
from emberward.checkpoint._shelf import whole_saves, write_pointer
from emberward.checkpoint._storage import DISK, Storage


def set_aside(shelf: Path, *, after_step: int, to: Path, storage: Storage = DISK) -> tuple[str, ...]:
    """Names of the saves of later steps, which now lie in the folder `to`, made here on the shelf's file system.

    ``latest`` names the save of `after_step`. One process calls it, while no rank runs. Raises ValueError when that
    save is not whole, OSError as the file system does. See [Note: order of setting aside].
    """
    stays = next((save for save in whole_saves(shelf) if save.step == after_step), None)
    if stays is None:
        raise ValueError(f"{shelf} has no whole save of step {after_step}")
    to.mkdir(parents=True, exist_ok=True)
    write_pointer(storage, shelf, stays.path.name)
    later = [
        (step, name) for name in storage.listdir(shelf) if (step := step_of(name)) is not None and step > after_step
    ]
    for _, name in sorted(later, reverse=True):
        storage.rename(shelf / name, to / name)
    storage.fsync_folder(to)
    storage.fsync_folder(shelf)
    return tuple(name for _, name in sorted(later))


def put_back(shelf: Path, *, source: Path, storage: Storage = DISK) -> tuple[str, ...]:
    """Names of the saves that `set_aside` took to `source`, which are on the shelf again; ``latest`` names the newest.

    The shelf must hold no save of those steps. As `set_aside` otherwise.
    """
    names = sorted(
        (step, name)
        for name in (storage.listdir(source) if source.is_dir() else [])
        if (step := step_of(name)) is not None
    )
    for _, name in names:
        storage.rename(source / name, shelf / name)
    storage.fsync_folder(shelf)
    whole = whole_saves(shelf)
    if whole:
        write_pointer(storage, shelf, max(whole, key=lambda save: save.step).path.name)
    return tuple(name for _, name in names)
