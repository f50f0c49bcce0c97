"""The recipe: everything that decides a run, as one tree of frozen values.

Every field is a key a person can set (``layout.tp=2``). The docstrings of the classes and of their fields are the
reference of the keys (docs/configuration.md is made from them). None means "work it out" unless the field says
otherwise; what was worked out is printed and written to ``config.resolved.yaml``.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from emberward.families import ModelConfig, find_family
from emberward.plan import BackwardLane


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


class Backend(StrEnum):
    """What carries the calls between ranks. AUTO takes NCCL on CUDA and gloo on the CPU."""

    AUTO = "auto"
    GLOO = "gloo"
    NCCL = "nccl"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutConfig:
    """Who does what: number of ranks = dp x tp x pp."""

    dp: int | None = None
    """Data-parallel size. Null: what tp and pp leave of the ranks."""
    tp: int = 1
    """Tensor-parallel size: ranks that share each matrix."""
    pp: int = 1
    """Pipeline-parallel size: ranks that share the layers."""
    zero: ZeroStage = ZeroStage.OPTIMIZER
    """What is sharded over dp (ZeRO): 0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters."""
    gathered_gb: float = 2.0
    """Under zero 3, gigabytes of parameters that a rank may hold whole at a time. Two layers are held in any case; a
    rank whose parameters all fit keeps them, as under zero 2."""
    dp_replicate: int = 1
    """HSDP: this many groups, each sharded over dp / dp_replicate ranks. 1 shards over all of dp."""
    sequence_parallel: bool | None = None
    """Split norms and residuals along the sequence over tp. Null: where the family can, as tp divides the sequence."""
    stages_per_rank: int = 1
    """Stages a pipeline rank holds: 1 under 1f1b, 2 under zb_v and dualpipe_v, 2 or more under interleaved."""
    stage_layers: tuple[int, ...] | None = None
    """Number of layers of each of the pp x stages_per_rank stages. Null: balanced by cost."""
    backward_lane: BackwardLane = BackwardLane.SHARED
    """Thread of the first stage's backwards: ``shared`` with its forwards, ``own``, or ``fed_by_forwards``: an own one
    whose buffers lie on the forwards' lane. The last can hang: docs/schedules.md."""
    lane_credit: int = 1
    """With a backward lane: how many forwards the first stage may be ahead of its backwards, beside the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RampUp:
    """Batch ramp-up, as Megatron's ``--rampup-batch-size START INCREMENT SAMPLES``. Also as three numbers."""

    start: int
    """Global batch at the first step."""
    increment: int
    """What each increment adds to the global batch."""
    samples: int
    """Consumed samples over which the increments are spread evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchConfig:
    """global_batch = micro_batch x accumulation x dp, in samples. With dp known, one or two of the three are enough."""

    global_batch: int | None = None
    """Samples of a step over all ranks. Null: worked out."""
    micro_batch: int | None = None
    """Samples that a rank computes at once. Null: worked out, 1 where nothing asks for more."""
    accumulation: int | None = None
    """Micro-batches of a step. Null: worked out, 1 where nothing asks for more."""
    ramp_up: RampUp | None = None
    """Begin with a smaller global batch. Null: no ramp-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimConfig:
    """AdamW. Weight decay spares vectors (norms and biases)."""

    lr: float = 3e-3
    """Learning rate at the end of the warm-up."""
    lr_min: float = 3e-4
    """Learning rate at and after `decay_samples`."""
    warmup_samples: int = 0
    """Samples over which the learning rate rises linearly from 0."""
    decay_samples: int | None = None
    """Consumed samples at which the cosine has come down to `lr_min`. Null: the end of the run."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Decay of the first and second moments."""
    eps: float = 1e-8
    """What is added to the root of the second moment."""
    weight_decay: float = 0.1
    """Decoupled weight decay."""
    clip: float | None = 1.0
    """Largest norm of the whole gradient; larger ones are scaled down. Null: no clipping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionConfig:
    """Number types."""

    compute: ComputeType = ComputeType.FP32
    """Number type of matrix products and activations; master weights and accumulation are always float32."""
    loss_scale: float = 65536.0
    """First scale of fp16's dynamic loss scaler; used with fp16 alone."""
    loss_scale_window: int = 1000
    """Steps without overflow after which fp16's loss scale doubles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One body of text or images. One alone is its path, with weight 1."""

    path: str
    """``stdlib``, a text file or folder, or a Megatron prefix (PREFIX.bin + PREFIX.idx)."""
    weight: float = 1.0
    """Share of the samples of a blend, relative to the other sources."""
    name: str | None = None
    """What tables and plots call it. Null: made from the path."""


