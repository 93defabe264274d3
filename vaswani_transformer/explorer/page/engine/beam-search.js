// The paper's beam search (section 6.1), with the length penalty of Wu et al. 2016, for one sentence.
//
// "We used beam search with a beam size of 4 and length penalty alpha = 0.6 [...] We set the maximum output length during inference to
// input length + 50, but terminate early when possible."
//
// A step ranks the continuations of the n beams. Those of the best n that end are finished, and compete with earlier finished ones by
// log P / lp; the best n that do not end stay in the beam. The search is over when no running hypothesis can beat the worst of n finished
// ones. All sums are rounded to float32, as in beam_search_vaswani.py. Nothing here knows the model.

const { fround } = Math;

/** lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha (Wu et al. 2016, equation 14), by which log P is divided. */
export const lengthPenalty = (length, alpha, offset = 5) => ((offset + length) / (offset + 1)) ** alpha;

/**
 * The state of one search, and its steps.
 *
 * A hypothesis is {tokens, total, row, key}: its tokens without the start token, log P, the row of the last step that it continues, and
 * the name of its last candidate. `steps` lists the candidates of each step, best first, with their fates:
 *
 *   kept, pruned             did not end, and stays in the beam or not
 *   finished, ended-too-low  ended, and is among the n best finished ones or not
 */
export class BeamSearch {
  /** Settings: `beams` n, `alpha`, `offset`, `minLength` and `maxLength` in tokens, and the ids `pad` and `end`. */
  constructor(settings) {
    Object.assign(this, settings);
    this.running = [{ tokens: [], total: 0, row: 0, key: null }]; // all beams are equal at first, so one is enough
    this.finished = [];
    this.steps = [];
    this.isOver = false;
  }

  /** The length penalty of a hypothesis with this number of tokens. */
  penalty = (length) => lengthPenalty(length, this.alpha, this.offset);

  /** Extends the beam by one token, given the log-probabilities of the next token of each running hypothesis, a tensor [n, vocabulary]. */
  step(logProbs) {
    const candidates = this.extend(logProbs);
    this.keepFinished(candidates);
    this.keepRunning(candidates);
    this.lookAhead(candidates);
    for (const candidate of candidates) {
      const [survivors, yes, no] = candidate.ended ? [this.finished, "finished", "ended-too-low"] : [this.running, "kept", "pruned"];
      candidate.fate = survivors.includes(candidate) ? yes : no;
    }
    this.steps.push(candidates);
  }

  /** The 2 n best continuations of the beam, best first: at least n of them do not end. */
  extend(logProbs) {
    const count = 2 * this.beams;
    const isTooShort = this.steps.length < this.minLength;
    const best = []; // [log P, beam, token], best first
    this.running.forEach(({ total: before }, beam) => {
      const row = logProbs.part(beam).data;
      for (let token = 0; token < row.length; token++) {
        const total = fround(before + row[token]);
        if (best.length === count && total <= best[count - 1][0]) continue;
        if (token === this.pad || (isTooShort && token === this.end)) continue;
        let rank = best.length;
        while (rank > 0 && best[rank - 1][0] < total) rank--;
        best.splice(rank, 0, [total, beam, token]);
        best.length = Math.min(best.length, count);
      }
    });
    return best.map(([total, row, token], rank) => this.candidate(total, row, token, rank, logProbs.at(row, token)));
  }

  candidate(total, row, token, rank, logProb) {
    const parent = this.running[row];
    const tokens = [...parent.tokens, token];
    const ended = token === this.end || tokens.length === this.maxLength;
    const score = total / this.penalty(tokens.length);
    return { key: `s${this.steps.length}c${rank}`, parent: parent.key, tokens, token, row, logProb, total, score, ended, rank };
  }

  /** Keeps the best n finished hypotheses by log P / lp: earlier ones, and those of the best n that just ended. */
  keepFinished(candidates) {
    const ended = candidates.filter((candidate) => candidate.ended && candidate.rank < this.beams);
    const byScore = [...this.finished, ...ended].sort((a, b) => fround(b.score) - fround(a.score));
    this.finished = byScore.slice(0, this.beams);
  }

  /** Prunes: keeps the best n hypotheses that did not end, by log P. */
  keepRunning(candidates) {
    this.running = candidates.filter(({ ended }) => !ended).slice(0, this.beams);
  }

  /** Finds out whether the best running hypothesis can still beat the worst finished one; a single beam ends at its first end. */
  lookAhead() {
    if (!this.running.length || this.finished.length < this.beams) {
      this.isOver = !this.running.length;
      return;
    }
    const length = this.alpha > 0 ? this.maxLength : this.steps.length + 1; // the longest possible hypothesis has the lowest penalty
    const best = fround(this.running[0].total / this.penalty(length));
    this.isOver = this.beams === 1 || best <= fround(this.finished.at(-1).score);
  }
}
