"""Class vectors: text encoders, class descriptions and the scaling of attributes."""
