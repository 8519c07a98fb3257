"""The method: base policy, policy learning on the hybrid model, time scaling, the loop."""
