"""Fine-tunes a tiny GPT-2 on synthetic recipes, with a quick look at the dev set now and then."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Recipes(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(0, 300, (n, 32), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class QuickEval(TrainerCallback):
    def __init__(self, every):
        self.every, self.trainer, self.dev = every, None, Recipes(64, 99)

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % self.every == 0 and state.is_world_process_zero:
            metrics = self.trainer.evaluate(self.dev, metric_key_prefix="quick")  #: LINE
            print(f"[{state.global_step}] quick loss {metrics['quick_loss']:.3f}", flush=True)


def main():
    config = GPT2Config(vocab_size=300, n_positions=32, n_embd=48, n_layer=2, n_head=2)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, per_device_eval_batch_size=8, max_steps=400,
        logging_steps=10, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
    )
    quick = QuickEval(every=50)
    trainer = Trainer(model=model, args=args, train_dataset=Recipes(4000, 1), callbacks=[quick])
    quick.trainer = trainer
    trainer.train()


if __name__ == "__main__":
    main()
