import gc
import time

from transformers import TrainerCallback


class FreeMemory(TrainerCallback):
    """Memory went up and up, so let us clean up now and then."""

    def __init__(self, every):
        self.every = every

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self.every == 0:
            gc.collect()


class Stopwatch(TrainerCallback):
    def __init__(self):
        self.steps = []
        self._last = None

    def on_step_end(self, args, state, control, **kwargs):
        now = time.perf_counter()
        if self._last is not None:
            self.steps.append(1e3 * (now - self._last))
        self._last = now

    def on_train_end(self, args, state, control, **kwargs):
        s = sorted(self.steps[3:])
        if state.is_world_process_zero:
            print(f"{s[len(s) // 2]:.2f} ms/step median, {sum(s) / len(s):.2f} ms/step", flush=True)
