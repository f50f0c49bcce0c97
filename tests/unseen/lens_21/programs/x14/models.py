import torch
from transformers import GPT2Config, GPT2LMHeadModel


def language_model(width, layers):
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=120, n_positions=48, n_embd=width, n_layer=layers, n_head=4, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    ))


def answers(student, prompts, length=6):
    """What the student says to the prompts, and where its own words stand."""
    student.eval()
    with torch.no_grad():
        said = student.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=length,
                                min_new_tokens=length, do_sample=True, top_k=0, pad_token_id=0)
    student.train()
    return said, slice(prompts.shape[1] - 1, said.shape[1] - 1)
