"""Llama 2 and 3: a decoder with rotary positions, grouped queries, a gated feed-forward layer and RMS norms."""
