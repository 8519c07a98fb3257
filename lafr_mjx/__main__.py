"""`python -m lafr_mjx` is `lafr-mjx`."""

from lafr_mjx.cli import main

main()
