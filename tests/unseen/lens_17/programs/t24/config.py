DATA = {"batch": 384}

TRAINER = {
    "max_steps": 60,
    "accelerator": "cpu",
    "devices": 1,
    "gradient_clip_val": 1.0,
    "num_sanity_val_steps": 0,
    "val_check_interval": 2,  #: LINE
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
