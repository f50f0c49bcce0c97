"""BLOOM: a decoder with ALiBi, a norm behind the embedding and a tied head (Le Scao et al. 2022)."""
