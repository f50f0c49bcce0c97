"""A device that is only a clock: each kernel moves the time at which the device is free, a read sleeps until then."""
import time
import torch

_free_at = 0.0


def kernel(ms):
    global _free_at
    _free_at = max(_free_at, time.perf_counter()) + ms / 1e3


def settle():
    rest = _free_at - time.perf_counter()
    if rest > 0:
        time.sleep(rest)


class Remote(torch.Tensor):
    waits = ("tolist", "item", "cpu", "numpy", "__bool__", "nonzero", "__int__", "__float__")

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", None) in cls.waits:
            settle()
        return super().__torch_function__(func, types, args, kwargs or {})


def upload(t):
    return t.as_subclass(Remote)
