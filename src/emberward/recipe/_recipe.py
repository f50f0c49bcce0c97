"""The recipe: everything that decides a run, as one tree of frozen values.

Every field is a key a person can set (``layout.tp=2``). Docstrings of the classes are the reference of the keys.
None means "work it out"; what was worked out is printed and written to ``config.resolved.yaml``.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Family(StrEnum):
    """Model families."""

    BLOOM = "bloom"


class ComputeType(StrEnum):
    """Number type of matrix products and activations. Master weights and accumulation are always float32."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class ZeroStage(IntEnum):
    """What is sharded over dp (Rajbhandari et al. 2020): 0 nothing, 1 optimizer, 2 + gradients, 3 + parameters."""

    NONE = 0
    OPTIMIZER = 1
    GRADIENTS = 2
    PARAMETERS = 3


class Device(StrEnum):
    """Where ranks compute. AUTO takes CUDA when each local rank has a device of its own, else the CPU."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The network.

    `hidden` is the width of the residual stream, `ffn_hidden` of the feed-forward layer (None: 4 x hidden).
    `vocab_size` None takes the tokenizer's, padded up to a multiple of 64 x tp. `init_std` None is
    sqrt(0.3333 / hidden), as BLOOM-176B (BigScience chronicles of the 176B training, 2022).
    """

    family: Family = Family.BLOOM
    num_layers: int = 4
    hidden: int = 128
    num_heads: int = 4
    ffn_hidden: int | None = None
    vocab_size: int | None = None
    seq_len: int = 128
    layer_norm_eps: float = 1e-5
    init_std: float | None = None
    recompute: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutConfig:
    """Who does what: world = dp x tp x pp.

    `dp` None takes what the number of ranks leaves. `dp_replicate` > 1 is HSDP: dp_replicate groups that each shard
    over dp / dp_replicate ranks. `stages_per_rank` is the number of model chunks a pipeline rank holds (interleaved
    schedules need > 1). `stage_layers` gives the number of layers of each stage by hand; None balances by cost.
    """

    dp: int | None = None
    tp: int = 1
    pp: int = 1
    zero: ZeroStage = ZeroStage.OPTIMIZER
    dp_replicate: int = 1
    sequence_parallel: bool = True
    stages_per_rank: int = 1
    stage_layers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RampUp:
    """Batch ramp-up: begins at `start` samples, adds `increment` at even intervals over `samples` consumed samples.

    As Megatron's ``--rampup-batch-size START INCREMENT SAMPLES``.
    """

    start: int
    increment: int
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchConfig:
    """global_batch = micro_batch x accumulation x dp, in samples; any two of the four give the rest (dp in layout)."""

    global_batch: int | None = None
    micro_batch: int | None = None
    accumulation: int | None = None
    ramp_up: RampUp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimConfig:
    """AdamW. The learning rate rises linearly over `warmup_samples`, then falls by a cosine to `lr_min` at
    `decay_samples` (None: the end of the run). `clip` None turns clipping off. Weight decay spares vectors
    (norms and biases)."""

    lr: float = 3e-3
    lr_min: float = 3e-4
    warmup_samples: int = 0
    decay_samples: int | None = None
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float | None = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionConfig:
    """`compute` chooses the number type; `loss_scale` is the first scale of fp16's dynamic loss scaler."""

    compute: ComputeType = ComputeType.FP32
    loss_scale: float = 65536.0
    loss_scale_window: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One body of text. `path` is ``stdlib``, a text file or folder, or a Megatron prefix (PREFIX.bin + PREFIX.idx).

    `weight` is its share of the samples of a blend, relative to the other sources.
    """

    path: str
    weight: float = 1.0
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """`train` is blended by weight. `tokenizer` is ``byte`` or the path of a Hugging Face tokenizer.json.

    `held_out` is the share of documents (by hash of their content's name) kept from training for evaluation.
    `cache` is the folder for prepared .bin/.idx files; None is ``.emberward/data`` in the current folder.
    `prefetch` is the number of batches a rank's loader thread holds ready.
    """

    train: tuple[Source, ...] = (Source(path="stdlib"),)
    tokenizer: str = "byte"
    held_out: float = 0.05
    cache: str | None = None
    prefetch: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalConfig:
    """Evaluates each `interval` steps and at the end on `sets`; empty means the held-out parts of the train data.

    `samples` bounds the samples of each set; `micro_batch` None takes batch.micro_batch. interval None: only at the
    end; 0 is not a legal interval.
    """

    interval: int | None = None
    samples: int = 64
    micro_batch: int | None = None
    sets: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveConfig:
    """Saves each `interval` steps (None: only at the end) and keeps the last `keep` saves (None: all)."""

    interval: int | None = None
    keep: int | None = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """`interval` is the number of steps between lines. Sinks beside metrics.jsonl are off unless named.

    `events` records the events of the first so many steps of each attempt into events/rank*.jsonl.
    `tensorboard` and `wandb` turn those sinks on; `prometheus_port` serves rank 0's metrics on 127.0.0.1.
    """

    interval: int = 1
    events: int = 1
    tensorboard: bool = False
    wandb: str | None = None
    prometheus_port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A run. `steps` or `train_samples` ends it; `schedule` is gpipe, 1f1b, interleaved, or the path of a CSV.

    `sample_prompt` is continued by `sample_tokens` tokens at the end of the run (0 turns that off).
    """

    name: str = "run"
    seed: int = 1234
    steps: int | None = None
    train_samples: int | None = None
    schedule: str = "1f1b"
    device: Device = Device.AUTO
    timeout_s: float = 300.0
    sample_prompt: str = "def "
    sample_tokens: int = 200
    model: ModelConfig = field(default_factory=ModelConfig)
    layout: LayoutConfig = field(default_factory=LayoutConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    data: DataConfig = field(default_factory=DataConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    save: SaveConfig = field(default_factory=SaveConfig)
    log: LogConfig = field(default_factory=LogConfig)
