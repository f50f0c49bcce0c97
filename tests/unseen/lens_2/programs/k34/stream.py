import collections
import threading
import time
import torch


class Stream(threading.Thread):
    """Counts kernels put in and kernels done; fence() waits until both are equal."""

    def __init__(self):
        super().__init__(daemon=True)
        self.todo, self.issued, self.done = collections.deque(), 0, 0
        self.change = threading.Condition()
        self.start()

    def run(self):
        while True:
            with self.change:
                self.change.wait_for(lambda: self.todo)
                cost = self.todo.popleft()
            time.sleep(cost)
            with self.change:
                self.done += 1
                self.change.notify_all()

    def put(self, cost):
        with self.change:
            self.todo.append(cost)
            self.issued += 1
            self.change.notify_all()

    def fence(self):
        with self.change:
            goal = self.issued
            self.change.wait_for(lambda: self.done >= goal)


main_stream = Stream()
SIZES = {"nonzero", "masked_select", "unique", "item", "tolist", "cpu", "__bool__"}


class Held(torch.Tensor):
    """A tensor of the stream. What needs a size or a value on the host waits at the fence."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in SIZES:
            main_stream.fence()
        return super().__torch_function__(func, types, args, kwargs or {})
