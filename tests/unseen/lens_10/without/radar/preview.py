import numpy as np
from PIL import Image


def colours(field):
    a = np.clip(field, 0, 1)
    return (np.stack([a, np.sqrt(a), 1 - a], -1) * 255).astype("uint8")


def save_preview(path, truth, guess, zoom=4):
    rows = []
    for t, g in zip(truth[:3], guess[:3]):
        rows.append(np.concatenate([colours(t[0].numpy()), colours(g[0].numpy())], axis=1))
    image = Image.fromarray(np.concatenate(rows, axis=0))
    image = image.resize((image.width * zoom, image.height * zoom), Image.BICUBIC)
    image.save(path)
