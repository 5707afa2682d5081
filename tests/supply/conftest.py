import sys
from pathlib import Path

# The scripts of a release are modules of the repository, not of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
