"""Optimizers and schedulers of a release, and the parameters each takes."""
def optimizers(parser): return {}
def schedulers(parser): return {}
