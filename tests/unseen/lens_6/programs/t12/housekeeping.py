"""Garbage collection by hand, so that all ranks collect in the same step."""
import gc


class Collector:
    def __init__(self, every):
        gc.collect()
        gc.freeze()
        gc.disable()
        self.every = every

    def run(self, step):
        if step % self.every == 0:
            gc.collect(1)  #: LINE
