"""`vaswani explore`: a page on which a reader of the paper sees a checkpoint at work on a sentence of their own.

    app.py, server.py     requests in, answers out; what is refused
    runs.py               makes the runs, two at once at most, and keeps the last ones
    answers.py            what the answers hold: measures.py (what a head does), parts.py (where the parameters are)
    opened.py             the checkpoints that can be chosen
    export.py             the static copy
    page/                 what the browser shows

.. include:: README.md
"""
