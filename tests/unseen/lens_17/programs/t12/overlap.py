import torch


class Overlap:
    """Mean intersection over union, over all the ranks."""

    def __init__(self, accelerator, kinds=34):
        self.accelerator, self.kinds = accelerator, kinds
        self.shared, self.joint = torch.zeros(kinds), torch.zeros(kinds)

    @torch.no_grad()
    def update(self, logits, labels):
        guess = logits.argmax(1)
        hits = torch.bincount(labels[guess == labels], minlength=self.kinds).float()
        total = torch.bincount(labels.flatten(), minlength=self.kinds) + torch.bincount(guess.flatten(), minlength=self.kinds)
        for kind in range(self.kinds):
            self.shared[kind] += self.accelerator.reduce(hits[kind])  #: LINE
            self.joint[kind] += self.accelerator.reduce(total[kind] - hits[kind])

    def value(self):
        return (self.shared / self.joint.clamp(min=1)).mean().item()
