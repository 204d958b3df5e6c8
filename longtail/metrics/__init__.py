"""How good: metrics of ranked labels, propensities, label-frequency bins, intervals and the printed summary."""
