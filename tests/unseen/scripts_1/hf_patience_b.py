import argparse
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class LossPlateau(TrainerCallback):
    """Stops the run once a probe loss has stopped improving."""

    def __init__(self, model, probe, patience=2, delta=0.02):
        self.model, self.probe = model, probe
        self.patience, self.delta = patience, delta
        self.best, self.bad = float("inf"), 0

    def _probe_loss(self):
        x, y = self.probe
        with torch.no_grad():
            return self.model(x, y)["loss"].item()

    def on_step_end(self, args, state, control, **kwargs):
        stop = torch.zeros(1)
        if state.is_world_process_zero:
            loss = self._probe_loss()
            if loss < self.best - self.delta:
                self.best, self.bad = loss, 0
            else:
                self.bad += 1
            if self.bad >= self.patience:
                print(f"plateau after step {state.global_step}")
                stop.fill_(1)
        dist.broadcast(stop, src=0)
        if stop.item():
            control.should_training_stop = True
        return control


class Linear(torch.nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.w = torch.nn.Linear(d, 1)

    def forward(self, x, labels=None):
        pred = self.w(x).squeeze(-1)
        return {"loss": torch.nn.functional.mse_loss(pred, labels), "pred": pred}


def collate(rows):
    xs, ys = zip(*rows)
    return {"x": torch.stack(xs), "labels": torch.stack(ys)}


def data(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=g)
    return x, x @ torch.tensor([1.0, -1.0, 0.5, 0.0])


def fit(cli):
    torch.manual_seed(0)
    model = Linear()
    with tempfile.TemporaryDirectory() as scratch:
        args = TrainingArguments(
            output_dir=scratch, max_steps=cli.max_steps, per_device_train_batch_size=8,
            learning_rate=cli.lr, lr_scheduler_type="constant", optim="sgd",
            save_strategy="no", report_to=[], use_cpu=True, ddp_backend="gloo",
            ddp_find_unused_parameters=False, disable_tqdm=True,
            logging_steps=50, max_grad_norm=0.0, remove_unused_columns=False,
        )
        trainer = Trainer(
            model=model, args=args, train_dataset=TensorDataset(*data(256, 1)),
            data_collator=collate, callbacks=[LossPlateau(model, data(32, 2))],
        )
        return trainer.train().global_step


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--max-steps", type=int, default=14)
    ap.add_argument("--lr", type=float, default=0.15)
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    seen = torch.tensor([fit(ap.parse_args())])
    dist.all_reduce(seen, op=dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print("ran", seen.item(), "steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
