"""A PNG of some reconstructions, for the eye."""
import os
import struct
import zlib

import torch


def png(image):
    height, width = image.shape
    rows = b"".join(b"\0" + image[y].numpy().tobytes() for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


def write_preview(folder, images, rebuilt, side=32):
    n = min(len(images), 128)
    pairs = torch.stack([images[:n], rebuilt[:n]], 1).reshape(-1, side, side)
    grid = pairs.reshape(-1, 16, side, side).permute(0, 2, 1, 3).reshape(-1, 16 * side)
    pixels = ((grid - grid.min()) / (grid.max() - grid.min() + 1e-6) * 255).to(torch.uint8)
    with open(os.path.join(folder, "preview.png"), "wb") as f:
        f.write(png(pixels))
