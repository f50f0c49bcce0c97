"""Support tickets, made up, and the tokenizer for them."""
import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TOPICS = ["billing", "delivery", "account", "hardware"]


def make_tickets(n, words_each=150, seed=1):
    rng = random.Random(seed)
    stems = ["".join(rng.choices("aeioubcdfglmnprst", k=rng.randint(3, 9))) for _ in range(2500)]
    out = []
    for _ in range(n):
        topic = rng.randrange(len(TOPICS))
        body = " ".join(rng.choices(stems, k=words_each))
        out.append({"text": f"Dear team, my {TOPICS[topic]} problem: {body}.", "label": topic})
    return out


def make_tokenizer(tickets):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator((t["text"] for t in tickets[:200]), trainers.WordPieceTrainer(vocab_size=1200, special_tokens=["[UNK]", "[PAD]"], show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=tok, unk_token="[UNK]", pad_token="[PAD]", model_max_length=64)
