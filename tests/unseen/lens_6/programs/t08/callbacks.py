"""Callbacks of the trainer."""
import torch


class Callback:
    def on_step_end(self, trainer, step, logits, labels):
        pass

    def on_end(self, trainer):
        pass


class Accuracy(Callback):
    """Keeps what was predicted and tells the accuracy at the end."""

    def __init__(self):
        self.predicted, self.labels = [], []

    def on_step_end(self, trainer, step, logits, labels):
        self.predicted.append(logits.argmax(1).cpu())  #: LINE
        self.labels.append(labels)

    def on_end(self, trainer):
        hits = torch.cat(self.predicted) == torch.cat(self.labels)
        print(f"accuracy {hits.float().mean().cpu():.3f}")


class Augmentation(Callback):
    """Draws the augmentations of the next batch on the host (a wait stands for the library)."""

    def __init__(self, seconds):
        self.seconds = seconds

    def on_step_end(self, trainer, step, logits, labels):
        trainer.policy = trainer.draw_policy(self.seconds)
