import statistics
import tempfile
from time import perf_counter

from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

from reviews import Reviews, collate


class Clock(TrainerCallback):
    def __init__(self):
        self.marks = []

    def on_step_end(self, args, state, control, **kwargs):
        self.marks.append(perf_counter())


def main():
    set_seed(0)
    config = BertConfig(
        vocab_size=3000, hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=96,
    )
    model = BertForSequenceClassification(config)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, max_steps=62, per_device_train_batch_size=8, learning_rate=5e-4, use_cpu=True,
            save_strategy="no", logging_steps=20, report_to=[], disable_tqdm=True,
        )
        trainer = Trainer(model=model, args=args, train_dataset=Reviews(), data_collator=collate, callbacks=[clock])
        trainer.train()
    times = [1e3 * (b - a) for a, b in zip(clock.marks, clock.marks[1:])][2:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
