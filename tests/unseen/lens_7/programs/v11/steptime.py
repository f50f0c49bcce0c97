import statistics
import time


class StepTime:
    """Durations from one tick to the next; the first few are left out."""

    def __init__(self, skip=3):
        self.skip = skip
        self.last = None
        self.times = []

    def tick(self):
        now = time.perf_counter()
        if self.last is not None:
            self.times.append((now - self.last) * 1000)
        self.last = now

    def report(self):
        t = self.times[self.skip:]
        print(f"{statistics.median(t):.2f} ms/step median, {statistics.fmean(t):.2f} ms/step", flush=True)
