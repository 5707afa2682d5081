"""Foresight: the default method, in closed form."""
