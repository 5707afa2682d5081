"""Feature extraction: backbones, caching and files of features."""
