"""Random values by counter: each a pure function of what it is drawn for. A floor-0 room: numpy alone, no torch.

[Note: draws by counter]
No generator keeps a state here. A value is the hash of a key and a position: the key names what is drawn (seed, step,
global sample, layer, place), the position counts the elements of one sample's row. So a number does not change with the
layout, with accumulation, when a forward is computed again, or after a resume; a rank that holds a part of a row draws
that part alone. See docs/randomness.md.
"""

from emberward.draws._draws import Draws, Place, scale_of, threshold_of
from emberward.draws._hash import GOLDEN, LANES, MASK64, key_of, lanes, mix64, mix64_any, mix64_array, signed
from emberward.draws._normal import normal_box

__all__ = [
    "GOLDEN",
    "LANES",
    "MASK64",
    "Draws",
    "Place",
    "key_of",
    "lanes",
    "mix64",
    "mix64_any",
    "mix64_array",
    "normal_box",
    "scale_of",
    "signed",
    "threshold_of",
]
