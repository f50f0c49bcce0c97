import psutil
from transformers import TrainerCallback


class LeakWatch(TrainerCallback):
    """Follows the memory of the process: a run of last month was killed in its third day."""

    def __init__(self):
        self.process = psutil.Process()
        self.trace = []

    def private(self):
        return sum(part.private_dirty for part in self.process.memory_maps())  #: LINE

    def on_step_end(self, args, state, control, **kwargs):
        self.trace.append((state.global_step, self.private()))

    def grown(self):
        return (self.trace[-1][1] - self.trace[len(self.trace) // 2][1]) / 2 ** 20
