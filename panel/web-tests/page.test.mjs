// Unit tests of the page's modules that need no browser: `node --test panel/web-tests/`.

import assert from 'node:assert/strict';
import { test } from 'node:test';

globalThis.requestAnimationFrame = (run) => run();
globalThis.document = { hidden: false };
globalThis.HTMLElement = class {};
/** The classes of the page's elements, by tag. */
const elements = new Map();
globalThis.customElements = { get: (tag) => elements.get(tag), define: (tag, type) => elements.set(tag, type) };

const words = await import('../web/words.js');
const { State, order } = await import('../web/state.js');
const { api, asking, follow, under } = await import('../web/api.js');
await import('../web/inbox.js');
await import('../web/compose.js');

const row = (id, more = {}) => ({
  id, name: id, state: 'idle', group: 'done', lastEventAt: '2026-11-21T20:30:00Z', task: null, doing: null, error: null, turn: null, waiting: 0, label: 'worker', ...more,
});

test('ages are short and never of the future', () => {
  const now = Date.parse('2026-11-21T20:30:00Z');
  const at = (seconds) => words.age(new Date(now - seconds * 1000).toISOString(), now);
  assert.deepEqual([-5, 0, 59, 60, 3600, 172_800].map(at), ['0 s', '0 s', '59 s', '1 min', '1 h', '2 d']);
  assert.equal(words.age(null), '');
  assert.equal(words.age('nonsense'), '');
});

test('unknown is not zero', () => {
  assert.deepEqual([null, 0, 999, 1500, 25_000, 3_400_000].map((n) => words.count(n)), ['unknown', '0', '999', '1.5k', '25k', '3.4M']);
  const usage = { turns: 2, tokens: { used: null, unreported: 2 }, cost: { used: null, unreported: 2 } };
  assert.equal(words.used(usage), '2 turns · unknown tokens · cost unknown');
  assert.equal(words.cost([{ amount: 0.5, currency: 'USD', computed: 0.5 }]), '0.5000 USD (computed)');
});

test('only what is limited has a budget', () => {
  const part = (used, limit, unit) => ({ used, limit, unit, unreported: 0 });
  const budget = { turns: part(2, 4, 'turns'), wallTime: part(0, null, 'seconds'), tokens: part(null, 100, 'tokens'), cost: part(0, null, null) };
  assert.deepEqual(words.limits(budget), [{ name: 'turns', text: '2 of 4 turns', share: 0.5 }, { name: 'tokens', text: 'unknown of 100 tokens', share: null }]);
});

test('an option means what its kind says', () => {
  const kinds = ['allow_once', 'allow_always', 'reject_once', 'reject_always', 'deny', null];
  assert.deepEqual(kinds.map((kind) => words.meaning({ kind, id: 'x' })), ['allow', 'always', 'deny', 'deny', 'deny', 'allow']);
});

test('a worker that failed says so although it is idle', () => {
  assert.equal(words.activity(row('a', { error: 'it crashed' })), 'failed: it crashed');
  assert.equal(words.activity(row('a', { error: 'old', turn: 't', state: 'running', doing: { tool: 'make', step: 'b', done: 1, of: 2 } })), 'make · 1/2 b');
});

test('lines of the stream become places, rows and questions', () => {
  const state = new State();
  state.take({ place: 'p', title: '~/ws', own: true, all: true, rows: [row('a'), row('b')] });
  state.take({ place: 'p', rows: [row('a', { state: 'running' })], removed: ['b'] });
  assert.deepEqual([...state.places.get('p').rows.values()].map((one) => [one.id, one.state]), [['a', 'running']]);
  state.take({ place: 'p', seen: { a: '2026-11-21T20:31:00Z', gone: '2026-11-21T20:31:00Z' } });
  assert.deepEqual([...state.places.get('p').rows.values()].map((one) => [one.id, one.lastEventAt]), [['a', '2026-11-21T20:31:00Z']]);
  state.take({ place: 'p', questions: [{ id: 'q2', since: '2' }] });
  state.take({ place: 'o', title: 'other', all: true, rows: [], questions: [{ id: 'q1', since: '1' }] });
  assert.deepEqual(state.questions().map(({ question }) => question.id), ['q1', 'q2']);
  state.take({ place: 'p', down: { message: 'gone' } });
  assert.equal(state.row('p', 'a').id, 'a', 'what was known stays in view');
  state.take({ place: 'p', all: true, title: '~/ws', rows: [] });
  assert.equal(state.places.get('p').down, null);
  state.take({ place: 'o', gone: true });
  assert.deepEqual([...state.places.keys()], ['p']);
});

