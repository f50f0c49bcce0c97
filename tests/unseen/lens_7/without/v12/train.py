import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from steptime import StepTime
from text import Collate, Reviews, Tokenizer, corpus


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
    words, texts = corpus(16 * 62)
    tok = Tokenizer(words)
    data = Reviews(texts, tok)
    config = BertConfig(vocab_size=tok.size, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=256, max_position_embeddings=64)
    model = BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(output_dir=out, per_device_train_batch_size=16, max_steps=62, logging_steps=25,
                                 save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
                                 remove_unused_columns=False)
        trainer = Trainer(model=model, args=args, train_dataset=data, data_collator=Collate(tok), callbacks=[Clock()])
        trainer.train()


if __name__ == "__main__":
    main()
