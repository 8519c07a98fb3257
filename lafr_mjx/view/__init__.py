"""Looking at runs: figures."""
