"""What the learner believes: the nominal CTBR model plus a learned residual. Never the plant."""
