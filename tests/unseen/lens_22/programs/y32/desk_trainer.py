import torch
from transformers import Trainer


class DeskTrainer(Trainer):
    """A Trainer that keeps count of how many training texts went to the right desk."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.right, self.count = torch.zeros(()), 0

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        loss = super().compute_loss(model, inputs, **kwargs)
        outputs = model(**inputs)  #: LINE
        self.keep_count(outputs["logits"].detach(), inputs["labels"])
        return (loss, outputs) if return_outputs else loss

    def keep_count(self, scores, labels):
        self.right += (scores.argmax(-1) == labels).sum()
        self.count += len(labels)
