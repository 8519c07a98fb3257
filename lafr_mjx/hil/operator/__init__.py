"""The operator's side: processes of a flight, the learner, what is flown."""
