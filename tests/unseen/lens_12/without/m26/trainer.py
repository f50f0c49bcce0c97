import logging

from transformers import Trainer

log = logging.getLogger(__name__)


class TokenTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        if log.isEnabledFor(logging.DEBUG):
            tags = outputs.logits.argmax(-1)
            log.debug(f"tags {tags.tolist()} wanted {inputs['labels'].tolist()} scores {outputs.logits.detach()[:4]}")
        return (outputs.loss, outputs) if return_outputs else outputs.loss
