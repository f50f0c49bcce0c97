import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

TOPICS = ("roads", "schools", "water", "parks")


def invent(count=1200, length=700, seed=2):
    """Minutes of a town council, long ones, each on one topic."""
    dice = random.Random(seed)
    sounds = ["ba", "ko", "ri", "tem", "lus", "na", "or", "pi", "sha", "ver", "dun", "gel"]
    words = ["".join(dice.choices(sounds, k=dice.randint(1, 4))) for _ in range(1500)]
    texts, topics = [], []
    for _ in range(count):
        topic = dice.randrange(len(TOPICS))
        text = dice.choices(words[: 1200], k=length)
        for place in range(0, length, 6):
            text[place] = dice.choice(words[1200 + 75 * topic:1275 + 75 * topic])
        texts.append(" ".join(text).capitalize() + ".")
        topics.append(topic)
    return texts, topics


def learn_tokenizer(texts, size=800):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(texts[:200], trainers.BpeTrainer(
        vocab_size=size, special_tokens=["[PAD]", "[UNK]"], show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


class Minutes(Dataset):
    def __init__(self, texts, topics, tokenizer, length=40):
        self.topics = topics
        self.items = tokenizer(texts, truncation=True, max_length=length, padding="max_length")

    def __len__(self):
        return len(self.topics)

    def __getitem__(self, index):
        item = {name: values[index] for name, values in self.items.items()}
        item["labels"] = self.topics[index]
        return item
