"""An adaptation as a job: settings, flights, run folder; one, or several side by side."""
