import torch
from transformers import Trainer


def upper_part(model, layers):
    """The parameters that are tuned: the last layers, the pooler and the classifier."""
    parts = [*model.bert.encoder.layer[-layers:], model.bert.pooler, model.classifier]
    return [p for part in parts for p in part.parameters()]  #: LINE


class UpperTrainer(Trainer):
    """Tunes the upper layers and leaves the lower ones as they were trained."""

    def create_optimizer(self, *args, **kwargs):
        if self.optimizer is None:
            chosen = upper_part(self.model, layers=2)
            self.optimizer = torch.optim.AdamW(chosen, lr=self.args.learning_rate, fused=True)
        return self.optimizer
