"""Emotion recognition from raw speech with the Hugging Face Trainer."""
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

from pace import Pace
from speech import PadCollator, Utterances


class Emotion(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(1, width, 10, stride=5), nn.GELU(), nn.Conv1d(width, width, 8, stride=4), nn.GELU(),
                                   nn.Conv1d(width, width, 4, stride=2), nn.GELU())
        layer = nn.TransformerEncoderLayer(width, 4, 256, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, 8)

    def forward(self, input_values, labels):
        h = self.front(input_values[:, None]).transpose(1, 2)
        logits = self.head(self.encoder(h).mean(1))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class StepTimes(TrainerCallback):
    def __init__(self):
        self.pace = Pace()

    def on_step_end(self, args, state, control, **kwargs):
        self.pace.tick()


if __name__ == "__main__":
    times = StepTimes()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(out, max_steps=60, per_device_train_batch_size=8, learning_rate=1e-4, logging_steps=20,
                                 save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=1)
        trainer = Trainer(model=Emotion(), args=args, train_dataset=Utterances(),
                          data_collator=PadCollator(), callbacks=[times])
        trainer.train()
    times.pace.report()
