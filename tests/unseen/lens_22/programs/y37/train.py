import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from transformers import ElectraConfig, ElectraForSequenceClassification, TrainerCallback, TrainingArguments

from twice_trainer import TwiceTrainer
from verses import Verses


class Pace(TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60):
    torch.manual_seed(0)
    config = ElectraConfig(
        vocab_size=720, embedding_size=96, hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=288,
        max_position_embeddings=64, num_labels=5, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1,
    )
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=8, learning_rate=5e-4, use_cpu=True,
            lr_scheduler_type="constant", save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
            ddp_find_unused_parameters=False, ddp_backend="gloo",
        )
        model = ElectraForSequenceClassification(config)
        trainer = TwiceTrainer(model, arguments, train_dataset=Verses(), callbacks=[pace])
        result = trainer.train()
    if trainer.is_world_process_zero():
        print(f"loss {result.training_loss:.6f}")
        print(f"{statistics.median(pace.times[3:]):.2f} ms/step median, {statistics.mean(pace.times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
