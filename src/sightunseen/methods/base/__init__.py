"""Base classes of all methods: the estimator interface and its optional capabilities."""
