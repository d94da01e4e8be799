"""Will it fit: model shapes, GPU and link tables, the memory predictor, the recommender.

Nothing here is imported unless a model is named or an estimate is asked for. Neither torch nor
transformers is needed: shapes are data and arithmetic.
"""
