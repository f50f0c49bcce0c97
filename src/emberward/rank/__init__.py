"""Inside a rank: joins engine, data and checkpoint into a run. Started as ``python -m emberward.rank``.

Never imports the CLI. Reads the environment, as only it and the CLI may.
"""

from emberward.rank._place import Place, read_place
from emberward.rank._skew import fingerprint, require_equal_fingerprints
from emberward.rank._trainer import Outcome, Trainer

__all__ = ["Outcome", "Place", "Trainer", "fingerprint", "read_place", "require_equal_fingerprints"]
