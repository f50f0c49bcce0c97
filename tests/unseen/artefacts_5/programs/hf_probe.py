"""HF Trainer on a toy classifier; a callback evaluates every 15 steps."""
import torch
import torch.nn as nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Points(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 12, generator=g)
        self.y = (self.x[:, 0] * self.x[:, 1] > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.y[i]}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 2))

    def forward(self, x, labels=None):
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


class Probe(TrainerCallback):
    def __init__(self, every):
        self.every, self.trainer = every, None

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self.every == 0 and state.is_world_process_zero:
            scores = self.trainer.evaluate()
            print(f"step {state.global_step}: eval loss {scores['eval_loss']:.4f}", flush=True)


def main():
    args = TrainingArguments(
        output_dir="out", use_cpu=True, per_device_train_batch_size=8, per_device_eval_batch_size=16,
        max_steps=120, logging_steps=10, save_strategy="no", report_to=[], disable_tqdm=True,
        ddp_find_unused_parameters=False, dataloader_pin_memory=False, seed=5)
    probe = Probe(every=15)
    trainer = Trainer(model=Classifier(), args=args, train_dataset=Points(2000, 0), eval_dataset=Points(300, 1),
                      callbacks=[probe])
    probe.trainer = trainer
    trainer.train()
    print("finished", flush=True)


if __name__ == "__main__":
    main()
