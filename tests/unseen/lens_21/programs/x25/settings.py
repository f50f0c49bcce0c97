from transformers import TrainingArguments


def arguments(folder, steps):
    return TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=12,
        learning_rate=1e-3,
        optim="adamw_torch_fused",
        use_cpu=True,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        seed=0,
    )
