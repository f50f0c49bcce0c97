import os

import numpy as np
import torch
from PIL import Image


class Preview:
    """Originals and reconstructions side by side, enlarged, in one sheet."""

    def __init__(self, folder, every, scale=3, count=8):
        self.folder, self.every, self.scale, self.count = folder, every, scale, count

    def __call__(self, step, images, restored):
        if step % self.every:
            return
        pair = torch.stack([images[:self.count], restored.detach()[:self.count]])
        sheet = pair.permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
        pixels = (255 * sheet.clamp(0, 1)).byte().numpy()
        pixels = np.kron(pixels, np.ones((self.scale, self.scale, 1), dtype=np.uint8))
        Image.fromarray(pixels).save(os.path.join(self.folder, f"step_{step:05d}.png"))
