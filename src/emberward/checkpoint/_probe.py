"""What the saved model makes of one known batch: its loss and gradient norm, beside the save.

[Note: probe]
A save is whole before the probe is known: it is the next step's batch on the saved state, so a run that goes on
measures it for nothing. It comes into the save's folder later, as ``probe.json``, and a save without one is whole.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from emberward.checkpoint._format import FormatProblem, from_proved_json, to_proved_json
from emberward.checkpoint._names import PROBE, PROBE_TEMPORARY, step_of_folder
from emberward.checkpoint._plain_file import read_plain
from emberward.checkpoint._problems import damaged
from emberward.checkpoint._storage import DISK, Storage, write_new

_KIND = "emberward_probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Mean loss in nats and norm of the unclipped gradient of a batch, on the state as it was saved at `step`.

    `first_sample` and `num_samples` name the batch in the run's data (its digest is in the save's meta); `tokens` is
    the number of tokens that counted. `numerics` says how it was computed: equal numerics give equal bits.
    """

    step: int
    first_sample: int
    num_samples: int
    tokens: float
    loss: float
    grad_norm: float
    numerics: Mapping[str, Any]


def write_probe(checkpoint: Path, probe: Probe, *, storage: Storage = DISK) -> None:
    """Puts the probe beside the save, whole or not at all; one rank calls. Raises OSError."""
    temporary = checkpoint / PROBE_TEMPORARY
    if temporary.exists():
        storage.remove(temporary)
    write_new(storage, temporary, to_proved_json(_KIND, asdict(probe)))
    storage.rename(temporary, checkpoint / PROBE)
    storage.fsync_folder(checkpoint)


def read_probe(checkpoint: Path) -> Probe | None:
    """The save's probe, None when it has none. Raises K101 when it cannot be believed."""
    path = checkpoint / PROBE
    if not path.exists():
        return None
    try:
        body = from_proved_json(_KIND, read_plain(path))
        probe = Probe(**{field.name: body[field.name] for field in fields(Probe)})
        if probe.step != step_of_folder(checkpoint):
            raise FormatProblem(f"a probe of step {probe.step}")
        return probe
    except (OSError, FormatProblem, KeyError) as error:
        raise damaged(
            checkpoint,
            "the probe cannot be believed",
            where=PROBE,
            expected="a whole probe, or none: the save itself does not need it",
            found=str(error),
        ) from error


def relative_difference(found: float, expected: float) -> float:
    """|found - expected| / |expected|; 0 for equal values, infinity where only one is finite."""
    if found == expected or (math.isnan(found) and math.isnan(expected)):
        return 0.0
    if not (math.isfinite(found) and math.isfinite(expected)) or expected == 0.0:
        return math.inf
    return abs(found - expected) / abs(expected)
