"""Text or images in, samples out: tokenizers, indexed files, blends, order, evaluation sets and the loader of a rank.

A floor-1 room: numpy and the standard library; the package `tokenizers` only to read a tokenizer.json, Pillow only to
read image files.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.data._augment import Augment
    from emberward.data._batch import Batch
    from emberward.data._blend import Blend
    from emberward.data._evaluate import EvalPlan, EvalSet, eval_batches, open_eval
    from emberward.data._image_folder import MODES, Decoding
    from emberward.data._image_form import ImageBatch, ImageForm
    from emberward.data._image_train import ImageEval, ImageTrain, open_image_eval, open_image_train, require_form
    from emberward.data._indexed import IndexedReader, IndexedWriter
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
    from emberward.data._masked import MaskedBatch, MaskedText, Masking
    from emberward.data._order import SampleOrigin
    from emberward.data._prepare import prepare, prepare_image_sets
    from emberward.data._progress import Progress
    from emberward.data._tokenizer import (
        ByteTokenizer,
        HuggingFaceTokenizer,
        Tokenizer,
        TokenizerIdentity,
        TokenizerKind,
        open_tokenizer,
    )
    from emberward.data._tokenizer_files import hugging_face_files
    from emberward.data._train import TrainData, open_train, step_indices
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "MODES",
    "Augment",
    "Batch",
    "Blend",
    "ByteTokenizer",
    "Decoding",
    "DigestMethod",
    "EvalPlan",
    "EvalSet",
    "FileRecord",
    "HuggingFaceTokenizer",
    "ImageBatch",
    "ImageEval",
    "ImageForm",
    "ImageTrain",
    "IndexedReader",
    "IndexedWriter",
    "Manifest",
    "MaskedBatch",
    "MaskedText",
    "Masking",
    "Progress",
    "SampleOrigin",
    "Stream",
    "Tokenizer",
    "TokenizerIdentity",
    "TokenizerKind",
    "TrainData",
    "eval_batches",
    "hugging_face_files",
    "open_eval",
    "open_image_eval",
    "open_image_train",
    "open_tokenizer",
    "open_train",
    "prepare",
    "prepare_image_sets",
    "read_manifest",
    "require_form",
    "require_same_data",
    "step_indices",
    "verify_manifest",
    "write_manifest",
]
