"""Plain data, files and numbers that every layer shares; none of it imports torch."""
