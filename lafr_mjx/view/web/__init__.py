"""The web view: a replay in a browser, for machines without a screen."""
