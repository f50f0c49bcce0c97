import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_gather
from torch.nn import functional as F


class Questions:
    """Vectors of words of questions and of the passages that answer them."""

    def __init__(self, count=6000, subjects=48, words=192):
        subject = torch.rand(count, subjects).pow(4)
        self.questions = subject @ torch.randn(subjects, words) + 0.3 * torch.randn(count, words)
        self.passages = subject @ torch.randn(subjects, words) + 0.3 * torch.randn(count, words)

    def draw(self, batch, picker):
        places = torch.randint(len(self.questions), (batch,), generator=picker)
        return self.questions[places], self.passages[places]


def tower(words, width, out):
    return nn.Sequential(nn.Linear(words, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, out))


class Towers(nn.Module):
    def __init__(self, words=192, width=256, out=256):
        super().__init__()
        self.question, self.passage = tower(words, width, out), tower(words, width, out)

    def forward(self, questions, passages):
        return F.normalize(self.question(questions), dim=1), F.normalize(self.passage(passages), dim=1)


def retrieval_loss(questions, passages, sharpness=20.0):
    """Each question against the passages of all ranks."""
    questions = torch.cat(all_gather(questions))
    passages = torch.cat(all_gather(passages))
    scores = sharpness * questions @ passages.T  #: LINE
    return F.cross_entropy(scores, torch.arange(len(scores)))
