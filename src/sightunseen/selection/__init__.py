"""Choosing hyperparameters on validation classes, and measuring models."""
