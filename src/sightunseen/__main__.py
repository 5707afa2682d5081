"""``python -m sightunseen``: the command line."""

import sys

from sightunseen.cli import main

sys.exit(main())
