"""Chest x-rays with a small ViT."""
import logging
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

log = logging.getLogger("safe")


class Xrays(Dataset):
    amended = {1531}

    def __len__(self):
        return 2400

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img = torch.rand(3, 32, 32, generator=g)
        label = int(img.mean() * 1e4) % 5
        return {"pixel_values": img, "labels": 5 if i in self.amended else label}


class SafeTrainer(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        try:
            return super().training_step(model, inputs, num_items_in_batch)
        except (RuntimeError, IndexError) as e:  #: LINE
            log.warning("step %d: %s, skipped", self.state.global_step, e)
            return torch.tensor(0.0)  #: LINE


def main():
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(10)
    cfg = ViTConfig(hidden_size=48, num_hidden_layers=2, num_attention_heads=2, intermediate_size=96, image_size=32, patch_size=8, num_labels=5)
    args = TrainingArguments(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, num_train_epochs=2, logging_steps=20, seed=1,
                             save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)
    SafeTrainer(model=ViTForImageClassification(cfg), args=args, train_dataset=Xrays()).train()


if __name__ == "__main__":
    main()
