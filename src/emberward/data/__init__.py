"""Text in, samples out: tokenizers, indexed files, blends, order, evaluation sets and the loader of a rank.

A floor-1 room: numpy and the standard library; the package `tokenizers` only to read a tokenizer.json.
"""

from emberward.data._batch import Batch
from emberward.data._blend import Blend
from emberward.data._evaluate import EvalPlan, EvalSet, eval_batches, open_eval
from emberward.data._indexed import IndexedReader, IndexedWriter
from emberward.data._loader import PrefetchLoader
from emberward.data._manifest import (
    DigestMethod,
    FileRecord,
    Manifest,
    Stream,
    read_manifest,
    require_same_data,
    verify_manifest,
    write_manifest,
)
from emberward.data._prepare import prepare
from emberward.data._progress import Progress
from emberward.data._tokenizer import (
    ByteTokenizer,
    HuggingFaceTokenizer,
    Tokenizer,
    TokenizerIdentity,
    TokenizerKind,
    open_tokenizer,
)
from emberward.data._train import SampleOrigin, TrainData, open_train, step_indices

__all__ = [
    "Batch",
    "Blend",
    "ByteTokenizer",
    "DigestMethod",
    "EvalPlan",
    "EvalSet",
    "FileRecord",
    "HuggingFaceTokenizer",
    "IndexedReader",
    "IndexedWriter",
    "Manifest",
    "PrefetchLoader",
    "Progress",
    "SampleOrigin",
    "Stream",
    "Tokenizer",
    "TokenizerIdentity",
    "TokenizerKind",
    "TrainData",
    "eval_batches",
    "open_eval",
    "open_tokenizer",
    "open_train",
    "prepare",
    "read_manifest",
    "require_same_data",
    "step_indices",
    "verify_manifest",
    "write_manifest",
]
