import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import DistilBertConfig, DistilBertForSequenceClassification
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from reviews import Collate, Reviews


class Lap(TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, args, state, control, **rest):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **rest):
        self.times.append(1e3 * (time.perf_counter() - self.began))


def main(steps=60, batch=12):
    set_seed(0)
    model = DistilBertForSequenceClassification(
        DistilBertConfig(vocab_size=4000, max_position_embeddings=64, dim=128, hidden_dim=384, n_layers=3, n_heads=4, num_labels=5)
    )
    lap = Lap()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=5e-4, use_cpu=True,
            optim="adamw_torch_fused", logging_strategy="no", save_strategy="no", report_to=[], disable_tqdm=True,
            dataloader_drop_last=True, ddp_find_unused_parameters=False,
        )
        trainer = Trainer(model, args, train_dataset=Reviews(), data_collator=Collate(), callbacks=[lap])
        done = trainer.train()
    if trainer.is_world_process_zero():
        times = lap.times[3:]
        print(f"mean loss {done.training_loss:.6f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
