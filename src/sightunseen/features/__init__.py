"""Photos in, features out."""
