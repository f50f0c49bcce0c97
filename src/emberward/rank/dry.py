"""The program of a dry run: ``python -m emberward.rank.dry FOLDER``. See `sources` [Note: a dry run's folder]."""

import gc
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    """Runs every rank of the folder's job and returns the exit code. Blocks."""
    gc.disable()
    # Torch comes with it. See `__init__.py` [Note: imports without the collector].
    from emberward.rank._dry_job import run_job

    return run_job(Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
