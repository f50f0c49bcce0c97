import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import RobertaConfig, RobertaForSequenceClassification


class Notes(Dataset):
    """Notes of night nurses, and whether somebody should look at them at once."""

    def __init__(self, count=1500, length=32, words=500):
        self.text = torch.randint(3, words, (count, length))
        self.urgent = (self.text < 40).any(1).long()

    def __len__(self):
        return len(self.urgent)

    def __getitem__(self, index):
        return {"text": self.text[index], "labels": self.urgent[index]}


class Prompted(nn.Module):
    """Prompt tuning: only a few vectors in front of the text are learnt, and the head."""

    def __init__(self, words=500, width=192, prompts=8):
        super().__init__()
        self.body = RobertaForSequenceClassification(RobertaConfig(
            vocab_size=words, hidden_size=width, num_hidden_layers=3, num_attention_heads=4, intermediate_size=4 * width,
            max_position_embeddings=64, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        ))
        self.body.roberta.requires_grad_(False)
        self.prompt = nn.Parameter(0.02 * torch.randn(prompts, width))

    def forward(self, text, labels):
        words = self.body.get_input_embeddings()(text)
        front = self.prompt.expand(len(text), -1, -1)
        return self.body(inputs_embeds=torch.cat([front, words], 1), labels=labels)
