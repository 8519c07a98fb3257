"""A small ablation on a Ray cluster.

    python clustered_ablation.py FOLDER ADDRESS

A program of its own, as for a user: what connects to a cluster is a fresh process.
"""

import sys
from pathlib import Path

from interrupted_ablation import SMALL

from lafr_mjx.commands.ablate import Ablate

METHODS = ("ours", "lotf", "baseline")

if __name__ == "__main__":
    many = SMALL | {"methods": METHODS, "devices": None}
    Ablate(out=Path(sys.argv[1]), ray=sys.argv[2], **many).run()
