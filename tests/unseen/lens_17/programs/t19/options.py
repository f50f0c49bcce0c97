from transformers import TrainingArguments, ViTConfig

MODEL = ViTConfig(
    image_size=32, patch_size=4, hidden_size=144, num_hidden_layers=3, num_attention_heads=4, intermediate_size=576,
    num_labels=12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)


def options(folder):
    return TrainingArguments(
        output_dir=folder,
        max_steps=60,
        per_device_train_batch_size=6,
        learning_rate=4e-4,
        warmup_steps=10,
        lr_scheduler_type="cosine",
        gradient_checkpointing=True,  #: LINE
        use_cpu=True,
        logging_steps=30,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
