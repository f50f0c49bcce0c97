"""From the watcher's steps to the run's ``lag/`` folder."""

from contextlib import suppress
from pathlib import Path

import numpy as np

from emberward.report import LagRows, LagWriter, lag_cells
from emberward.sources.live import OwnRows


def lag_rows(rows: OwnRows) -> LagRows:
    """Each rank's own time less the median of the ranks that run its program. Pure. See [Note: lag files]."""
    ranks, programs = tuple(sorted(rows.own_s)), tuple(sorted(set(rows.programs.values())))
    program_of = tuple(programs.index(rows.programs[rank]) for rank in ranks)
    own = np.array([rows.own_s[rank] for rank in ranks], dtype=np.float64).T
    middle = np.stack(
        [np.median(own[:, np.array(program_of) == each], axis=1) for each in range(len(programs))], axis=1
    )
    cells = lag_cells(own - middle[:, np.array(program_of)])
    return LagRows(
        level=1,
        ranks=ranks,
        programs=programs,
        program_of=program_of,
        steps=np.array(rows.steps, dtype=np.int64),
        length_s=np.array(rows.length_s, dtype=np.float32),
        middle_s=middle.astype(np.float32),
        most=cells,
        mean=cells,
    )


class LagLog:
    """Writes what the watcher knows of each step. A disk that refuses stops the log, never the watch."""

    def __init__(self, folder: Path, host: str) -> None:
        self._writer = LagWriter(folder, host)

    def take(self, rows: OwnRows | None) -> None:
        """Appends the rows, if there are any."""
        if rows is not None:
            with suppress(OSError):
                self._writer.write(lag_rows(rows))
