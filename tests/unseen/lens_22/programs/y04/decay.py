from transformers import Trainer


class DecayTrainer(Trainer):
    """Cross entropy, and a term that keeps the weights small."""

    def __init__(self, *args, strength=0.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.strength = strength

    def penalty(self, model):
        total = 0.0
        for name, p in model.named_parameters():
            if p.requires_grad:
                total = total + p.norm(2) ** 2  #: LINE
        return total

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        loss = outputs.loss + self.strength * self.penalty(model)
        return (loss, outputs) if return_outputs else loss
