import csv

import torch


class Board:
    def __init__(self, path, often=500):
        self.file = open(path, "w", newline="")
        self.rows = csv.writer(self.file)
        self.rows.writerow(["step", "what", "value"])
        self.often = often

    def after_step(self, step, loss, rate, model):
        self.rows.writerow([step, "loss", f"{loss.item():.6f}"])
        self.rows.writerow([step, "rate", f"{rate:.3e}"])
        if step % self.often == 0:
            self.weights(step, model)

    def weights(self, step, model):
        """Spread of the part of each weight that this rank holds."""
        for name, weight in model.named_parameters():
            local = weight.to_local() if hasattr(weight, "to_local") else weight
            counts = torch.histc(local.detach(), 32).long()
            self.rows.writerow([step, name, " ".join(map(str, counts.tolist()))])

    def close(self):
        self.file.close()
