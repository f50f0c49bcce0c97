import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAUROC, BinaryAveragePrecision


class Quality:
    """The figures behind the loss in the progress line, over the epoch so far."""

    def __init__(self):
        self.metrics = MetricCollection({"auc": BinaryAUROC(), "ap": BinaryAveragePrecision()})
        self.shown = {}

    @torch.no_grad()
    def update(self, logits, clicked):
        self.metrics.update(logits.sigmoid(), clicked)

    def line(self):
        self.shown = {name: float(value) for name, value in self.metrics.compute().items()}
        return ", ".join(f"{name} {value:.4f}" for name, value in self.shown.items())
