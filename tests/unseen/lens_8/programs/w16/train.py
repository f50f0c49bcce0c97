"""A small Llama with the Trainer of transformers; the loss of each step is logged."""
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

from pace import Pace

STEPS = 60
BATCH, LENGTH, WORDS = 8, 96, 600


class Paced(TrainerCallback):
    def __init__(self):
        self.pace = Pace()
        self.losses = []

    def on_step_end(self, args, state, control, **kwargs):
        self.pace.tick()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.losses.append(float(logs["loss"]))


class Tokens(torch.utils.data.Dataset):
    def __init__(self, count):
        self.ids = torch.randint(0, WORDS, (count, LENGTH), generator=torch.Generator().manual_seed(2))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def main():
    torch.manual_seed(2)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=WORDS, hidden_size=128, intermediate_size=320, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=LENGTH))
    paced = Paced()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out, max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=1e-3, report_to="none",
            logging_steps=1, save_strategy="no", use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False,
            ddp_backend="gloo")
        trainer = Trainer(model=model, args=args, train_dataset=Tokens(STEPS * BATCH), callbacks=[paced])
        trainer.train()
    if trainer.is_world_process_zero():
        print(f"logged {len(paced.losses)} losses, last {paced.losses[-1]}")
        paced.pace.report()


if __name__ == "__main__":
    main()
