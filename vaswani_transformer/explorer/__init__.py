"""`vaswani explore`: a web page that shows each part of the paper at work on a sentence of your choice.

app.py, server.py     the web application: validates requests and sends responses
runs.py               runs the model, at most twice at a time, and stores the latest runs
responses.py          builds the responses, with measures.py (roles of heads) and parts.py (parameter counts)
checkpoints.py        loads the checkpoints that the page offers
export.py             writes the static copy
page/                 HTML, CSS and JavaScript for the browser
"""
