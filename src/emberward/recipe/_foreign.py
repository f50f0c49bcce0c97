"""What other trainers call the things of a recipe, so that their key names get a hint to ours."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """What another trainer calls something: its project, our key (None: there is none) and what differs."""

    project: str
    ours: str | None
    note: str | None = None
    keeps_value: bool = True


_LIBAI, _MEGATRON, _HF, _DEEPSPEED, _TITAN = "LiBai", "Megatron-LM", "Hugging Face Trainer", "DeepSpeed", "torchtitan"
_IN_SAMPLES = "count samples, not steps: steps x global_batch"


def _rows(project: str, rows: dict[str, str]) -> dict[str, Foreign]:
    return {name: Foreign(project=project, ours=ours) for name, ours in rows.items()}


def _noted(project: str, rows: dict[str, tuple[str | None, str]]) -> dict[str, Foreign]:
    return {
        name: Foreign(project=project, ours=ours, note=note, keeps_value=False) for name, (ours, note) in rows.items()
    }


# Sources: libai/config and configs/common/train.py, megatron/training/arguments.py, transformers TrainingArguments,
# deepspeed.ai/docs/config-json, torchtitan/config. Where two share a name, the first that used it is named.
FOREIGN: dict[str, Foreign] = {
    **_rows(
        _TITAN,
        {
            "data_parallel_shard_degree": "layout.dp",
            "data_parallel_replicate_degree": "layout.dp_replicate",
            "tensor_parallel_degree": "layout.tp",
            "pipeline_parallel_degree": "layout.pp",
            "pipeline_parallel_schedule": "schedule",
            "local_batch_size": "batch.micro_batch",
        },
    ),
    **_rows(
        _HF,
        {
            "per_device_train_batch_size": "batch.micro_batch",
            "per_device_eval_batch_size": "evaluation.micro_batch",
            "gradient_accumulation_steps": "batch.accumulation",
            "max_steps": "steps",
            "learning_rate": "optim.lr",
            "adam_epsilon": "optim.eps",
            "max_grad_norm": "optim.clip",
            "logging_steps": "log.interval",
            "eval_steps": "evaluation.interval",
            "save_steps": "save.interval",
            "save_total_limit": "save.keep",
            "gradient_checkpointing": "model.recompute",
            "hidden_size": "model.hidden",
            "num_hidden_layers": "model.num_layers",
            "intermediate_size": "model.ffn_hidden",
            "max_position_embeddings": "model.seq_len",
            "layer_norm_epsilon": "model.layer_norm_eps",
            "initializer_range": "model.init_std",
            "run_name": "name",
        },
    ),
    **_noted(
        _HF,
        {
            "num_train_epochs": ("train_samples", "a run ends after train_samples or steps"),
            "warmup_steps": ("optim.warmup_samples", _IN_SAMPLES),
            "warmup_ratio": ("optim.warmup_samples", "the ratio x train_samples"),
            "lr_scheduler_type": (
                None,
                "the schedule is a linear warm-up, then a cosine: optim.warmup_samples, "
                "optim.decay_samples, optim.lr_min",
            ),
            "report_to": ("log.tensorboard", "log.tensorboard=true, log.wandb=PROJECT or log.prometheus_port=PORT"),
            "output_dir": ("name", "the run's folder is RUNS/name/id; --runs DIR chooses RUNS"),
            "fsdp": ("layout.zero", "layout.zero=3 is full sharding"),
        },
    ),
    **_rows(
        _DEEPSPEED,
        {
            "train_batch_size": "batch.global_batch",
            "train_micro_batch_size_per_gpu": "batch.micro_batch",
            "gradient_clipping": "optim.clip",
            "zero_optimization.stage": "layout.zero",
            "zero_stage": "layout.zero",
            "optimizer.params.lr": "optim.lr",
            "optimizer.params.betas": "optim.betas",
            "optimizer.params.eps": "optim.eps",
            "optimizer.params.weight_decay": "optim.weight_decay",
            "scheduler.params.warmup_max_lr": "optim.lr",
            "steps_per_print": "log.interval",
            "loss_scale_window": "precision.loss_scale_window",
        },
    ),
    **_noted(
        _DEEPSPEED,
        {
            "scheduler.params.warmup_num_steps": ("optim.warmup_samples", _IN_SAMPLES),
            "initial_scale_power": ("precision.loss_scale", "the scale itself: 2 to that power"),
            "fp16.enabled": ("precision.compute", "precision.compute=fp16"),
            "bf16.enabled": ("precision.compute", "precision.compute=bf16"),
        },
    ),
    **_rows(
        _MEGATRON,
        {
            "tensor_model_parallel_size": "layout.tp",
            "pipeline_model_parallel_size": "layout.pp",
            "num_virtual_stages_per_pipeline_rank": "layout.stages_per_rank",
            "micro_batch_size": "batch.micro_batch",
            "global_batch_size": "batch.global_batch",
            "rampup_batch_size": "batch.ramp_up",
            "train_iters": "steps",
            "num_attention_heads": "model.num_heads",
            "ffn_hidden_size": "model.ffn_hidden",
            "seq_length": "model.seq_len",
            "padded_vocab_size": "model.vocab_size",
            "pad_vocab_size_to": "model.vocab_size",
            "init_method_std": "model.init_std",
            "layernorm_epsilon": "model.layer_norm_eps",
            "norm_epsilon": "model.layer_norm_eps",
            "recompute_activations": "model.recompute",
            "checkpoint_activations": "model.recompute",
            "min_lr": "optim.lr_min",
            "lr_warmup_samples": "optim.warmup_samples",
            "lr_decay_samples": "optim.decay_samples",
            "clip_grad": "optim.clip",
            "adam_eps": "optim.eps",
            "initial_loss_scale": "precision.loss_scale",
            "data_path": "data.train",
            "train_data_path": "data.train",
            "valid_data_path": "evaluation.sets",
            "eval_interval": "evaluation.interval",
            "save_interval": "save.interval",
            "log_interval": "log.interval",
            "tokenizer_model": "data.tokenizer",
            "wandb_project": "log.wandb",
        },
    ),
    **_noted(
        _MEGATRON,
        {
            "num_layers_per_virtual_pipeline_stage": (
                "layout.stages_per_rank",
                "the number of chunks of a rank: layers / pp / layers of a chunk",
            ),
            "lr_warmup_iters": ("optim.warmup_samples", _IN_SAMPLES),
            "lr_warmup_fraction": ("optim.warmup_samples", "the fraction x optim.decay_samples"),
            "lr_decay_iters": ("optim.decay_samples", _IN_SAMPLES),
            "lr_decay_style": (None, "the schedule is a linear warm-up, then a cosine"),
            "adam_beta1": ("optim.betas", "both at once: optim.betas=0.9,0.95"),
            "adam_beta2": ("optim.betas", "both at once: optim.betas=0.9,0.95"),
            "eval_iters": ("evaluation.samples", "count samples of each set, not steps"),
            "use_distributed_optimizer": ("layout.zero", "layout.zero=1 shards the optimizer's state"),
            "bf16": ("precision.compute", "precision.compute=bf16"),
            "fp16": ("precision.compute", "precision.compute=fp16"),
            "attention_dropout": (None, "the models have no dropout"),
            "hidden_dropout": (None, "the models have no dropout"),
            "context_parallel_size": (None, "context parallel is not there yet"),
            "expert_model_parallel_size": (None, "expert parallel is not there yet"),
        },
    ),
    **_rows(
        _LIBAI,
        {
            "tensor_parallel_size": "layout.tp",
            "pipeline_parallel_size": "layout.pp",
            "data_parallel_size": "layout.dp",
            "pipeline_num_layers": "model.num_layers",
            "train_micro_batch_size": "batch.micro_batch",
            "test_micro_batch_size": "evaluation.micro_batch",
            "num_accumulation_steps": "batch.accumulation",
            "train_iter": "steps",
            "activation_checkpoint.enabled": "model.recompute",
            "checkpointer.period": "save.interval",
            "checkpointer.max_to_keep": "save.keep",
            "log_period": "log.interval",
            "eval_period": "evaluation.interval",
            "hidden_layers": "model.num_layers",
            "device_type": "device",
        },
    ),
    **_noted(
        _LIBAI,
        {
            "train_epoch": ("train_samples", "a run ends after train_samples or steps"),
            "custom_pipeline_stage_id": ("layout.stage_layers", "the number of layers of each stage"),
            "amp.enabled": ("precision.compute", "precision.compute=bf16"),
        },
    ),
}


def foreign(name: str) -> Foreign | None:
    """What another trainer means by `name`, dotted or not: the longest tail of it that we know; None for none."""
    words = name.lower().replace("-", "_").split(".")
    tails = (".".join(words[start:]) for start in range(len(words)))
    return next((FOREIGN[tail] for tail in tails if tail in FOREIGN), None)
