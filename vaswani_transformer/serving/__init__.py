"""`vaswani serve`: translations for other programs with LibreTranslate's API, and a page to type into.

app.py            the endpoints, with their requests and responses
requests.py       the fields of a request, from JSON or a form, and the API key
queue.py          the texts of many requests, translated together
workers.py        the processes that translate
languages.py      the language pairs, and the detection of a text's language
pivot.py          translations in two steps, through English
documents.py      the processes that parse documents, whose texts are translated through the same queue
downloads.py      translated files until they are downloaded
guard.py          requests that are rejected before they are read
rates.py          the number of requests in a minute
metrics.py        the metrics for Prometheus
server.py         the server's life: a socket, limits of connections, signals
page/             the page at /
"""
