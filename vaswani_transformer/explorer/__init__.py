"""`vaswani explore`: a web page that shows every part of the paper at work on a sentence of your own.

app.py, server.py     the web application: validates requests and sends responses
runs.py               runs the model, at most twice at a time, and keeps the latest runs
responses.py          builds the responses, with measures.py (what a head does) and parts.py (the parameters)
checkpoints.py        the checkpoints to choose from
export.py             writes the static copy
page/                 the HTML, CSS and JavaScript in the browser
"""
