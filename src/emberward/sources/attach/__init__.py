"""Load the recorder into any PyTorch program, unchanged: by the environment that its processes inherit.

[Note: how a program is attached]
`attach_environment` puts a folder with a ``sitecustomize.py`` first on PYTHONPATH. Python imports that at its start, in
every process of the job. It takes its folder off ``sys.path`` again, chains the sitecustomize that would have been
imported without it, and waits: only a process that calls ``torch.distributed.init_process_group`` gets the recorder and
a ring in `RING_VARIABLE`'s folder. So launchers, data workers and compilers stay as they are, and nothing but the
standard library is loaded before the program loads torch. With CAPTURE_VARIABLE each process that imports torch notes
there which logs it opens and what it prints of a loss (`_capture`), and no more. What fails is written into the
folder's problems, and the program runs on. Python started with ``-S``, ``-I`` or ``-E`` reads no sitecustomize and
stays without a recorder.
"""

import os
from collections.abc import Mapping
from pathlib import Path

RING_VARIABLE = "EMBERWARD_RING"
"""The folder for rings; without it no process records."""
PACKAGE_VARIABLE = "EMBERWARD_PACKAGE"
"""Where emberward lies, for a Python that does not have it."""
CAPTURE_VARIABLE = "EMBERWARD_CAPTURE"
"""Set where what a program logs of its loss is to be captured too, from when it imports torch."""
LENS_VARIABLE = "EMBERWARD_LENS"
"""The folder for what the lens sees; without it no process is sampled."""
LENS_WINDOW_VARIABLE = "EMBERWARD_LENS_WINDOW"
"""Steps to pass over and steps to sample, as ``5:50``."""
SITE_FOLDER = Path(__file__).parent / "site"

__all__ = [
    "CAPTURE_VARIABLE",
    "LENS_VARIABLE",
    "LENS_WINDOW_VARIABLE",
    "PACKAGE_VARIABLE",
    "RING_VARIABLE",
    "SITE_FOLDER",
    "attach_environment",
    "lens_environment",
]


def attach_environment(environment: Mapping[str, str], *, ring_folder: Path) -> dict[str, str]:
    """`environment` for a program whose ranks are to record into `ring_folder`. See [Note: how a program is attached].

    The folder is made by `emberward.sources.ring.new_ring_folder`; ranks on another host need one there.
    """
    others = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part and part != str(SITE_FOLDER)]
    return {
        **environment,
        "PYTHONPATH": os.pathsep.join([str(SITE_FOLDER), *others]),
        RING_VARIABLE: str(ring_folder),
        PACKAGE_VARIABLE: str(Path(__file__).parents[3]),
    }


def lens_environment(environment: Mapping[str, str], *, folder: Path, warmup: int, num_steps: int) -> dict[str, str]:
    """`environment` for a program whose steps are sampled into `folder`, once it records too (`attach_environment`)."""
    return {
        # torch's profiler writes its begin and end to the program's stderr below this level.
        "KINETO_LOG_LEVEL": "99",
        **environment,
        LENS_VARIABLE: str(folder),
        LENS_WINDOW_VARIABLE: f"{warmup}:{num_steps}",
    }
