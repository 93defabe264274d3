"""The model: everything that travels to a Hub repository, and nothing else.

transformers copies these files flat into a saved folder, and runs them where this package is not installed. They
therefore import only each other, relatively, and transformers. A model's `save_pretrained` copies the files of the
first four groups, except for `tokenization_vaswani.py`, which travels with a `VaswaniTokenizer`. A pipeline's
`save_pretrained` and `vaswani publish` add the files for texts.

The paper:

    configuration_vaswani.py   sizes and variants, with the presets of Table 3
    modeling_vaswani.py        encoder, decoder and the whole model (section 3)
    attention_vaswani.py       masks, caches and kernels of attention (equation 1)
    loss_vaswani.py            label-smoothed cross-entropy (section 5.4)
    tokenization_vaswani.py    a tokenizer whose two languages have a vocabulary each

What transformers expects:

    pretrained_vaswani.py      initial weights, loading, saving, resizing the vocabularies

The search:

    generation_vaswani.py      `generate`: the paper's settings and length limit, and what it returns
    settings_vaswani.py        settings, their checks, and limits of length
    beam_search_vaswani.py     beam search with the length penalty (section 6.1)
    greedy_search_vaswani.py   greedy search and sampling
    constraints_vaswani.py     beam search for translations that contain required words
    shortlist_vaswani.py       a softmax over likely translations of the source words
    decoding_vaswani.py        the decoder, one token at a time

Fast on a CPU:

    cpu_vaswani.py             products and dropout that are faster on CPUs
    int8_vaswani.py            weights in int8

Texts:

    pipeline_translation.py    `pipeline("translation")`: options, texts, planned batches
    hooks_vaswani.py           one batch of sentences: preprocess, forward, postprocess
    texts_vaswani.py           texts of any length, translated sentence by sentence, checked and reassembled
    sentences_vaswani.py       sentences and clauses of a text
    spans_vaswani.py           words of a text, and replaced words
    items_vaswani.py           items of a text that are copied, such as URLs and placeholders
    capitals_vaswani.py        texts in capitals
    punctuation_vaswani.py     the last mark of a translation, and French spaces
    titles_vaswani.py          headings In Title Case
    checks_vaswani.py          signs that a translation is wrong
    numbers_vaswani.py         numbers, times and dates of a text, as its language writes them
    number_forms_vaswani.py    how a language writes a number, for copies and retries
    glossary_vaswani.py        words that must be translated in a given way
    lemmas_vaswani.py          inflected forms of words, for the glossary
    languages_vaswani.py       texts that are not in the model's source language
    forced_vaswani.py          log-probabilities of given translations, and pairs of texts in batches
    alignment_vaswani.py       which word translates which
    confidence_vaswani.py      how likely each word is to be right
"""
