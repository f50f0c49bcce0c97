import statistics
import tempfile
import time

import torch.distributed as dist
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments, set_seed

from cloze import Cloze, Lines, build_tokenizer, lexicon


class Clock(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **rest):
        self.ends.append(time.perf_counter())


def main(steps=60):
    set_seed(0)
    words = lexicon()
    tokenizer = build_tokenizer(words)
    model = BertForMaskedLM(BertConfig(
        vocab_size=len(tokenizer), hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=192,
        max_position_embeddings=32,
    ))
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=4, learning_rate=1e-3, optim="adamw_torch_fused",
            use_cpu=True, report_to="none", logging_strategy="no", save_strategy="no", disable_tqdm=True,
            dataloader_pin_memory=False, ddp_find_unused_parameters=False,
        )
        trainer = Trainer(model, arguments, data_collator=Cloze(tokenizer), train_dataset=Lines(tokenizer, words), callbacks=[clock])
        result = trainer.train()
    if trainer.is_world_process_zero():
        times = [1e3 * (end - begin) for begin, end in zip(clock.ends, clock.ends[1:])][2:]
        print(f"mean loss {result.training_loss:.6f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
