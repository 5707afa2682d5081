"""Comparison of methods under one protocol: plans, their jobs, stored outcomes and result tables.

Reading outcomes and printing tables does not import torch.
"""
