"""RoBERTa: an encoder with learned positions and a norm behind each addition, trained to name hidden tokens."""
