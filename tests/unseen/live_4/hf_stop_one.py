import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments


class Stories(torch.utils.data.Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(0)
        self.ids = torch.randint(3, 200, (n, 16), generator=g)
        self.labels = (self.ids[:, 0] > 100).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


class WatchedTrainer(Trainer):
    recent = []

    def compute_loss(self, model, inputs, *args, **kwargs):
        out = super().compute_loss(model, inputs, *args, **kwargs)
        loss = out[0] if isinstance(out, tuple) else out
        self.recent.append(float(loss.detach()))
        return out


class GoodEnough(TrainerCallback):
    """the loss has been below the target for a while: no need to go on"""

    def __init__(self, target, patience):
        self.target, self.patience = target, patience

    def on_step_end(self, args, state, control, **kwargs):
        last = WatchedTrainer.recent[-self.patience:]
        if len(last) == self.patience and sum(last) / self.patience < self.target:
            print(f"rank {args.process_index}: target reached at step {state.global_step}", flush=True)
            control.should_training_stop = True               #: LINE
        return control


def main():
    config = BertConfig(vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=16)
    torch.manual_seed(0)
    args = TrainingArguments(tempfile.mkdtemp(), use_cpu=True, per_device_train_batch_size=8, num_train_epochs=30,
                             learning_rate=1e-3, logging_steps=20, save_strategy="no", report_to=[],
                             disable_tqdm=True, ddp_backend="gloo")
    trainer = WatchedTrainer(model=BertForSequenceClassification(config), args=args, train_dataset=Stories(1200),
                             callbacks=[GoodEnough(0.12, 12)])
    trainer.train()  #: LINE
    if trainer.is_world_process_zero():
        print("steps:", trainer.state.global_step)


if __name__ == "__main__":
    main()
