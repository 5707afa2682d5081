"""Select hyperparameters on validation classes, and evaluate models."""
