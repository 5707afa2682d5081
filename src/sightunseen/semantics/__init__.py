"""Class vectors: from what users have to what a generator reads."""
