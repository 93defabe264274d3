"""`vaswani serve`: translations for other programs, by LibreTranslate's API, and a page to type into.

app.py            the addresses, what they take and what they answer
asked.py          a request's fields, from JSON or a form, and who may ask
queue.py          the texts of many requests, translated together
translators.py    a pipeline for each pair of languages, and which language a text is in
documents.py      whole documents, by way of the same queue; files to download
guard.py          what is refused before it is read
metrics.py        what Prometheus collects
page/             the page at /
"""
