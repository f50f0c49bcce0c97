import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from transformers import DistilBertConfig, DistilBertForSequenceClassification, TrainerCallback, TrainingArguments

from desk_trainer import DeskTrainer
from tickets import Tickets


class Pace(TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    torch.manual_seed(0)
    config = DistilBertConfig(
        vocab_size=1000, dim=96, n_layers=3, n_heads=4, hidden_dim=384, max_position_embeddings=64, num_labels=7,
        dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0,
    )
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=16, learning_rate=5e-4, use_cpu=True,
            lr_scheduler_type="constant", save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
            ddp_find_unused_parameters=False, ddp_backend="gloo",
        )
        trainer = DeskTrainer(
            DistilBertForSequenceClassification(config), arguments, train_dataset=Tickets(), callbacks=[pace],
        )
        result = trainer.train()
    if trainer.is_world_process_zero():
        print(f"loss {result.training_loss:.6f} right {(trainer.right / trainer.count).item():.4f}")
        print(f"{statistics.median(pace.times[3:]):.2f} ms/step median, {statistics.mean(pace.times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
