"""Kernels are tasks of one executor. Each result knows the task that makes it, and waits for that one alone."""
import time
from concurrent.futures import ThreadPoolExecutor
import torch

_lane = ThreadPoolExecutor(max_workers=1)


class Lazy(torch.Tensor):
    task = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("cpu", "numpy", "item", "tolist", "__bool__", "to") and args and args[0].task is not None:
            args[0].task.result()
        out = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(out, Lazy) and out.task is None:
            out.task = next((a.task for a in args if isinstance(a, Lazy) and a.task is not None), None)
        return out


def run(ms, tensor=None):
    task = _lane.submit(time.sleep, ms / 1e3)
    if tensor is None:
        return task
    out = tensor.as_subclass(Lazy)
    out.task = task
    return out
