import os

import torch


class Progress:
    def __init__(self, accelerator, folder, save_every=30, print_every=15):
        self.accelerator, self.folder = accelerator, folder
        self.save_every, self.print_every = save_every, print_every
        self.losses = []

    def after(self, step, loss):
        self.losses.append(loss.detach())
        if step % self.print_every == 0:
            mean = torch.stack(self.losses).mean().item()
            self.accelerator.print(f"step {step}: loss {mean:.4f}")
            self.losses.clear()
        if step % self.save_every == 0:
            self.accelerator.save_state(os.path.join(self.folder, f"step_{step}"))
