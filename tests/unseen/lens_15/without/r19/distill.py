import torch
from torch import nn
from torch.nn import functional as F


class Distiller(nn.Module):
    def __init__(self, student, teacher, temperature=4.0, share=0.7):
        super().__init__()
        self.student = student
        self.teacher = teacher.eval()
        self.temperature, self.share = temperature, share

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, images, labels):
        logits = self.student(images)
        with torch.no_grad():
            soft = self.teacher(images)
        t = self.temperature
        kl = F.kl_div(
            F.log_softmax(logits / t, 1), F.log_softmax(soft / t, 1), reduction="batchmean", log_target=True
        )
        return self.share * t * t * kl + (1 - self.share) * F.cross_entropy(logits, labels)
