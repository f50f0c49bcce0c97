import statistics
import tempfile
import time

import torch
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments, set_seed

from masking import Masking

SIGNS, MASK = 400, 3


class Inscriptions(torch.utils.data.Dataset):
    def __init__(self, count=2800, length=56):
        self.rows = torch.randint(4, SIGNS, (count, length))
        self.rows[:, 0], self.rows[:, -1] = 1, 2

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index]}


class Pace(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **rest):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=40):
    set_seed(0)
    config = BertConfig(
        vocab_size=SIGNS, hidden_size=80, num_hidden_layers=1, num_attention_heads=4, intermediate_size=160,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    pace = Pace()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=5e-4, use_cpu=True, report_to="none",
            logging_strategy="no", save_strategy="no", disable_tqdm=True, optim="adamw_torch_fused", max_grad_norm=0,
            dataloader_pin_memory=False,
        )
        trainer = Trainer(
            BertForMaskedLM(config), args, train_dataset=Inscriptions(),
            data_collator=Masking(SIGNS, MASK), callbacks=[pace],
        )
        result = trainer.train()
    times = [1e3 * (end - begin) for begin, end in zip(pace.ends, pace.ends[1:])]
    print(f"loss {result.training_loss:.5f} after {result.global_step} steps")
    print(f"{statistics.median(times[2:]):.2f} ms/step median, {statistics.mean(times[2:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
