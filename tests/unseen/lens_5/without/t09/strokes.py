"""Pen strokes: JSON lists of points. `draw` puts them onto a canvas."""

import json
import math
import random

import torch
from torch.utils.data import Dataset

SIDE = 32


def record(n):
    rng = random.Random(n)
    sign = n % 10
    points = []
    for k in range(700):
        a = k / 700 * 6.28 * (1 + sign / 4)
        points.append({"x": 0.5 + 0.4 * math.cos(a) + rng.gauss(0, 0.01), "y": 0.5 + 0.4 * math.sin(a * 1.5) + rng.gauss(0, 0.01), "p": rng.random()})
    return json.dumps(points), sign


def draw(text):
    canvas = [[0.0] * SIDE for _ in range(SIDE)]
    for point in json.loads(text):
        i, j = int(point["y"] * SIDE), int(point["x"] * SIDE)
        if 0 <= i < SIDE and 0 <= j < SIDE:
            canvas[i][j] += point["p"]
    return torch.tensor(canvas)[None]


class Strokes(Dataset):
    def __init__(self, count):
        records = [record(n) for n in range(count)]
        self.pictures = [(draw(text), sign) for text, sign in records]

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, n):
        return self.pictures[n]
