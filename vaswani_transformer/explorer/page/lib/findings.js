// Written by `python -m experiments report`.
export const FACTS = {
  "table3": [
    [
      "Rows of Table 3 whose effect has the paper's direction",
      "11 of 18"
    ],
    [
      "Rows of Table 3 whose effect has the opposite direction",
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
      "Loss added without warm-up",
      "post-norm 0.27 nats, pre-norm 0.10 nats"
    ],
    [
      "Post-norm loses more without warm-up",
      "yes: difference +0.170 (+0.074 to +0.266)"
    ],
    [
      "First gradient of the decoder's last layer, relative to its first layer",
      "post-norm 3.7 times, pre-norm 0.7 times"
    ]
  ],
  "length": [
    [
      "Sinusoids extrapolate better than learned positions",
      "cannot be resolved"
    ],
    [
      "Loss of learned positions minus that of sinusoids, pairs of over 100 tokens",
      "−0.107 (−0.233 to +0.018) nats"
    ],
    [
      "Words in translations of pairs of over 100 tokens, after training to 40 tokens",
      "31% to 48% of the reference's"
    ]
  ],
  "heads": [
    [
      "Heads that can be removed together before the loss has risen by 0.05 nats",
      "at least 7 of 40"
    ],
    [
      "The most needed head is a cross-attention head",
      "in 4 of 4 checkpoints"
    ],
    [
      "It is also the head that aligns best",
      "in 4 of 4 checkpoints"
    ]
  ],
  "alignment": [
    [
      "The head that aligns best",
      "layer 1, head 2, at the step that reads the word, in 6 of 6 checkpoints"
    ],
    [
      "It has a lower error rate than eflomal, a statistical aligner",
      "in 3 of 6 checkpoints; in 3 of these the intervals overlap"
    ]
  ],
  "layers": [
    [
      "Up to n = d, attention is faster than an LSTM",
      "at every width"
    ],
    [
      "It is faster with the plain formula",
      "up to at least n = 2.5 d"
    ],
    [
      "It is faster with a fused kernel",
      "up to at least n = 3.9 d"
    ]
  ],
  "optimisers": [
    [
      "Tokens that other optimisers need to reach the final loss of the paper's Adam",
      "69% with Muon, cooled down; 77% with Muon, equation 3; 83% with Schedule-Free AdamW; 95% with Adam, equation 3, averaged; never with Adam, cooled down"
    ]
  ]
};
