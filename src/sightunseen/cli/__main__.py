"""``python -m sightunseen.cli``."""

import sys

from sightunseen.cli import main

sys.exit(main())
