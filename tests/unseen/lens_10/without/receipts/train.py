import shutil
import statistics
import tempfile
import time

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments, ViTConfig, ViTForImageClassification

from scans import Scans


class Times(TrainerCallback):
    marks = []

    def on_step_end(self, args, state, control, **kwargs):
        self.marks.append(time.perf_counter())


torch.manual_seed(0)
out = tempfile.mkdtemp(prefix="vit-")
model = ViTForImageClassification(ViTConfig(image_size=64, patch_size=8, hidden_size=128, num_hidden_layers=2,
                                            num_attention_heads=4, intermediate_size=320, num_labels=4))
args = TrainingArguments(out, max_steps=62, per_device_train_batch_size=12, learning_rate=5e-4, save_strategy="no",
                         logging_steps=31, report_to="none", disable_tqdm=True, use_cpu=True)
trainer = Trainer(model=model, args=args, train_dataset=Scans(240), callbacks=[Times()])
trainer.train()
shutil.rmtree(out, ignore_errors=True)
m = Times.marks
steps = [1000 * (b - a) for a, b in zip(m, m[1:])][3:]
print(f"{statistics.median(steps):.2f} ms/step median, {statistics.mean(steps):.2f} ms/step")
