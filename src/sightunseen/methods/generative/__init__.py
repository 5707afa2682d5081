"""Generative methods: synthesise image features of unseen classes and train a classifier on them."""
