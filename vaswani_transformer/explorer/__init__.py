"""`vaswani explore`: a web page that shows each part of the paper at work on a sentence of your choice.

app.py, server.py     the web application: validates requests and sends responses
runs.py               runs the model, at most twice at a time, and stores the latest runs
responses.py          builds the responses, with measures.py (roles of heads) and parts.py (parameter counts)
checkpoints.py        loads the checkpoints that the page offers
export.py             writes the page for a file server, with engine.py (what the engine in the browser reads)
page/                 HTML, CSS and JavaScript for the browser; page/engine/ is the model in JavaScript
"""
