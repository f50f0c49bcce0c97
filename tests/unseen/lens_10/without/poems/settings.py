from transformers import GPT2Config, TrainingArguments

MODEL = GPT2Config(vocab_size=512, n_positions=96, n_embd=144, n_layer=4, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def arguments(folder):
    return TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=6,
        max_steps=63,
        learning_rate=1e-3,
        warmup_steps=10,
        weight_decay=0.01,
        gradient_checkpointing=False,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
