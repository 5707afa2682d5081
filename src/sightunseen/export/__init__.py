"""Models for the world outside of Python."""
