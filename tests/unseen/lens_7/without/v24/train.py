import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from steptime import StepTime

STEPS = 62
VOCAB = 1000


class Tokens(Dataset):
    def __init__(self, n, length):
        g = torch.Generator().manual_seed(0)
        self.ids = torch.randint(0, VOCAB, (n, length), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class Clock(TrainerCallback):
    def __init__(self):
        self.clock = StepTime()

    def on_step_end(self, args, state, control, **kw):
        self.clock.tick()

    def on_train_end(self, args, state, control, **kw):
        if state.is_world_process_zero:
            self.clock.report()


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCAB, n_positions=64, n_embd=128, n_layer=3, n_head=4, use_cache=False)
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=8,
            max_steps=STEPS,
            learning_rate=3e-4,
            logging_steps=30,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(model=model, args=args, train_dataset=Tokens(8 * STEPS * 2, 64), callbacks=[Clock()])
        trainer.train()


if __name__ == "__main__":
    main()
