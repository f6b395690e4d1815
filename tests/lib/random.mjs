// Random numbers that can be had again: a failing test prints its seed, TEST_SEED repeats it.

export const SEED = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 32));

/** A generator of whole numbers from `low` to `high`, both included (mulberry32). */
export function random(seed = SEED) {
  let state = seed >>> 0;
  return (low, high) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return low + (((bits ^ (bits >>> 14)) >>> 0) % (high - low + 1));
  };
}
