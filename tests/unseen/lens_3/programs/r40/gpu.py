"""Toy accelerator. `issue` returns at once; a Handle-tensor knows the moment its kernel ends."""
import time

import torch


def _now():
    return time.monotonic()


class Far(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        moment = max((getattr(a, "moment", 0.0) for a in args if isinstance(a, Far)), default=0.0)
        name = getattr(func, "__name__", "")
        if name in ("cpu", "item", "tolist", "numpy", "__bool__", "to"):
            while _now() < moment:
                time.sleep(max(0.0, moment - _now()))
        out = super().__torch_function__(func, types, args, kwargs or {})
        if name in ("cpu", "numpy") and isinstance(out, Far):
            return out.as_subclass(torch.Tensor)
        if isinstance(out, Far):
            out.moment = moment
        return out


class Stream:
    def __init__(self):
        self.free_at = 0.0
        self.before = 0.0

    def issue(self, value, ms):
        if self.before > _now():                 # at most two kernels in flight
            time.sleep(max(0.0, self.before - _now()))
        self.before = self.free_at
        self.free_at = max(self.free_at, _now()) + ms / 1000
        far = value.detach().as_subclass(Far)
        far.moment = self.free_at
        return far

    def wait(self):
        time.sleep(max(0.0, self.free_at - _now()))
