"""The commands of `python -m lafr_mjx.hil`."""
