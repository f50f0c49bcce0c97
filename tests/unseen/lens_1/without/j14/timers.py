import collections
import contextlib
import time

import accel

totals = collections.defaultdict(float)


@contextlib.contextmanager
def timer(name):
    start = time.perf_counter()
    yield
    totals[name] += time.perf_counter() - start
