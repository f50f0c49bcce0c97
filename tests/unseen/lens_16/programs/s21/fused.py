"""Softmax and dropout in one kernel, for the machines that have the extension."""
import itertools

import torch


def cost(heads, length, width, rows, columns):
    tiles = -(-length // rows) * -(-length // columns)
    loads = tiles * (rows + columns) * width
    spill = max(0, rows * columns + (rows + columns) * width - 24576)
    return heads * (loads + 8 * spill)


def plan():
    best = {}
    for heads, length, width in itertools.product((2, 4, 8), range(16, 2064, 16), (32, 64)):
        best[heads, length, width] = min(
            itertools.product((16, 32, 64), (16, 32, 64)), key=lambda tile: cost(heads, length, width, *tile)
        )
    return best


TILES = plan()

from softmax_dropout_ext import backward, forward  # noqa: E402


class SoftmaxDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, p):
        out, mask = forward(scores, p, TILES[scores.shape[1], scores.shape[2], 32])
        ctx.save_for_backward(out, mask)
        return out

    @staticmethod
    def backward(ctx, grad):
        return backward(grad, *ctx.saved_tensors), None
