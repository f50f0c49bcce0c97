"""The errors of this room, each with its four facts. K101 damaged, K102 does not fit, K103 could not be written."""

import difflib
import errno
from collections.abc import Iterable
from pathlib import Path

from emberward.checkpoint._root import list_saves
from emberward.findings import Cause, EmberwardError


def damaged(
    checkpoint: Path, what: str, *, where: str, expected: str, found: str, cause: Cause = Cause.CORRUPT_FILE
) -> EmberwardError:
    """K101, with the save that was made before `checkpoint` offered as the way out."""
    return EmberwardError(
        what,
        code="K101",
        where=str(checkpoint / where),
        expected=expected,
        found=found,
        next=_way_out(checkpoint),
        cause=cause,
    )


def _way_out(checkpoint: Path) -> str:
    """What to do about a damaged save: the newest whole one that was made before it. Reads manifests; never raises."""
    try:
        saves = list_saves(checkpoint.parent)
    except OSError:
        saves = ()
    own = next((save.serial for save in saves if save.path == checkpoint), None)
    older = [
        save
        for save in saves
        if save.path != checkpoint
        and save.problem is None
        and save.serial is not None
        and (own is None or save.serial < own)
    ]
    if not older:
        return f"emberward checkpoint verify {checkpoint}      (there is no older save beside it)"
    before = older[-1]
    return f"emberward checkpoint verify {before.path}      (the save before it, of step {before.step}: resume there)"


def near_misses(name: str, known: Iterable[str]) -> str | None:
    """``did you mean ...`` with up to 3 known names that are like `name`, None when none is."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.7)
    return f"did you mean {' or '.join(close)}?" if close else None


def not_written(error: OSError, *, where: Path, rank: int) -> EmberwardError:
    """K103 for an error of the file system."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return EmberwardError(
        f"rank {rank} could not write the checkpoint",
        code="K103",
        where=str(error.filename or where),
        found=error.strerror or str(error),
        next=(
            f"free space where {where} lies, then start again: it resumes from the save before"
            if full
            else f"check the file system of {where}, then start again: it resumes from the save before"
        ),
        cause=Cause.DISK_FULL if full else Cause.CHECKPOINT_IO,
        ranks=(rank,),
    )
