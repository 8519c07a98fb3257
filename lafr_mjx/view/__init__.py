"""Looking at runs: figures, videos, the MuJoCo viewer, the web view."""
