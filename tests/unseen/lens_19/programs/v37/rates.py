import torch


class Rates:
    """Lower layers learn more slowly; biases and norms do not decay."""

    def __init__(self, model, rate, fall=0.95, decay=0.05):
        top = len(model.layers)
        self.parts = []
        for name, p in model.named_parameters():
            depth = top
            if name.startswith("layers."):
                depth = int(name.split(".")[1])
            elif name.startswith("enter."):
                depth = 0
            slow = rate * fall ** (top - depth)
            kept = decay if p.ndim > 1 else 0.0
            self.parts.append(torch.optim.AdamW([p], lr=slow, weight_decay=kept, fused=True))  #: LINE

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

    def step(self):
        for part in self.parts:
            part.step()
