"""Times from step to step."""
import statistics
import time


class Pace:
    def __init__(self, skip=3):
        self.skip = skip
        self.marks = []

    def tick(self):
        self.marks.append(time.perf_counter())

    def report(self):
        gaps = [(b - a) * 1e3 for a, b in zip(self.marks, self.marks[1:])][self.skip:]
        print(f"{statistics.median(gaps):.2f} ms/step median, {statistics.fmean(gaps):.2f} ms/step", flush=True)
