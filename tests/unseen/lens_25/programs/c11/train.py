import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import statistics
import tempfile
import time

from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

from minutes import TOPICS, Minutes, invent, learn_tokenizer


class StepTimes(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **rest):
        self.ends.append(time.perf_counter())


def main(steps=60, batch=16):
    set_seed(0)
    texts, topics = invent()
    tokenizer = learn_tokenizer(texts)
    model = BertForSequenceClassification(BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=384, max_position_embeddings=64, num_labels=len(TOPICS),
    ))
    watch = StepTimes()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=steps, per_device_train_batch_size=batch, learning_rate=5e-4, use_cpu=True,
            optim="adamw_torch_fused", logging_steps=50, save_strategy="no", report_to=[], disable_tqdm=True,
            dataloader_pin_memory=False, ddp_find_unused_parameters=False,
        )
        trainer = Trainer(model, arguments, train_dataset=Minutes(texts, topics, tokenizer), callbacks=[watch])
        result = trainer.train()
    if trainer.is_world_process_zero():
        times = [1e3 * (end - begin) for begin, end in zip(watch.ends, watch.ends[1:])][2:]
        print(f"mean loss {result.training_loss:.6f}")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")


if __name__ == "__main__":
    main()
