"""Inside a rank: joins engine, data and checkpoint into a run. Started as ``python -m emberward.rank``.

Never imports the CLI. Reads the environment, as only it and the CLI may. Whoever starts a rank says first how, before
its names are imported: see `emberward._face` [Note: a face that loads what is asked for].

[Note: imports without the collector]
Importing torch makes some hundred thousand objects that all stay. Python's garbage collector looks through them again
and again meanwhile: a quarter of the import's time (torch 2.13, Python 3.11). So a rank's program begins with the
collector off; when the rank is built, what is there is taken out of its sight for good, and it is on again.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.rank._generate import Sampling, write_text
    from emberward.rank._place import RankInfo, read_place
    from emberward.rank._skew import fingerprint, require_equal_fingerprints
    from emberward.rank._trainer import RankOutcome, Trainer
    from emberward.rank._watch import Watching, watch
else:
    __getattr__ = face_of(__name__)

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
