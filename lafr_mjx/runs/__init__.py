"""Run folders: what a run leaves on the disk, and how it goes on."""