test('tasks stand below their parents, also in a circle that cannot be', () => {
  const state = new State();
  const task = (parent) => ({ task: { parent, depth: 1, name: 't', status: 'working' } });
  state.take({ place: 'p', title: '', all: true, rows: [row('c', task('b')), row('b', task('a')), row('a'), row('x', task('y')), row('y', task('x')), row('lone', task('gone'))] });
  const shown = state.tree(state.places.get('p'), () => true).map(({ row: one, depth }) => `${one.id}${depth}`);
  assert.deepEqual(shown, ['a0', 'b1', 'c2', 'lone0']);
});

test('ids that name what every object has are ids', () => {
  const state = new State();
  for (const id of ['__proto__', 'constructor', 'toString']) state.take({ place: id, title: id, all: true, rows: [row(id)] });
  assert.equal(state.places.size, 3);
  assert.equal({}.rows, undefined);
  assert.equal(state.row('__proto__', '__proto__').name, '__proto__');
});

test('what needs somebody stands first, and what is stopped last', () => {
  const rows = [row('stopped', { state: 'stopped' }), row('idle'), row('works', { group: 'working' }), row('asks', { group: 'needs' })];
  assert.deepEqual(rows.sort(order).map((one) => one.id), ['asks', 'works', 'idle', 'stopped']);
});

test('an unreachable worker says since when, in place of what it does', () => {
  const since = '2026-11-21T20:30:00Z';
  assert.equal(words.activity(row('a', { unreachableSince: since, doing: { tool: 'make' } })), `unreachable since ${words.clock(since)}`);
  assert.equal(words.unreachable(row('a')), '');
});

test('a parked worker says until when', () => {
  assert.equal(words.parked(row('a')), '');
  assert.equal(words.parked(row('a', { parkedUntil: '2026-11-21T20:30:00Z' })), `parked until ${words.clock('2026-11-21T20:30:00Z')}`);
});

test('a new snapshot keeps older items only if it joins them', () => {
  const story = (cursor, isExpired = false) => {
    const items = new Map(['ev_1', 'ev_2', 'ev_3'].map((id) => [id, { remove() {} }]));
    return Object.assign(Object.create(elements.get('panel-story').prototype), { items, cursor, isExpired, olderThan: 'ev_0', older: {} });
  };
  const after = (of, first) => {
    of.reset({ items: [{ id: first }], before: first });
    return [[...of.items.keys()], of.olderThan, of.isExpired];
  };
  assert.deepEqual(after(story('ev_3'), 'ev_2'), [['ev_1'], 'ev_0', false], 'it begins before the cursor');
  assert.deepEqual(after(story('ev_3'), 'ev_3'), [['ev_1', 'ev_2'], 'ev_0', false]);
  assert.deepEqual(after(story('ev_3'), 'ev_5'), [[], 'ev_5', false], 'ev_4 is missing');
  assert.deepEqual(after(story('ev_3', true), 'ev_2'), [[], 'ev_2', false], 'events were deleted');
});

