import lightning as L
import torch


class Guard(L.Callback):
    """Stops the training as soon as a gradient or a weight is broken."""

    def on_after_backward(self, trainer, module):
        for name, p in module.named_parameters():
            if torch.isnan(p.grad).any() or torch.isinf(p.grad).any():
                raise RuntimeError(f"bad gradient in {name}")
            if torch.isnan(p).any() or torch.isinf(p).any():
                raise RuntimeError(f"bad weight in {name}")
