"""Many jobs: here, over processes or over a cluster, with one display of their progress."""
