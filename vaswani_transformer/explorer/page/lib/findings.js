// Written by `python -m experiments report`.
export const FACTS = {
  "table3": [
    [
      "Rows of Table 3 whose effect has the paper's direction",
      "11 of 18"
    ],
    [
      "Rows of Table 3 whose effect has the other one",
      "3 of 18"
    ],
    [
      "Rows of Table 3 whose effect cannot be resolved",
      "4 of 18"
    ],
    [
      "Changes beyond the paper that lower the loss",
      "LayerNorm before each sub-layer; LayerNorm before, twice the rate; LayerNorm before, and no warm-up; three embedding matrices"
    ],
    [
      "Changes beyond the paper that raise the loss",
      "no warm-up; no division by sqrt(d_k); Q, K and V initialised separately"
    ]
  ],
  "warmup": [
    [
      "Loss added without warm-up, LayerNorm after",
      "0.27 nats"
    ],
    [
      "Loss added without warm-up, LayerNorm before",
      "0.10 nats"
    ],
    [
      "First gradient, last decoder layer to first, LayerNorm after",
      "3.7 times"
    ],
    [
      "First gradient, last decoder layer to first, LayerNorm before",
      "0.7 times"
    ]
  ],
  "length": [
    [
      "Sinusoids extrapolate better than learned positions",
      "cannot be resolved"
    ],
    [
      "Words in translations of pairs of over 100 tokens, after training to 40 tokens",
      "31% to 48% of the reference's"
    ]
  ],
  "heads": [
    [
      "Heads that can be removed together (loss + 0.05 nats)",
      "at least 7 of 40"
    ],
    [
      "The most needed head is a cross-attention head",
      "in 4 of 4 checkpoints"
    ]
  ],
  "alignment": [
    [
      "The head that aligns best",
      "layer 1, head 2, at the step that reads the word, in 5 of 6 checkpoints"
    ],
    [
      "It has a lower error rate than eflomal",
      "in 4 of 6 checkpoints"
    ]
  ],
  "layers": [
    [
      "Attention is faster than an LSTM, by the formula",
      "up to at least n = 2.5 d"
    ],
    [
      "The same, with a fused kernel",
      "up to at least n = 3.9 d"
    ]
  ],
  "optimisers": [
    [
      "Final loss of the paper's Adam, with Adam, cooled down",
      "not reached"
    ],
    [
      "Final loss of the paper's Adam, with Muon, equation 3",
      "after 77% of its tokens"
    ],
    [
      "Final loss of the paper's Adam, with Muon, cooled down",
      "after 69% of its tokens"
    ],
    [
      "Final loss of the paper's Adam, with Schedule-Free AdamW",
      "after 83% of its tokens"
    ],
    [
      "Final loss of the paper's Adam, with Adam, equation 3, averaged",
      "after 95% of its tokens"
    ]
  ]
};
