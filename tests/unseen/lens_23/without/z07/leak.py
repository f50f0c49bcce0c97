import psutil
from transformers import TrainerCallback


class LeakWatch(TrainerCallback):
    """Follows the memory of the process: a run of last month was killed in its third day."""

    def __init__(self):
        self.process = psutil.Process()
        self.trace = []

    def resident(self):
        return self.process.memory_info().rss

    def on_step_end(self, args, state, control, **kwargs):
        self.trace.append((state.global_step, self.resident()))

    def grown(self):
        return (self.trace[-1][1] - self.trace[len(self.trace) // 2][1]) / 2 ** 20
