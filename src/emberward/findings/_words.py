"""The closed lists of words a finding may use. New words are added here and in ``docs/findings.md``."""

from enum import StrEnum


class Severity(StrEnum):
    """How loud a finding is. A notice is no alarm; only an error makes exit code 1."""

    NOTICE = "notice"
    WARNING = "warning"
    ERROR = "error"


class Certainty(StrEnum):
    """How we know: by proof, by seeing it, by inference; or that we do not know."""

    PROVED = "proved"
    OBSERVED = "observed"
    INFERRED = "inferred"
    UNKNOWN = "unknown"


class Kind(StrEnum):
    """What sort of trouble it is."""

    DEADLOCK = "deadlock"
    MISMATCH = "mismatch"
    MISSING = "missing"
    CRASH = "crash"
    HANG = "hang"
    STRAGGLER = "straggler"
    LINK = "link"
    DEVICE = "device"
    DRIFT = "drift"
    SPIKE = "spike"
    ORDER_HAZARD = "order_hazard"
    EDGE = "edge"
    RESOURCE = "resource"
    CONFIG = "config"
    NONE = "none"


class Cause(StrEnum):
    """Why it happened: first the words for programs that stop or slow, then those for numbers and state."""

    UNEVEN_DATA = "uneven_data"
    SKIPPED_COLLECTIVE = "skipped_collective"
    EXTRA_COLLECTIVE = "extra_collective"
    DIFFERENT_OP = "different_op"
    DIFFERENT_ROOT = "different_root"
    SHAPE = "shape"
    DTYPE = "dtype"
    MISSING_GROUP = "missing_group"
    CYCLE_COLLECTIVE = "cycle_collective"
    CYCLE_P2P = "cycle_p2p"
    CYCLE_CREDIT = "cycle_credit"
    UNMATCHED_P2P = "unmatched_p2p"
    DATALOADER_WORKER = "dataloader_worker"
    STOPPED = "stopped"
    KILLED = "killed"
    SEGFAULT = "segfault"
    EXCEPTION = "exception"
    THREAD_DIED = "thread_died"
    MAIN_EXITED = "main_exited"
    SWALLOWED_EXCEPTION = "swallowed_exception"
    SLEEP = "sleep"
    LOCK = "lock"
    CPU_LOOP = "cpu_loop"
    GC = "gc"
    FILE_READ = "file_read"
    SUBPROCESS = "subprocess"
    STORE_WAIT = "store_wait"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    CHECKPOINT_IO = "checkpoint_io"
    COMPILE = "compile"
    SLOW_RANK = "slow_rank"
    SLOW_PERIODIC = "slow_periodic"
    SLOW_LINK = "slow_link"
    LINK_DOWN = "link_down"
    HOST_DOWN = "host_down"
    DEVICE_STALL = "device_stall"
    VERSION_SKEW = "version_skew"
    BIT_FLIP = "bit_flip"
    REPLICA_DRIFT = "replica_drift"
    BAD_DATA = "bad_data"
    EDGE_WITHOUT_TENSOR = "edge_without_tensor"
    CORRUPT_FILE = "corrupt_file"
    NONE = "none"
    UNKNOWN = "unknown"
