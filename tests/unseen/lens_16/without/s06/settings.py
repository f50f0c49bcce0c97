from transformers import TrainingArguments


def arguments(folder):
    return TrainingArguments(
        output_dir=folder,
        max_steps=60,
        per_device_train_batch_size=16,
        learning_rate=5e-4,
        weight_decay=0.01,
        use_cpu=True,
        logging_strategy="steps",
        logging_steps=20,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_drop_last=True,
    )
