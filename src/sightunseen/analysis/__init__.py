"""Analyses of a fitted model on a set of images, as plain numbers: what a report draws."""
