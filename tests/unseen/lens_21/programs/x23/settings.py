from transformers import TrainingArguments


def arguments(folder, steps):
    return TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=8,
        learning_rate=5e-4,
        warmup_steps=5,
        lr_scheduler_type="cosine",
        optim="adamw_torch_fused",
        gradient_checkpointing=True,  #: LINE
        use_cpu=True,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=0,
    )
