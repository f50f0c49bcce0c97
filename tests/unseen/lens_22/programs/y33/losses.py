from torch.nn import functional as F

from bells import Turned


def kind_loss(scores, kind):
    return F.cross_entropy(scores, kind)


def place_loss(place, heard, tower, strength=0.3):
    return F.binary_cross_entropy_with_logits(place(Turned.apply(heard, strength)), tower)
