import time

import torch

_READ = frozenset("__repr__ __format__ __str__ item tolist cpu numpy __float__ __bool__".split())


class DeviceTensor(torch.Tensor):
    """Its number exists already, but nobody may see it before the device would have it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        src = next((a for a in args if isinstance(a, DeviceTensor)), None)
        when = getattr(src, "when", 0.0)
        if func.__name__ in _READ:
            pause = when - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            with torch._C.DisableTorchFunctionSubclass():
                return func(*[a.as_subclass(torch.Tensor) if isinstance(a, DeviceTensor) else a for a in args], **kwargs)
        out = super().__torch_function__(func, types, args, kwargs)
        if isinstance(out, DeviceTensor):
            out.when = when
        return out


class Device:
    def __init__(self):
        self.line = [0.0, 0.0]

    def kernel(self, result, ms):
        pause = self.line[-2] - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        end = max(self.line[-1], time.perf_counter()) + ms * 1e-3
        self.line = [self.line[-1], end]
        result = result.detach().as_subclass(DeviceTensor)
        result.when = end
        return result

    def flush(self):
        time.sleep(max(0.0, self.line[-1] - time.perf_counter()))
