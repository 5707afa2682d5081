"""A model behind a page and an HTTP API: photos or features in, ranked classes out, new classes by describing them."""
