"""Looking inside a translation.

inspection.py        every tensor of a translation, and the search that found it
search_record.py     what a beam search considered at each step
heads.py             the model without some of its attention heads
readable.py          tokens as a reader sees them
attention_figure.py  attention drawn as SVG
"""
