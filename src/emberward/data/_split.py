"""Which documents are held out of training."""

import numpy as np
from numpy.typing import NDArray

from emberward.findings import ConfigError

# A held-out set has at least this much text, or a tenth of its area when that is less.
MIN_HELD_OUT_BYTES = 16 << 10


def hold_out(
    *, hashes: NDArray[np.uint64], sizes: NDArray[np.int64], areas: NDArray[np.int64], share: float
) -> NDArray[np.bool_]:
    """Which units are held out: bool [n], for units with these hashes, sizes in bytes and area numbers.

    [Note: split]
    A unit is held out when its hash, as a fraction of 2**64, is below `share`: so it does not move when other text
    comes or goes, equal units stay on one side, and the held-out text is spread over the whole corpus. Where that
    leaves an area with less than 16 KiB and less than a tenth of its text, its next larger hashes go out too. Of an
    area with two units or more at least one stays on each side, unless all are equal; an area of one unit is trained
    on.
    """
    result = np.zeros(len(hashes), dtype=bool)
    if share <= 0:
        return result
    limit = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
    for area in np.unique(areas).tolist():
        rows = np.flatnonzero(areas == area)
        rows = rows[np.argsort(hashes[rows], kind="stable")]
        ordered = hashes[rows]
        wanted = min(MIN_HELD_OUT_BYTES, int(sizes[rows].sum()) // 10)
        enough = int(np.searchsorted(np.cumsum(sizes[rows]), wanted)) + 1
        count = max(int(np.searchsorted(ordered, limit)), enough)
        count = min(count, len(rows) - 1)
        if count > 0:
            last = ordered[count - 1]
            past = int(np.searchsorted(ordered, last, side="right"))
            count = past if past < len(rows) else int(np.searchsorted(ordered, last))
        result[rows[:count]] = True
    return result


def require_held_out(held: NDArray[np.bool_], *, share: float, origin: str) -> None:
    """Raise D101 when a share should have been held out and nothing could be."""
    if share > 0 and not held.any():
        raise ConfigError(
            "the text is too short, or too much alike, to hold a part out for evaluation",
            code="D101",
            where=origin,
            expected="at least two documents or blocks that differ",
            found=f"{len(held):,}",
            next="give more text, or set data.held_out=0",
        )
