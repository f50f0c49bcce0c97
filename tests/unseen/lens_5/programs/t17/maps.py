import os
import zlib

import torch

SHAPE = (2, 24, 3, 32, 32)


def pack_maps(folder, days):
    os.makedirs(folder, exist_ok=True)
    for day in range(days):
        rng = torch.Generator().manual_seed(day)
        maps = (torch.rand(SHAPE, generator=rng) * 40).round() / 40
        maps[1] = maps[0].roll(1, -1)
        with open(f"{folder}/{day}.z", "wb") as f:
            f.write(zlib.compress(maps.numpy().tobytes(), 1))
    return folder


def unpack(folder, n):
    with open(f"{folder}/{n % 24}.z", "rb") as f:
        raw = zlib.decompress(f.read())
    today, tomorrow = torch.frombuffer(bytearray(raw), dtype=torch.float32).view(SHAPE)
    return today, tomorrow
