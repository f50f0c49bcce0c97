"""A small byte-pair tokenizer."""
import random
import re
from collections import Counter

WORD = re.compile(r"\s?\w+|[^\w\s]")


def corpus(documents, words, seed=0):
    rng = random.Random(seed)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    lexicon = ["".join(rng.choices(syllables, k=rng.randint(2, 5))) for _ in range(3000)]
    return [" ".join(rng.choices(lexicon, k=words)) for _ in range(documents)]


class Tokenizer:
    def __init__(self, texts, size):
        self.ranks, self.ids = {}, {}
        words = Counter(w for t in texts for w in WORD.findall(t))
        pieces = {w: list(w) for w in words}
        for char in sorted({c for w in words for c in w}):
            self.ids[char] = len(self.ids) + 1
        while len(self.ids) < size - 1:
            pairs = Counter()
            for word, parts in pieces.items():
                for pair in zip(parts, parts[1:]):
                    pairs[pair] += words[word]
            for best, _ in pairs.most_common(16):
                self.ranks[best] = len(self.ranks)
                self.ids.setdefault("".join(best), len(self.ids) + 1)
            pieces = {w: self.merge(list(w)) for w in words}
        self.size = size

    def merge(self, parts):
        while len(parts) > 1:
            ranked = [(self.ranks.get(pair, 1 << 30), i) for i, pair in enumerate(zip(parts, parts[1:]))]
            rank, at = min(ranked)
            if rank == 1 << 30:
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        return parts

    def encode(self, text):
        ids = []
        for word in WORD.findall(text):
            ids.extend(self.ids.get(p, 0) % self.size for p in self.merge(list(word)))
        return ids
