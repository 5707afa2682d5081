"""Foresight: kernel ridge regression from class vectors to class means, and linear discriminant analysis."""
