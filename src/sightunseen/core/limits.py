"""Limits on the size, number and length of what is read: one table, listed in ``docs/reliability.md``.

Input beyond a limit is refused with an error that names the limit. The limits are far above real use; they exist so that
damaged or hostile input ends in an error instead of exhausting memory or time. Limits of requests to the server are in
:mod:`sightunseen.serve.limits`.
"""

MESSAGE_LENGTH = 500  # characters of an error message on the command line
QUOTED_LENGTH = 60  # characters of a value from the input that an error message repeats

DOCUMENT_BYTES = 64 << 20  # a JSON or TOML file: model.json, record.json, job outcomes, plans, class files
NESTING = 64  # levels of lists and tables in a JSON or TOML file

FOLDS = 1_000  # class folds of a selection
SEEDS = 10_000  # seeds of a plan, or models of one training run
JOBS = 1_000_000  # jobs of a plan
COMBINATIONS = 100_000  # combinations of hyperparameters of one search

LABEL_LENGTH = 1_000  # characters of a class label or an attribute name
MAGNITUDE = 1e30  # largest absolute value of a feature or an attribute: its square must be finite in single precision
