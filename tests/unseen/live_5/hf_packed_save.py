"""HF Trainer with checkpoints; the main process packs each checkpoint (compression, checksum) before training goes on."""
import hashlib
import lzma
import os
import tempfile
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Counting(torch.utils.data.Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(n)
        self.rows = (torch.randint(0, 100, (n, 1), generator=g) + torch.arange(32)) % 120

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


class Pack(TrainerCallback):
    """Packs the folder of the checkpoint, part by part; big ones take a while."""

    def __init__(self, seconds):
        self.seconds = seconds

    def on_save(self, args, state, control, **kwargs):
        if not state.is_world_process_zero:
            return
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        begin, digest, rounds = time.time(), hashlib.sha256(), 0
        while time.time() - begin < self.seconds:
            for name in sorted(os.listdir(folder)):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not name.endswith(".xz"):
                    with open(path, "rb") as f:
                        while part := f.read(1 << 16):
                            digest.update(lzma.compress(part, preset=6))
                            if time.time() - begin > self.seconds:
                                break
            rounds += 1
        with open(os.path.join(folder, "packed.sha"), "w") as f:
            f.write(digest.hexdigest())
        print(f"packed step {state.global_step} in {time.time() - begin:.0f} s", flush=True)


def main():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=32, n_embd=64, n_layer=2, n_head=4))
    args = TrainingArguments(
        output_dir=os.path.join(tempfile.gettempdir(), f"packed-{os.getppid()}"),
        per_device_train_batch_size=8,
        max_steps=150,
        eval_strategy="steps",
        eval_steps=50,
        save_steps=75,
        logging_steps=25,
        learning_rate=1e-3,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=Counting(1600), eval_dataset=Counting(101), callbacks=[Pack(26)])
    trainer.train()
    if trainer.is_world_process_zero():
        print("done", trainer.state.global_step, flush=True)


if __name__ == "__main__":
    main()
