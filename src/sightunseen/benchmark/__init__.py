"""One honest benchmark: plans in, records of jobs out, tables of both. Reading records needs no torch."""
