// Byte-level byte-pair encoding (section 5.1), read from the tokenizer.json of a checkpoint that was trained here.
//
// A text passes normalizers, pre-tokenizers, which split it into words, and merges of pairs of tokens within a word. Tokens are written
// in an alphabet in which each of the 256 bytes is a visible character; "Ġ" is the space.

/** The alphabet: the character of each byte. Visible characters of Latin-1 are themselves, the others follow from U+0100 on. */
const ALPHABET = (() => {
  const isVisible = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isVisible(byte) ? byte : next++));
})();
const BYTES = new Map(ALPHABET.map((character, byte) => [character, byte]));

const SPACE = "\\p{White_Space}";
const WORDS = new RegExp(`'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^${SPACE}\\p{L}\\p{N}]+|${SPACE}+(?!\\P{White_Space})|${SPACE}+`, "gu");

/** A regular expression of the tokenizer's library (Oniguruma) in JavaScript. */
const expression = ({ Regex: source }) => new RegExp(source.replace("\\A", "^").replaceAll("\\d", "\\p{Nd}"), "gu");

// Normalizers: text -> text
const NORMALIZERS = {
  Sequence: ({ normalizers }) => chain(normalizers.map((part) => build(NORMALIZERS, part))),
  Replace: ({ pattern, content }) => (text) => text.replace(expression(pattern), () => content),
};

// Pre-tokenizers: words -> words
const PRE_TOKENIZERS = {
  Sequence: ({ pretokenizers }) => chain(pretokenizers.map((part) => build(PRE_TOKENIZERS, part))),
  // A word with the prefix in front, unless it has one
  Metaspace: ({ replacement }) => ([first, ...rest]) => [first.startsWith(replacement) ? first : replacement + first, ...rest],
  Split: ({ pattern, behavior }) => (words) => words.flatMap((word) => splitAt(word, expression(pattern), behavior === "Isolated")),
  ByteLevel: () => (words) => words.flatMap((word) => word.match(WORDS) ?? []).map(toAlphabet),
};

const chain = (functions) => (value) => functions.reduce((result, apply) => apply(result), value);
const build = (kinds, description) => (description ? kinds[description.type](description) : (value) => value);

/** The parts of a word between the matches of a pattern, and if `keeps` the matches, too. */
function splitAt(word, pattern, keeps) {
  const parts = [];
  let end = 0;
  for (const match of word.matchAll(pattern)) {
    parts.push(word.slice(end, match.index), keeps ? match[0] : "");
    end = match.index + match[0].length;
  }
  return [...parts, word.slice(end)].filter(Boolean);
}

const toAlphabet = (word) => Array.from(new TextEncoder().encode(word), (byte) => ALPHABET[byte]).join("");

export class Tokenizer {
  #words = new Map(); // the ids of words that were encoded before

  /** `file` is the content of tokenizer.json. */
  constructor(file) {
    this.normalize = build(NORMALIZERS, file.normalizer);
    this.preTokenize = build(PRE_TOKENIZERS, file.pre_tokenizer);
    this.ids = new Map(Object.entries(file.model.vocab));
    this.ranks = new Map(file.model.merges.map((pair, rank) => [pair.join(" "), rank]));
    this.special = new Map(file.added_tokens.filter(({ special }) => special).map(({ id, content }) => [id, content]));
    this.tokens = new Map([...this.ids].map(([token, id]) => [id, token]));
    for (const [id, content] of this.special) this.tokens.set(id, content);
    const last = file.post_processor.single.find((part) => part.SpecialToken)?.SpecialToken.id;
    this.end = file.post_processor.special_tokens[last].ids[0];
  }

  /** The ids of a text, with the end token. Text that spells a special token is ordinary text. */
  encode(text) {
    return [...this.preTokenize([this.normalize(text)]).flatMap((word) => this.#encodeWord(word)), this.end];
  }

  #encodeWord(word) {
    if (!this.#words.has(word)) this.#words.set(word, this.#merge([...word]).map((token) => this.ids.get(token)));
    return this.#words.get(word);
  }

  /** Merges pairs of neighbours, always the pair that was learnt first; of equal pairs the left one. */
  #merge(tokens) {
    for (;;) {
      let [best, place] = [Infinity, -1];
      for (let i = 0; i + 1 < tokens.length; i++) {
        const rank = this.ranks.get(`${tokens[i]} ${tokens[i + 1]}`) ?? Infinity;
        if (rank < best) [best, place] = [rank, i];
      }
      if (place < 0) return tokens;
      tokens.splice(place, 2, tokens[place] + tokens[place + 1]);
    }
  }

  /** The text of ids; `keepsSpecial` tells whether special tokens are part of it. */
  decode(ids, keepsSpecial = false) {
    const tokens = ids.filter((id) => keepsSpecial || !this.special.has(id)).map((id) => this.tokens.get(id));
    const bytes = Uint8Array.from(tokens.join(""), (character) => BYTES.get(character));
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes).replace(/^ /, "");
  }

  /** Tokens for display: {id, text, kind, unknown}. The text has a space in front if the token begins a word. */
  describe(ids) {
    return ids.map((id) => {
      if (this.special.has(id)) return { id, text: this.special.get(id), kind: "special", unknown: false };
      const token = this.tokens.get(id);
      const text = this.decode([id], true).replace(/^ +| +$/g, "") || token.replace(/^[Ġ▁]+|[Ġ▁]+$/g, "");
      return token.startsWith("Ġ") ? { id, text: ` ${text}`, kind: "word", unknown: false } : { id, text, kind: "part", unknown: false };
    });
  }
}
