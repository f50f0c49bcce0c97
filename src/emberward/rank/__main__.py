"""A rank's program, started by torchrun or srun, one process a rank.

    torchrun --nproc-per-node 8 -m emberward.rank RECIPE [a.b=c ...]
    srun --ntasks 8 python -m emberward.rank RECIPE [a.b=c ...]

Emberward's own launcher starts it with ``--folder`` on a run that it has prepared.
"""

import argparse
import gc
import os
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

from emberward.findings import EmberwardError
from emberward.rank._place import RankInfo, read_place
from emberward.rank._start_phase import IMPORTS, report_start
from emberward.report import RunFolder, write_json

KILL_SWITCH = "EMBERWARD_KILL_SWITCH"
"""Names the file that stops the run, where it is not the one beside the runs of its name."""
JOINED = "EMBERWARD_JOINED"
"""Names a file in which the ranks of a host tell its supervisor which run is theirs."""
HOST = "EMBERWARD_HOST"
"""What the launcher calls this host."""


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m emberward.rank", description=__doc__, allow_abbrev=False)
    parser.add_argument("--folder", type=Path, help="folder of a run that the launcher prepared")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where run folders lie (with RECIPE)")
    parser.add_argument("--fresh", action="store_true", help="start anew (with RECIPE)")
    parser.add_argument("--fits", action="store_true", help="the layout gives way to the number of ranks (with RECIPE)")
    parser.add_argument("recipe", nargs="?", help="recipe, when started by plain torchrun or srun")
    parser.add_argument("overrides", nargs="*", help="a.b=c")
    options, rest = parser.parse_known_args(arguments)
    options.overrides += rest
    if (options.folder is None) == (options.recipe is None):
        parser.error("give RECIPE, or --folder of a run that the launcher prepared")
    return options


def _redirect(path: Path) -> None:
    """Sends this process's standard output and error, native code's too, to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)


def _write_failure(folder: RunFolder, place: RankInfo, error: BaseException) -> None:
    folder.failures.mkdir(parents=True, exist_ok=True)
    finding = error.to_finding().to_json() if isinstance(error, EmberwardError) else None
    write_json(
        folder.failure_file(place.rank),
        {
            "rank": place.rank,
            "host": place.host,
            "time_unix": time.time(),
            "type": type(error).__name__,
            "message": str(error),
            "traceback": "".join(traceback.format_exception(error)),
            "finding": finding,
        },
    )


def main(arguments: Sequence[str]) -> int:
    """Runs this rank to its end and returns its exit code."""
    options = _parse(arguments)
    place = read_place(os.environ, host=os.environ.get(HOST) or socket.gethostname())
    if options.folder is not None:
        _redirect(RunFolder(path=options.folder).rank_log(place.rank))
        report_start(RunFolder(path=options.folder), IMPORTS, rank=place.rank)
    # A launcher's pipe too shows each line as it is written, and all of them when the rank is killed.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch")
    gc.disable()
    # Torch comes with these. See `__init__.py` [Note: imports without the collector].
    from emberward.rank._join import Wanted
    from emberward.rank._session import Session

    wanted = Wanted(
        folder=options.folder,
        recipe=options.recipe,
        overrides=tuple(options.overrides),
        runs=options.runs,
        is_fresh=options.fresh,
        may_move=options.fits,
        joined=None if JOINED not in os.environ else Path(os.environ[JOINED]),
        kill_switch=None if KILL_SWITCH not in os.environ else Path(os.environ[KILL_SWITCH]),
    )
    session = Session(place, wanted)
    try:
        return session.run()
    except BaseException as error:  # noqa: BLE001 (whatever ends a rank is written down, then the rank ends)
        # As the interpreter does with what escapes: a recorder hears of it there, and prints it too.
        sys.excepthook(type(error), error, error.__traceback__)
        if session.folder is not None:
            _write_failure(session.folder, place, error)
        sys.stderr.flush()
        return error.exit_code if isinstance(error, EmberwardError) else 1
    finally:
        session.leave()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: threads of a communicator that waits for a dead peer would keep the process for its timeout.
    os._exit(code)