class ImageMode(StrEnum):
    """What the pixels of image files are converted to: ``L`` is grey, ``RGB`` colour."""

    GREY = "L"
    COLOUR = "RGB"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """How image files are read, and what is done to training images, for models that take images."""

    side: int | None = None
    """Scale image files to so many pixels on the shorter side and cut them square. Null: as they are, all alike."""
    mode: ImageMode | None = None
    """Convert image files: ``L`` or ``RGB``. Null: as they are, all alike."""
    crop: int = 0
    """Move each training image by up to so many pixels in both directions; what comes in is black."""
    flip: bool = False
    """Mirror half of the training images."""
    mixup: float = 0.0
    """Blend each training image with another by Beta(mixup, mixup) (Zhang et al. 2018). 0: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """Text or images for training."""

    train: tuple[Source, ...] = (Source(path="stdlib"),)
    """Sources, blended by weight. Also as paths: ``data.train=a.txt,b.txt``. Images: docs/data.md."""
    tokenizer: str = "byte"
    """``byte``, or the path of a Hugging Face tokenizer.json."""
    held_out: float = 0.05
    """Share of documents (chosen by hash of their text) kept from training for evaluation."""
    cache: str | None = None
    """Folder for prepared .bin and .idx files. Null: ``.emberward/data`` in the current folder."""
    prefetch: int = 2
    """Batches that a rank's loader holds ready."""
    images: ImageConfig = field(default_factory=ImageConfig)
    mask_share: float = 0.15
    """Share of the tokens that a model of masked tokens must name; the others are not in its loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalConfig:
    """Evaluation on named sets."""

    interval: int | None = None
    """Steps between evaluations. Null: only at the end."""
    samples: int = 64
    """Most samples taken of each set."""
    micro_batch: int | None = None
    """Samples that a rank evaluates at once. Null: batch.micro_batch."""
    sets: tuple[Source, ...] = ()
    """Sets to evaluate on. Empty: the held-out parts of the train data."""


class ReadBack(StrEnum):
    """How much of a save is read again: ``none``, ``sampled`` (one block in 16, another one each time), ``full``."""

    NONE = "none"
    SAMPLED = "sampled"
    FULL = "full"


class OnDamage(StrEnum):
    """``refuse``: name what is damaged and offer the save before; ``older``: say so, and go on from that save."""

    REFUSE = "refuse"
    OLDER = "older"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveConfig:
    """Checkpoints."""

    interval: int | None = None
    """Steps between saves. Null: only at the end."""
    keep: int | None = 2
    """Saves that are kept, the newest. Null: all."""
    keep_every: int | None = None
    """Saves whose step is a multiple of this are kept for ever, beside the newest. Null: none."""
    background: bool = True
    """Write saves beside the training, which then stops only for a copy in host memory of what a rank owns."""
    verify: ReadBack = ReadBack.FULL
    """How much of a save is read back before it counts."""
    damaged: OnDamage = OnDamage.REFUSE
    """What a start does when the newest save is damaged."""


class StartTake(StrEnum):
    """What a new run takes over from the checkpoint that it starts from."""

    WEIGHTS = "weights"
    OPTIMIZER = "optimizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartConfig:
    """What a new run starts from: docs/convert.md."""

    checkpoint: str | None = None
    """Save, folder of saves, or run whose weights a new run takes instead of random ones. Null: random ones."""
    take: StartTake = StartTake.WEIGHTS
    """``weights`` alone, or ``optimizer``: the moments and the count of updates too. Steps and data begin at 0."""


class DriftPolicy(StrEnum):
    """What a run does when copies that must be equal differ."""

    REPORT = "report"
    STOP = "stop"
    REPAIR = "repair"


class SpikePolicy(StrEnum):
    """What a run does when a spike begins."""

    REPORT = "report"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthConfig:
    """What a run watches in its own numbers: docs/health.md."""

    drift_interval: int | None = 50
    """Steps between comparisons of all that must be equal on several ranks. Null: never."""
    on_drift: DriftPolicy = DriftPolicy.REPORT
    """When copies differ: ``report``, ``stop`` without a save, or ``repair`` by the majority's values."""
    spike_ratio: float | None = 5.0
    """Gradient norm, in running medians, at which a spike begins when the step before was raised. Null: no alarm."""
    on_spike: SpikePolicy = SpikePolicy.REPORT
    """When a spike begins: ``report``, or ``stop`` without a save, to be rewound."""
    inspect: int = 3
    """Steps of an attempt that are run again to find what made them not finite; in fp16 only at loss scale 1."""