test('a held key or a second press does not answer the next question', async () => {
  const Question = elements.get('panel-question').prototype;
  let sent = 0;
  globalThis.fetch = async () => { sent += 1; return { json: async () => ({ ok: true, data: {} }) }; };
  const card = () => Object.assign(Object.create(Question), { place: { id: 'p' }, question: { worker: 'w', id: 'q' }, problem: {}, busy(is) { this.isSent = is; } });
  const one = card();
  await one.answer('approvals', {});
  await one.answer('approvals', {});
  assert.equal(sent, 1, 'an answer is sent once');
  const inbox = Object.assign(Object.create(elements.get('panel-inbox').prototype), {
    state: { questions: () => [], isKnown: true, places: new Map() }, cards: new Map([['p/q', { contains: () => false, remove() {} }]]), list: {}, badge: {}, empty: {},
  });
  inbox.update();
  const next = card();
  await next.answer('approvals', {});
  assert.equal(sent, 1, 'a card went away just now');
  const now = Date.now;
  Date.now = () => now() + 1000;
  await next.answer('approvals', {});
  Date.now = now;
  assert.equal(sent, 2);
  let clicks = 0;
  const held = Object.assign(card(), { querySelectorAll: () => [{ dataset: { key: 'y' }, click: () => { clicks += 1; } }] });
  const press = (repeat) => held.key({ key: 'y', repeat, composedPath: () => [{ tagName: 'DIV' }], preventDefault() {}, stopPropagation() {} });
  press(true);
  assert.equal(clicks, 0);
  press(false);
  assert.equal(clicks, 1);
});

test('what may have been done already is asked for again under its key', async () => {
  const keys = [];
  let code = '';
  globalThis.fetch = async (_path, options) => {
    keys.push(options.headers['Idempotency-Key']);
    return { ok: false, json: async () => ({ ok: false, error: { code, message: 'no' } }) };
  };
  const box = Object.assign(Object.create(elements.get('panel-compose').prototype), {
    base: '/w', text: { value: 'go' }, tried: null, passing: null, async act(run) { await run().catch(() => {}); },
  });
  for (code of ['DAEMON_NOT_RUNNING', 'DAEMON_UNRESPONSIVE', 'WORKER_BUSY', 'WORKER_BUSY']) await box.say(null);
  assert.ok(keys[0], 'a message has a key');
  assert.deepEqual([keys[1], keys[2]], [keys[0], keys[0]]);
  assert.notEqual(keys[3], keys[0], 'a refusal ends it');
});

test('a stream ends when its worker does not exist any more', async () => {
  const said = [];
  globalThis.fetch = async () => new Response('{"down":{"code":"WORKER_NOT_FOUND","message":"gone"},"ended":true}\n');
  await follow(() => '/x', (line) => said.push(line.down.code), () => said.push('told'), new AbortController().signal);
  assert.deepEqual(said, ['WORKER_NOT_FOUND']);
});

test('workers that edit the same file know each other', () => {
  const state = new State();
  const edits = (id, ...editing) => row(id, { doing: { tool: 'edit', step: null, done: 0, of: 0, editing } });
  state.take({ place: 'p', title: 'p', all: true, rows: [edits('a', '/ws/x', '/ws/y'), edits('b', '/ws/x'), edits('c', '/ws/z'), row('d')] });
  state.take({ place: 'o', title: 'o', all: true, rows: [edits('e', '/ws/x')] });
  assert.deepEqual(state.shared('p', 'a'), [{ path: '/ws/x', names: ['b'] }]);
  assert.deepEqual([state.shared('p', 'c'), state.shared('p', 'd'), state.shared('o', 'e'), state.shared('p', 'gone')], [[], [], [], []]);
});

test('the keys of tags are offered once', () => {
  const state = new State();
  state.take({ place: 'p', title: 'p', all: true, rows: [row('a', { tags: { job: 'x', at: 'y' } }), row('b', { tags: { job: 'z' } }), row('c')] });
  assert.deepEqual(state.tags(), ['at', 'job']);
});

test('an id of a daemon stays one segment of a path', () => {
  assert.equal(under(api('p1', 'workers', 'w_1'), 'queue', 'resume'), '/api/p1/workers/w_1/queue/resume');
  assert.equal(asking(api('p1', 'usage'), { by: 'day&x', since: null }), '/api/p1/usage?by=day%26x');
  for (const id of ['../../p2/workers/w/stop?x=', '..', '.', '', 'a/b', 'a?b', 'a#b', 'a\\b', '%2e%2e', undefined, 7, ['a']]) {
    assert.throws(() => api('p1', 'turns', /** @type {any} */ (id), 'drop'), { code: 'INVALID_ARGUMENT' }, String(id));
  }
});
