import time

import psutil
from transformers import TrainerCallback


class Usage(TrainerCallback):
    """Time, memory and threads of each step."""

    def __init__(self):
        self.process, self.rows = psutil.Process(), []

    def on_train_begin(self, args, state, control, **kwargs):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        memory = self.process.memory_info()
        now = time.perf_counter()
        self.rows.append({
            "step": state.global_step, "seconds": now - self.began, "resident": memory.rss, "virtual": memory.vms,
            "threads": self.process.num_threads(), "spent": sum(self.process.cpu_times()[:2]),
        })
        self.began = now

    def most(self):
        return max(row["resident"] for row in self.rows) / 2 ** 20
