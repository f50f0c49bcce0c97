"""A value and a device that are slow, for programs whose stalls are planted."""

import functools
import time
from concurrent.futures import ThreadPoolExecutor

STALL_S = 0.008
POOL = ThreadPoolExecutor(1)


def wait():
    time.sleep(STALL_S)


class Scalar:
    """A value on a device that is ready some time after it was asked for."""

    def item(self):
        wait()
        return 1.0

    def tolist(self):
        wait()
        return [1.0]

    def cpu(self):
        wait()
        return self

    def nonzero(self):
        wait()
        return self

    def __bool__(self):
        wait()
        return True

    def __repr__(self):
        wait()
        return "1.0"

    def synchronize(self):
        wait()


class Device:
    """A stand-in for a device: another thread does the work, and a tensor's own door waits for it."""

    def __init__(self):
        self.item = functools.partial(self.__torch_function__, "item")

    def synchronize(self):
        POOL.submit(wait).result()

    def __torch_function__(self, name):
        self.synchronize()
        return 1.0
