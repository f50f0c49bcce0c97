def trainer_settings(debug=None):
    """Settings common to all runs of the group."""
    return {
        "max_steps": 60,
        "accelerator": "cpu",
        "devices": 1,
        "num_sanity_val_steps": 0,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "gradient_clip_val": 1.0,
        "detect_anomaly": bool(debug),
    }
