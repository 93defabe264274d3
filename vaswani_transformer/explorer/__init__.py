"""`vaswani explore`: a page on which a reader of the paper sees a checkpoint at work on a sentence of their own.

`app` answers the page's requests, `answers` says what the answers hold, `page` is what the browser shows.
"""
