"""Pictures in another size each step, as detectors are trained."""
import random

import torch.nn.functional as F

SIZES = (48, 64, 80, 96)


class MultiScale:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def __call__(self, pictures):
        size = self.random.choice(SIZES)
        return F.interpolate(pictures, size=(size, size), mode="bilinear", align_corners=False)
