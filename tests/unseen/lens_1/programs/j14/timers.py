import collections
import contextlib
import time

import accel

totals = collections.defaultdict(float)


@contextlib.contextmanager
def timer(name):
    accel.stream.synchronize()  #: LINE
    start = time.perf_counter()
    yield
    accel.stream.synchronize()
    totals[name] += time.perf_counter() - start
