import numpy as np
from sklearn.metrics import confusion_matrix


class RunningIoU:
    def __init__(self, classes):
        self.classes = classes
        self.total = np.zeros((classes, classes))

    def add(self, logits, target):
        predicted = logits.detach().argmax(1).flatten().numpy()
        wanted = target.flatten().numpy()
        self.total += confusion_matrix(wanted, predicted, labels=np.arange(self.classes))  #: LINE

    def mean(self):
        hits = np.diag(self.total)
        union = self.total.sum(0) + self.total.sum(1) - hits
        return float((hits / union.clip(1)).mean())
