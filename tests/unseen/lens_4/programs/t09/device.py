"""A device played by a thread with a queue of timed work."""
import queue
import threading
import time
import torch

READS = {"item", "tolist", "nonzero", "numpy", "cpu", "__bool__", "__float__", "__int__"}


class OnDevice(torch.Tensor):
    done = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        before = [a.done for a in args if isinstance(a, OnDevice) and a.done is not None]
        if func.__name__ in READS:
            for event in before:
                event.wait()
        out = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(out, OnDevice) and before:
            out.done = before[-1]
        return out


class Device:
    def __init__(self, in_flight=2):
        self.room, self.work = threading.Semaphore(in_flight), queue.Queue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while (job := self.work.get()) is not None:
            time.sleep(job[0])
            job[1].set()
            self.room.release()

    def tensor(self, t):
        return t.as_subclass(OnDevice)

    def kernel(self, fn, ms):
        self.room.acquire()  # the launch queue is short
        out = self.tensor(fn())
        out.done = threading.Event()
        self.work.put((ms / 1e3, out.done))
        return out

    def close(self):
        self.work.put(None)
        self.thread.join()