class CertificatePolicy(StrEnum):
    """What a rank does when its next call is not the proved one."""

    STOP = "stop"
    REPORT = "report"
    OFF = "off"


class StepLine(StrEnum):
    """How a step is shown where no terminal is."""

    SHORT = "short"
    MEGATRON = "megatron"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """What is shown and recorded. Sinks beside metrics.jsonl are off unless named."""

    interval: int = 1
    """Steps between lines."""
    step_line: StepLine = StepLine.SHORT
    """A step's line off a terminal: ``short``, or ``megatron``, with the keys that tools for Megatron's logs read."""
    events: int = 1
    """Steps of each attempt whose events are recorded into events/rank*.jsonl."""
    certificate: CertificatePolicy = CertificatePolicy.STOP
    """A call that is not the proved one: ``stop`` before it is issued, ``report`` and go on, ``off``: not compared."""
    tensorboard: bool = False
    """Write TensorBoard event files."""
    wandb: str | None = None
    """Weights & Biases project to log to. Null: off."""
    prometheus_port: int | None = None
    """Port on 127.0.0.1 where rank 0 serves its metrics. Null: off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A run. `steps` or `train_samples` ends it."""

    name: str = "run"
    """Name of the run's folder."""
    seed: int = 1234
    """Seed of the first weights and of the order of the data."""
    steps: int | None = None
    """Steps of the run. Null: what train_samples gives."""
    train_samples: int | None = None
    """Samples of the run; a part of a step at the end is left out. Null: what steps gives."""
    schedule: str = "1f1b"
    """Pipeline schedule: ``gpipe``, ``looped_bfs``, ``1f1b``, ``interleaved``, ``zb_h1``, ``zb_v``, ``dualpipe_v``, or
    the path of a CSV in torch's format. See docs/schedules.md."""
    device: Device = Device.AUTO
    """Where ranks compute; ``auto`` takes CUDA when each local rank has a device of its own, else the CPU."""
    backend: Backend = Backend.AUTO
    """What carries calls between ranks; ``auto`` takes NCCL on CUDA and gloo on the CPU. ``gloo`` with ``device=cuda``
    goes through host memory and lets several ranks share a GPU: docs/training.md."""
    timeout_s: float = 300.0
    """Seconds after which a collective that does not end is given up."""
    debug: tuple[str, ...] = ()
    """What to print, assert or stop at inside the ranks, as ``print blocks.0.mlp step=0-2 rank=1``: docs/debug.md."""
    sample_prompt: str | None = None
    """Text that is continued at the end of the run. Null: the beginning of the first held-out text."""
    sample_tokens: int = 200
    """Tokens by which the prompt is continued. 0 turns that off."""
    model: ModelConfig = field(default_factory=ModelConfig)
    layout: LayoutConfig = field(default_factory=LayoutConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    data: DataConfig = field(default_factory=DataConfig)
    evaluation: EvalConfig = field(default_factory=EvalConfig)
    save: SaveConfig = field(default_factory=SaveConfig)
    start: StartConfig = field(default_factory=StartConfig)
    health: HealthConfig = field(default_factory=HealthConfig)
    log: LogConfig = field(default_factory=LogConfig)

    @property
    def splits_sequence(self) -> bool:
        """Whether norms and residuals are split along the sequence over tp; as good as False without tp."""
        wanted, family = self.layout.sequence_parallel, find_family(self.model.family)
        return family.splits_positions(self.model, tp=self.layout.tp) if wanted is None else wanted
