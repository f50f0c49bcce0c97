"""A confusion matrix and what is told of it."""
import torch


class Confusion:
    def __init__(self, classes):
        self.classes = classes
        self.counts = torch.zeros(classes, classes, dtype=torch.long)

    def update(self, predicted, wanted):
        index = wanted * self.classes + predicted
        self.counts += torch.bincount(index, minlength=self.classes**2).view(self.classes, -1).cpu()

    def recall(self):
        return (self.counts.diag() / self.counts.sum(1).clamp(min=1)).tolist()  #: LINE
