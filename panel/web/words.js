// Numbers, times and states as words. Pure.

/** @param {string | null} ts @param {number} now */
export function age(ts, now = Date.now()) {
  if (!ts) return '';
  const seconds = Math.max(0, Math.round((now - Date.parse(ts)) / 1000));
  if (!Number.isFinite(seconds)) return '';
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** @param {string} ts */
export function clock(ts) {
  const at = new Date(ts);
  return Number.isNaN(at.getTime()) ? '' : at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' });
}

/** A number as people read it; unknown is not zero. @param {number | null | undefined} n */
export function count(n) {
  if (n === null || n === undefined) return 'unknown';
  if (n < 1000) return String(Math.round(n * 100) / 100);
  if (n < 1_000_000) return `${(n / 1000).toFixed(n < 10_000 ? 1 : 0)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}

/** @param {{amount: number, currency: string, computed: number}[] | null | undefined} amounts */
export function cost(amounts) {
  if (!amounts) return 'cost unknown';
  return amounts.map(({ amount, currency, computed }) => {
    const text = `${amount.toFixed(amount < 1 ? 4 : 2)} ${currency}`;
    return computed > 0 ? `${text} (computed)` : text;
  }).join(' + ');
}

/** Turns, tokens and cost of a worker. @param {any} usage */
export function used(usage) {
  const parts = [`${usage.turns} ${usage.turns === 1 ? 'turn' : 'turns'}`];
  if (usage.turns > 0) {
    parts.push(`${count(usage.tokens.used)} tokens`);
    if (usage.cost.used === null || usage.cost.used.length) parts.push(cost(usage.cost.used));
  }
  return parts.join(' · ');
}

/** The parts of a budget that are limited, each with the share that is used. @param {any} budget */
export function limits(budget) {
  /** @type {{name: string, text: string, share: number | null}[]} */
  const found = [];
  const names = { turns: 'turns', wallTime: 'time', tokens: 'tokens', cost: 'cost' };
  for (const [key, name] of Object.entries(names)) {
    const part = budget?.[key];
    if (!part || part.limit === null) continue;
    const share = part.used === null ? null : Math.min(1, part.used / part.limit);
    found.push({ name, text: `${count(part.used)} of ${count(part.limit)} ${part.unit || ''}`.trim(), share });
  }
  return found;
}

/** What a state means, in a word. */
export const STATES = new Map([
  ['starting', 'starting'], ['idle', 'idle'], ['running', 'working'], ['waiting_approval', 'asks you'],
  ['canceling', 'canceling'], ['error', 'failed'], ['stopped', 'stopped'],
]);

/** Until when the provider's limit holds a worker back. @param {any} row */
export function parked(row) {
  return row.parkedUntil ? `parked until ${clock(row.parkedUntil)}` : '';
}

/** Since when a worker's place does not answer. @param {any} row */
export function unreachable(row) {
  return row.unreachableSince ? `unreachable since ${clock(row.unreachableSince)}` : '';
}

/** What a worker does now, in a line. @param {any} row */
export function activity(row) {
  if (row.unreachableSince) return unreachable(row);
  if (row.doing) {
    const { tool, step, done, of } = row.doing;
    const plan = of ? `${done}/${of}${step ? ` ${step}` : ''}` : '';
    return [tool, plan].filter(Boolean).join(' · ') || (row.needs ? 'waits for an answer' : 'thinking');
  }
  if (row.error && !row.turn) return `failed: ${row.error}`;
  if (row.waiting) return `${row.waiting} queued${row.paused ? ', paused' : ''}`;
  return row.label && row.label !== 'worker' && row.label !== 'run' ? row.label : '';
}

/** The kind of an option: what a click on it means. @param {{kind?: string | null, id: string}} option */
export function meaning(option) {
  const word = option.kind || option.id;
  if (/^(reject|deny)/i.test(word)) return 'deny';
  return /always/i.test(word) ? 'always' : 'allow';
}
