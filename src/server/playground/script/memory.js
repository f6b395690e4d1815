// What the tab remembers over a reload.

const TURNS_KEPT = 4; // As many finished turns as a session holds for readers that come back.

// A browser may allow no storage. Then the page works, and remembers nothing over a reload.
const storage = (() => { try { return sessionStorage; } catch { return null; } })();

// The tab's session, the turns to show again, and how many came before.
const kept = { session: newId(), turns: [], earlier: 0, ...JSON.parse(storage?.getItem('tether') ?? '{}') };
function keep() {
  const forget = (turns) => { kept.earlier += kept.turns.splice(0, turns).length; };
  forget(Math.max(0, kept.turns.length - TURNS_KEPT));
  while (storage) {
    try { storage.setItem('tether', JSON.stringify(kept)); return; } catch {
      // The prompts are long: fewer turns fit.
      if (!kept.turns.length) return;
      forget(1);
    }
  }
}
function drop(turn) {
  kept.turns = kept.turns.filter((other) => other !== turn);
  keep();
}

function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
