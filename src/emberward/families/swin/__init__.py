"""Swin: image classification by attention in shifted windows (Liu et al. 2021)."""
