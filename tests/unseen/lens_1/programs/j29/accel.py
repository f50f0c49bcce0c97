"""A stand-in for an accelerator. Kernels run in order on a worker thread and last as long as they say.

A DeviceTensor holds its values at once, but whoever reads them on the host waits until the kernels issued so far are over.
"""

import collections
import threading
import time

import torch


class Stream:
    def __init__(self, depth=400):
        self._ready = threading.Condition()
        self._fifo = collections.deque()
        self._depth = depth
        self._done = 0
        self._issued = 0
        threading.Thread(target=self._execute, daemon=True, name="device").start()

    def launch(self, ms):
        with self._ready:
            while len(self._fifo) >= self._depth:
                self._ready.wait()
            self._fifo.append((time.perf_counter(), ms / 1000))
            self._issued += 1
            self._ready.notify_all()
            return self._issued

    def wait(self, ticket):
        with self._ready:
            while self._done < ticket:
                self._ready.wait()

    def finished(self, ticket):
        return self._done >= ticket

    def synchronize(self):
        self.wait(self._issued)

    def _execute(self):
        end = 0.0
        while True:
            with self._ready:
                while not self._fifo:
                    self._ready.wait()
                issued, seconds = self._fifo[0]
            end = max(end, issued) + seconds
            left = end - time.perf_counter()
            if left > 0:
                time.sleep(left)
            with self._ready:
                self._fifo.popleft()
                self._done += 1
                self._ready.notify_all()


stream = Stream()
_T = torch.Tensor
_READS = {_T.item, _T.tolist, _T.cpu, _T.numpy, _T.__bool__, _T.__float__, _T.__int__, _T.__index__, _T.__repr__, _T.__format__}
_READS |= {torch.nonzero, _T.nonzero, torch.masked_select, _T.masked_select}


class DeviceTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in _READS:
            stream.synchronize()
        return super().__torch_function__(func, types, args, kwargs or {})


def to_device(tensor, copy_ms=0.2, blocking=False):
    ticket = stream.launch(copy_ms)
    if blocking:
        stream.wait(ticket)
    return tensor.as_subclass(DeviceTensor)


def attach(model, forward_ms, backward_ms):
    """Each Linear of the model costs these times on the device."""
    for m in model.modules():
        if isinstance(m, torch.nn.Linear):
            m.register_forward_hook(lambda *_: stream.launch(forward_ms) and None)
            m.register_full_backward_hook(lambda *_: stream.launch(backward_ms) and None)
    return model
