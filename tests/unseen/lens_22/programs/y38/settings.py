from transformers import BertConfig, TrainingArguments


def model_config(words=900, decades=6):
    return BertConfig(
        vocab_size=words, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=384,
        max_position_embeddings=64, num_labels=decades, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )


def arguments(folder, steps):
    return TrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=16,
        learning_rate=3e-4,
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        gradient_checkpointing=True,  #: LINE
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )
