"""Inside a rank: joins engine, data and checkpoint into a run. Started as ``python -m emberward.rank``.

Never imports the CLI. Reads the environment, as only it and the CLI may. Its names are imported when they are first
asked for, as in `checkpoint` [Note: a face that loads what is asked for]: whoever starts a rank says first how.

[Note: imports without the collector]
Importing torch makes some hundred thousand objects that all stay. Python's garbage collector looks through them again
and again meanwhile: a quarter of the import's time (torch 2.13, Python 3.11). So a rank's program begins with the
collector off; when the rank is built, what is there is taken out of its sight for good, and it is on again.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emberward.rank._generate import Sampling, write_text
    from emberward.rank._place import RankInfo, read_place
    from emberward.rank._skew import fingerprint, require_equal_fingerprints
    from emberward.rank._trainer import RankOutcome, Trainer
    from emberward.rank._watch import Watching, watch

_HOMES = {
    "Watching": "_watch",
    "RankOutcome": "_trainer",
    "RankInfo": "_place",
    "Sampling": "_generate",
    "Trainer": "_trainer",
    "fingerprint": "_skew",
    "read_place": "_place",
    "require_equal_fingerprints": "_skew",
    "watch": "_watch",
    "write_text": "_generate",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"emberward.rank.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


__all__ = [
    "RankInfo",
    "RankOutcome",
    "Sampling",
    "Trainer",
    "Watching",
    "fingerprint",
    "read_place",
    "require_equal_fingerprints",
    "watch",
    "write_text",
]
