"""Tensors of a small accelerator, by __torch_dispatch__: the scalar read waits for the accelerator, all else does not."""
import threading
import time
import torch
from torch.utils._pytree import tree_map

_cond = threading.Condition()
_left = []


def _loop():
    while True:
        with _cond:
            while not _left:
                _cond.wait()
            d = _left[0]
        time.sleep(d)
        with _cond:
            _left.pop(0)
            _cond.notify_all()


threading.Thread(target=_loop, daemon=True, name="accelerator").start()


def issue(d):
    with _cond:
        _left.append(d)
        _cond.notify_all()


def idle():
    with _cond:
        while _left:
            _cond.wait()


class Acc(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default or func is torch.ops.aten.is_nonzero.default:
            idle()
        bare = lambda x: x.inner if isinstance(x, Acc) else x
        out = func(*tree_map(bare, args), **tree_map(bare, kwargs or {}))
        return tree_map(lambda x: Acc(x) if isinstance(x, torch.Tensor) else x, out)
