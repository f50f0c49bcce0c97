import time

import torch
from transformers import TrainerCallback


class Listen(TrainerCallback):
    """Writes down a melody of the model, to hear how it gets better."""

    def __init__(self, opening, length=8):
        self.opening, self.length, self.heard = opening, length, []

    def on_log(self, args, state, control, model=None, **rest):
        model.eval()
        with torch.no_grad():
            melody = model.generate(self.opening, max_new_tokens=self.length, do_sample=False, pad_token_id=0)  #: LINE
        self.heard.append((state.global_step, melody[0].tolist()))
        model.train()


class Pace(TrainerCallback):
    def __init__(self):
        self.times, self.before = [], None

    def on_step_end(self, *rest, **more):
        now = time.perf_counter()
        if self.before is not None:
            self.times.append(1e3 * (now - self.before))
        self.before = now
