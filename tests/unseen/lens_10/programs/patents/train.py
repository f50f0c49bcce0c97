import statistics
import tempfile
import time

import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments


class Abstracts(torch.utils.data.Dataset):
    def __init__(self, n=400, words=80):
        g = torch.Generator().manual_seed(2)
        self.ids = torch.randint(3, 2500, (n, words), generator=g)
        self.y = (self.ids[:, 0] % 8).long()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.y[i]}


class Curve(TrainerCallback):
    def __init__(self):
        self.loss, self.ends = [], []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.loss.append(logs["loss"])

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def main():
    torch.manual_seed(0)
    curve = Curve()
    model = DistilBertForSequenceClassification(DistilBertConfig(vocab_size=2500, dim=144, n_layers=2, n_heads=4, hidden_dim=400,
                                                                 max_position_embeddings=80, num_labels=8))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(folder, max_steps=63, per_device_train_batch_size=12, learning_rate=3e-4, logging_steps=1,
                                 logging_nan_inf_filter=True, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True)
        Trainer(model=model, args=args, train_dataset=Abstracts(), callbacks=[curve]).train()
    ms = [1000 * (b - a) for a, b in zip(curve.ends, curve.ends[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


if __name__ == "__main__":
    main()
