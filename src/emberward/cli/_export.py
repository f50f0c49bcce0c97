"""What Hugging Face must be told of a model that was trained here."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward import checkpoint
from emberward.data import HuggingFaceTokenizer, hugging_face_files, open_tokenizer, read_manifest
from emberward.families import find_family, model_of
from emberward.findings import ConfigError
from emberward.layout import DataKind, Sample
from emberward.recipe import read_resolved
from emberward.report import RunFolder, read_json


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceModel:
    """The ``config.json`` of a model, the files of its tokenizer and a text to continue, both empty for images.

    `family` is the one by whose rules its tensors are renamed; None: they have transformers' names already.
    """

    config: dict[str, Any]
    sample: Sample
    tokenizer: dict[str, bytes]
    prompt: str
    family: str | None

    def program(self, folder: Path) -> str:
        """Python that loads the exported model from `folder` and continues the prompt, names its last token, or scores
        an image."""
        where, prompt = (json.dumps(text, ensure_ascii=False) for text in (str(folder), self.prompt))
        if self.sample.kind is DataKind.IMAGES:
            return (
                "import torch\nfrom transformers import AutoModelForImageClassification\n"
                f"model = AutoModelForImageClassification.from_pretrained({where})\n"
                f"print(model(torch.zeros(1, {', '.join(map(str, self.sample.input_shape))})).logits)"
            )
        if self.sample.kind is DataKind.MASKED_TOKENS:
            return (
                "from transformers import AutoModelForMaskedLM, AutoTokenizer\n"
                f"tokenizer = AutoTokenizer.from_pretrained({where})\n"
                f"model = AutoModelForMaskedLM.from_pretrained({where})\n"
                f'tokens = tokenizer({prompt}, return_tensors="pt")\n'
                f'tokens["input_ids"][0, -1] = {self.sample.mask_id}\n'
                "print(tokenizer.decode(model(**tokens).logits[0, -1].argmax()))"
            )
        return (
            "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
            f"tokenizer = AutoTokenizer.from_pretrained({where})\n"
            f"model = AutoModelForCausalLM.from_pretrained({where})\n"
            f'tokens = tokenizer({prompt}, return_tensors="pt")\n'
            "print(tokenizer.decode(model.generate(**tokens, max_new_tokens=100)[0]))"
        )


def model_of_run(save: Path) -> HuggingFaceModel:
    """What transformers needs beside the weights of a save of a run. Reads the run's recipe, no tensor.

    Raises EmberwardError K102 for a model that transformers cannot express, and ConfigError D102 when the tokenizer's
    file is no longer the one that the run was trained with.
    """
    run = RunFolder(path=save.parent.parent)
    recipe = read_resolved(run.config).recipe
    family, sample = recipe.model.family, model_of(recipe.model).sample
    rules = family if family in checkpoint.family_names() else None
    if sample.kind is DataKind.IMAGES:
        config = find_family(family).hf_config(recipe.model, eod=None)
        return HuggingFaceModel(config=config, sample=sample, tokenizer={}, prompt="", family=rules)
    tokenizer = open_tokenizer(recipe.data.tokenizer)
    if isinstance(tokenizer, HuggingFaceTokenizer):
        _require_same(tokenizer, run)
    return HuggingFaceModel(
        config=find_family(family).hf_config(recipe.model, eod=tokenizer.eod),
        sample=sample,
        tokenizer=hugging_face_files(tokenizer),
        prompt=recipe.sample_prompt or " ",
        family=rules,
    )


def _require_same(tokenizer: HuggingFaceTokenizer, run: RunFolder) -> None:
    manifest = (read_json(run.data) or {}).get("manifest")
    if not isinstance(manifest, str) or not Path(manifest).is_file():
        return
    used = read_manifest(Path(manifest)).tokenizer
    trained = None if used is None else used.sha256
    if trained != tokenizer.identity.sha256:
        raise ConfigError(
            "the tokenizer is not the one that the run was trained with",
            code="D102",
            where=tokenizer.identity.name,
            expected=f"sha256 {trained}",
            found=f"sha256 {tokenizer.identity.sha256}",
            next="put the old file back, then export again",
        )
