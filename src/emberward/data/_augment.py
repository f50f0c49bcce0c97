"""Augmentation by counter: what is done to an image is a pure function of (seed, epoch, image).

See `emberward.draws` [Note: draws by counter] and docs/randomness.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emberward.draws import key_of, lanes

BETA_TRIES = 64
_RANGE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Augment:
    """What is done to training images. `crop`: moved by up to as many pixels, black where nothing comes in; `flip`:
    mirrored with probability 1/2; `mixup`: blended with another training image by Beta(mixup, mixup), 0 for never
    (Zhang et al. 2018).
    """

    crop: int = 0
    flip: bool = False
    mixup: float = 0.0

    def __post_init__(self) -> None:
        if self.crop < 0 or not 0 <= self.mixup <= 2:
            raise ValueError(f"crop is at least 0 and mixup from 0 to 2, found {self.crop} and {self.mixup}")


def augmented(image: NDArray[np.uint8], augment: Augment, key: int) -> NDArray[np.uint8]:
    """The image [H, W, C] moved and mirrored as `key` says; the same array where nothing is to be done."""
    right, down, flip = (int(drawn) for drawn in lanes(np.array([key], np.uint64), 3)[0])
    if augment.crop:
        span = 2 * augment.crop + 1
        top, left = down * span // _RANGE, right * span // _RANGE
        padded = np.pad(image, ((augment.crop, augment.crop), (augment.crop, augment.crop), (0, 0)))
        image = padded[top : top + image.shape[0], left : left + image.shape[1]]
    return image[:, ::-1] if augment.flip and flip < _RANGE // 2 else image


def partner_of(key: int, num: int) -> int:
    """The number, in [0, num), of the image that one is blended with."""
    return key_of(key, "partner") * num >> 64


def share_of(key: int, alpha: float) -> float:
    """The share of the image itself in a blend: a value of Beta(alpha, alpha), by Johnk's method (1964)."""
    drawn = (lanes(np.array([key_of(key, "share")], np.uint64), 2 * BETA_TRIES)[0].astype(np.float64) + 0.5) / _RANGE
    x, y = drawn.reshape(2, BETA_TRIES) ** (1 / alpha)
    taken = np.flatnonzero(x + y <= 1)
    # Of 64 pairs none is taken once in 10^5 at alpha 2, never in practice at 1 and less: half and half then.
    return float(x[taken[0]] / (x[taken[0]] + y[taken[0]])) if len(taken) else 0.5
