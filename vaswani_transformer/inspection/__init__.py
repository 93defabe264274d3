"""Looking inside a translation.

inspection.py        every tensor of a translation, and its search
search_trace.py      the candidates of a beam search at each step
heads.py             the model without some of its attention heads
token_text.py        the text of tokens, for display
attention_figure.py  attention drawn as SVG
alignment_head.py    the head that aligns words, chosen by copied words; anchor_lines.tsv has the lines
"""
