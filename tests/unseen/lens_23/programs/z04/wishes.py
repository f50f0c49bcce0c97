import random

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

SHOPS = {"baker": "bread rolls cake", "smith": "knife gate hook", "florist": "roses tulips moss", "grocer": "apples rice tea"}
FILLERS = "please bring me two of the best and some more for the day after tomorrow if there is any left".split()


class Wishes(Dataset):
    """Short wishes of customers, new words at each look, and the shop that can fulfil them."""

    def __init__(self, count=4000, words=12):
        self.count, self.words, self.shops = count, words, list(SHOPS)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        chance = random.Random(index)
        shop = chance.randrange(len(self.shops))
        words = chance.choices(FILLERS, k=self.words)
        words[chance.randrange(self.words)] = chance.choice(SHOPS[self.shops[shop]].split())
        return " ".join(words), shop


def tokens_of(wishes):
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=["<unk>", "<pad>"], show_progress=False)
    tokenizer.train_from_iterator((wishes[place][0] for place in range(500)), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>")


def collator(tokenizer, longest=16):
    def collate(items):
        wishes, shops = zip(*items)
        batch = tokenizer(list(wishes), truncation=True, max_length=longest, padding=True, return_tensors="pt", return_token_type_ids=False)
        return {**batch, "labels": batch["input_ids"].new_tensor(shops)}
    return collate
