import torch


class Confusion:
    def __init__(self, classes):
        self.classes = classes
        self.table = [[0] * classes for _ in range(classes)]

    def update(self, pred, gold):
        for p, g in zip(pred.flatten(), gold.flatten()):
            self.table[g.item()][p.item()] += 1  #: LINE

    def accuracy(self):
        return sum(self.table[i][i] for i in range(self.classes)) / max(1, sum(map(sum, self.table)))
