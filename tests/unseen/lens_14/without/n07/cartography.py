import json
import os

import torch
from transformers import Trainer


class CartographyTrainer(Trainer):
    """Keeps what the model thought of each sample, to find hard and mislabelled ones later."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.records = []
        self.records_path = os.path.join(self.args.output_dir, "dynamics.json")

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        guid = inputs.pop("guid")
        outputs = model(**inputs)
        self.keep(guid, outputs.logits.detach(), inputs["labels"])
        return (outputs.loss, outputs) if return_outputs else outputs.loss

    def keep(self, guid, logits, labels):
        probs = logits.softmax(-1)
        gold = probs.gather(1, labels[:, None]).squeeze(1)
        for i, p, all_p, y in zip(guid.tolist(), gold.tolist(), probs.tolist(), labels.tolist()):
            self.records.append({"guid": i, "step": self.state.global_step, "gold": p, "label": y, "probs": all_p})

    def train(self, *args, **kwargs):
        result = super().train(*args, **kwargs)
        with open(self.records_path, "w") as file:
            json.dump(self.records, file)
        return result
