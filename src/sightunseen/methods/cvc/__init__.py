"""Conditional visual classification (Li, Min & Fu, ICCV 2019): the paper's method, equation by equation."""
