"""Numerics that several methods share."""
