"""Pages that show what a model, or a benchmark, has learned: one HTML file each, which needs no network."""
