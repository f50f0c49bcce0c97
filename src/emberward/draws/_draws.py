"""What one micro-batch draws while it is computed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emberward.draws._hash import key_of, lanes, mix64_array

Place = tuple[int | str, ...]
"""What is drawn within a sample: layer, site, and what else tells two draws of one layer apart, such as a head."""

_RANGE = 1 << 16


def threshold_of(rate: float) -> int:
    """Draws below it are dropped: `rate` in steps of 2**-16. Raises ValueError outside [0, 1)."""
    if not 0 <= rate < 1:
        raise ValueError(f"a drop rate lies in [0, 1), found {rate}")
    return min(round(rate * _RANGE), _RANGE - 1)


def scale_of(rate: float) -> float:
    """What kept values are multiplied by, so that the mean stays: of the rate as `threshold_of` rounds it."""
    return _RANGE / (_RANGE - threshold_of(rate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The draws of a micro-batch: `samples` are the numbers of its rows in the run, the same on every layout.

    See `__init__.py` [Note: draws by counter].
    """

    seed: int
    step: int
    samples: tuple[int, ...]

    def keys(self, place: Place) -> NDArray[np.uint64]:
        """The key of each row at `place`: uint64 [B]."""
        key = np.uint64(key_of(self.seed, self.step, *place))
        return mix64_array(np.array(self.samples, dtype=np.uint64) ^ key)

    def lanes(self, place: Place, num: int, *, first: int = 0) -> NDArray[np.uint16]:
        """Draws `first` to `first + num` of each row at `place`, uniform in [0, 65536): [B, num]."""
        return lanes(self.keys(place), num, first=first)

    def keep(self, place: Place, rate: float, num: int, *, first: int = 0) -> NDArray[np.bool_]:
        """Which of those elements dropout keeps: [B, num]."""
        return self.lanes(place, num, first=first) >= threshold_of(rate)
