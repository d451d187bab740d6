"""What to ask the crowd next, and whom.

    beliefs    what a published run believes of items and annotators
    batch      the questions of largest expected gain that do not ask for the same thing over and over
    search     the best question of a query, by branch and bound (`frontier`) over boxes (`trees`)
    tasks      the table of questions with their reasons
    play       the whole loop against a simulated crowd; `refit` is its batch fit

What a question is worth is in `kernels.gain`, and what bounds it in `kernels.gain_bounds`.
"""
