"""Web page and HTTP API of a model: predict photos or features, add and remove classes, add examples."""
