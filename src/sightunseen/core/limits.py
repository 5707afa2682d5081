"""Limits on the size, number and length of what is read: one table, listed in ``docs/reliability.md``.

Input beyond a limit is refused with an error that names the limit. The limits are far above real use; they exist so that
damaged or hostile input ends in an error instead of exhausting memory or time. Limits of requests to the server are in
:mod:`sightunseen.serve.limits`.
"""

MESSAGE_LENGTH = 500  # characters of an error message on the command line
QUOTED_LENGTH = 60  # characters of a value from the input that an error message repeats

DOCUMENT_BYTES = 64 << 20  # a JSON or TOML file: model.json, record.json, job outcomes, plans, class files
DOCUMENT_VALUES = 4_000_000  # values in such a file: separators and opening brackets are counted before it is parsed
NESTING = 64  # levels of lists and tables in a JSON or TOML file

FOLDS = 1_000  # class folds of a selection
SEEDS = 10_000  # seeds of a plan, or models of one training run
JOBS = 100_000  # jobs of a plan
WORKERS = 256  # jobs that run at the same time
PLAN_BYTES = 256 << 10  # a plan
PLAN_DOTS = 1_000  # dots of a line of a plan: a TOML parser takes quadratic time for dotted keys
COMBINATIONS = 100_000  # combinations of hyperparameters of one search

CLASSES = 2_000_000  # classes of a model
SIZE = 65_536  # units of a layer, images or classes of a batch
NEIGHBOURS = 1_000  # nearest neighbours of an image in label propagation
SYNTHESISED = 10_000  # features that a generative method synthesises per class
CLASSIFIER_STEPS = 20_000  # steps of the final classifier of a generative method, trained again if classes were added
WHITENED_SIZE = 8_192  # features, or images if they are fewer, of a covariance that is decomposed to whiten features
FEATURES = 10_000_000  # features of an image, or attributes of a class
LABEL_LENGTH = 1_000  # characters of a class label or an attribute name
DESCRIPTION_LENGTH = 1_000_000  # characters of the description of a class in a file
MODEL_TEXT_LENGTH = 8_000_000  # characters of all descriptions that are saved with a model; longer ones are left out
PATH_LENGTH = 4_096  # characters of the path or name of an image
SIDECAR_BYTES = 1 << 20  # a header of a tar archive, or the member that holds the label of a photo
PHOTO_SIDE = 4_096  # height and width of the photos that a backbone takes
MAGNITUDE = 1e15  # largest absolute value of a feature or an attribute: sums of squares must be finite in single precision
LARGEST = 1e38  # largest absolute value of a weight or a hyperparameter of a model: finite in single precision
EXPANSION = 100  # size of data in memory by the size of their file, beyond EXPANDED_BYTES
EXPANDED_BYTES = 512 << 20

COUNT = 1_000_000  # any other count on the command line: answers per image, photos per class
WHOLE = 2**32 - 1  # largest whole number of a hyperparameter
SEED = 2**63 - 1  # largest seed of a model
VALUE_LENGTH = 1_000  # characters of the value of a hyperparameter on the command line
