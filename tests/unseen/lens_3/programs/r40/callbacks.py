import torch

CLASSES = 6


class Callback:
    def on_batch(self, predicted, wanted):
        pass

    def on_end(self):
        pass


class Confusion(Callback):
    """Who is taken for whom."""

    def __init__(self):
        self.table = torch.zeros(CLASSES * CLASSES, dtype=torch.long)

    def on_batch(self, predicted, wanted):
        cells = wanted * CLASSES + predicted
        cells = cells.cpu()  #: LINE
        self.table = self.table + torch.bincount(cells, minlength=CLASSES * CLASSES)

    def on_end(self):
        table = self.table.cpu().view(CLASSES, CLASSES)
        print("right:", int(table.diagonal().sum()), "of", int(table.sum()))


class Count(Callback):
    def __init__(self):
        self.seen = 0

    def on_batch(self, predicted, wanted):
        self.seen += len(wanted)
