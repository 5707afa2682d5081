"""Tiles of tables, the order of models, and sums that the last program finishes."""

import triton
import triton.language as tl


@triton.jit
def rows_of(table, first_row, i, k, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Load a tile (i, k) of a table with rows of this width."""
    at = (first_row + i)[:, None] * WIDTH + k[None, :]
    return tl.load(table + at, mask=(i < COUNT)[:, None] & (k < WIDTH)[None, :], other=0.0)


@triton.jit
def chosen_rows_of(table, rows, model, i, k, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Load a tile (i, k) of the rows that a batch selects."""
    row = tl.load(rows + model * COUNT + i, mask=i < COUNT, other=0)
    return tl.load(table + row[:, None] * WIDTH + k[None, :], mask=(i < COUNT)[:, None] & (k < WIDTH)[None, :], other=0.0)


@triton.jit
def model_of(position, models, REVERSED: tl.constexpr):
    """Model of a program; alternating directions, as the weights that are accessed last are still in the cache."""
    return (models - 1 - position if REVERSED else position).to(tl.int64)


@triton.jit
def is_last(arrivals, PROGRAMS: tl.constexpr):
    """Whether this is the last of the programs that count their arrival here; it sees what the others stored before."""
    tl.debug_barrier()  # the stores of all threads come before the count
    last = tl.atomic_add(arrivals, 1) == PROGRAMS - 1
    if last:
        tl.store(arrivals, 0)  # for the next step
    return last
