"""Data structures, metrics, files and errors that every other package uses; nothing here imports torch."""
