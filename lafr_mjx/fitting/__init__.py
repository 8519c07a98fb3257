"""Models from recorded flights: what is fitted, and how it is reported."""
