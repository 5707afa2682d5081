"""Conditional visual classification (Li, Min & Fu, ICCV 2019): the method of the paper, one module per set of equations."""
