// The transcript of a worker: follows it, loads what is older, keeps what is read in its place.

import { asking, follow, get, under } from './api.js';
import { define, fill, h, place, say } from './dom.js';
import { clock } from './words.js';

/** Items that are kept in the page; older ones are loaded again when they are wanted. */
const MAX_ITEMS = 1200;

class PanelStory extends HTMLElement {
  /** @param {string} base @param {string} cwd @param {(plan: any[] | null) => void} tellPlan */
  start(base, cwd, tellPlan) {
    this.base = base;
    this.cwd = cwd;
    this.tellPlan = tellPlan;
    this.cursor = null;
    this.olderThan = null;
    /** @type {Map<string, any>} */
    this.items = new Map();
    this.older = h('button.quiet.older', { type: 'button', hidden: true, onclick: () => this.loadOlder() }, 'Load earlier');
    this.note = h('p.note', { role: 'status', hidden: true });
    this.body = h('div.items');
    this.loading = h('div.skeletons', { role: 'status', 'aria-label': 'Loading' }, h('div'), h('div'));
    this.down = h('button.down', { type: 'button', hidden: true, onclick: () => this.toEnd() }, 'Newest ↓');
    fill(this, this.older, this.note, this.loading, this.body, this.down);
    this.addEventListener('scroll', () => this.scrolled(), { passive: true });
    this.tabIndex = 0;
    this.setAttribute('role', 'log');
    this.setAttribute('aria-live', 'off');
    this.setAttribute('aria-label', 'Transcript');
    this.isAtEnd = true;
    // A browser gives all pages of the panel six connections: one that is not looked at needs none for its transcript.
    this.look = () => (document.hidden ? this.controller?.abort() : this.read());
    document.addEventListener('visibilitychange', this.look);
    this.look();
    // What grows without a line of ours (a part that is unfolded, a window that is resized) keeps the end in view.
    this.watch = new ResizeObserver(() => this.isAtEnd && this.toEnd());
    this.watch.observe(this.body);
  }

  read() {
    this.controller?.abort();
    this.controller = new AbortController();
    const path = () => asking(under(this.base, 'follow'), { from: this.cursor });
    follow(path, (line) => this.take(line), (problem) => this.tell(problem), this.controller.signal);
  }

  stop() {
    document.removeEventListener('visibilitychange', this.look);
    this.controller?.abort();
    this.watch?.disconnect();
  }

  /** @param {any} problem */
  tell(problem) {
    if (problem) {
      this.isExpired = false;
      this.say(problem.message);
    } else if (!this.isExpired) this.note.hidden = true;
  }

  /** @param {string} text */
  say(text) {
    say(this.note, text);
    this.note.hidden = false;
  }

  /** @param {any} line */
  take(line) {
    this.loading.hidden = true;
    if (line.expired) {
      this.isExpired = true;
      this.say('Events were deleted while this page was away. This is a new snapshot.');
      return;
    }
    if (line.down) {
      this.say(line.down.message);
      return;
    }
    if (line.all) this.reset(line);
    for (const item of line.items || []) this.show(item);
    if (line.cursor) this.cursor = line.cursor;
    if (line.all) this.empty();
    this.limit();
    // At the end, what has grown keeps the end in view.
    if (!this.isAtEnd && line.items?.length) this.down.hidden = false;
  }

  /** A new snapshot: what is older stays if the snapshot begins at or before the cursor, so that nothing is missing. @param {any} line */
  reset(line) {
    const first = line.items[0]?.id || '';
    const joins = first && this.cursor && first <= this.cursor && !this.isExpired;
    for (const [id, view] of this.items) {
      if (joins && id < first) continue;
      view.remove();
      this.items.delete(id);
    }
    if (!this.items.size) {
      this.olderThan = line.before;
      this.older.hidden = !line.before;
    }
    this.isExpired = false;
  }

  empty() {
    this.loading.hidden = true;
    if (!this.items.size) this.say('Nothing was said yet.');
  }

  /** @param {any} item @param {Node | null} [where] */
  show(item, where = null) {
    if (item.kind === 'plan' && !where) this.tellPlan(item.entries);
    let view = this.items.get(item.id);
    if (!view) {
      if (this.note.textContent === 'Nothing was said yet.') this.note.hidden = true;
      view = h('panel-item');
      view.start(item.kind, this.cwd);
      this.items.set(item.id, view);
      this.body.insertBefore(view, where);
    }
    view.update(item);
  }

  limit() {
    while (this.items.size > MAX_ITEMS && this.isAtEnd) {
      const [id, view] = this.items.entries().next().value;
      view.remove();
      this.items.delete(id);
      this.olderThan = this.items.keys().next().value;
      this.older.hidden = false;
    }
  }

  async loadOlder() {
    this.older.disabled = true;
    try {
      const page = await get(asking(under(this.base, 'page'), { before: this.olderThan }));
      const height = this.scrollHeight;
      const first = this.body.firstChild;
      const known = this.items;
      this.items = new Map();
      for (const item of page.items) if (!known.has(item.id)) this.show(item, first);
      for (const [id, view] of known) this.items.set(id, view);
      this.olderThan = page.before;
      this.older.hidden = !page.before;
      this.scrollTop += this.scrollHeight - height;
    } catch (error) {
      this.say(/** @type {Error} */ (error).message);
    }
    this.older.disabled = false;
  }

  scrolled() {
    this.isAtEnd = this.scrollHeight - this.scrollTop - this.clientHeight < 40;
    if (this.isAtEnd) this.down.hidden = true;
  }

  toEnd() {
    this.scrollTop = this.scrollHeight;
    this.down.hidden = true;
  }
}

const ENDS = new Map([['turn.completed', 'Turn ended'], ['turn.failed', 'Turn failed'], ['turn.canceled', 'Turn canceled']]);
const MARKS = new Map([['pending', '○'], ['in_progress', '◐'], ['completed', '✓'], ['failed', '✕'], ['cancelled', '✕'], ['unknown', '?']]);
const DECISIONS = new Map([
  ['approval.requested', 'asks'], ['approval.decided', 'decided'], ['approval.canceled', 'withdrawn'], ['approval.lost', 'lost'],
  ['elicitation.requested', 'asks'], ['elicitation.answered', 'answered'], ['elicitation.canceled', 'withdrawn'], ['elicitation.lost', 'lost'],
]);

class PanelItem extends HTMLElement {
  /** @param {string} kind @param {string} cwd */
  start(kind, cwd) {
    this.kind = kind;
    this.cwd = cwd;
    this.className = kind;
    if (kind === 'user' || kind === 'agent') {
      this.text = h('div.prose');
      this.cut = h('p.dim', { hidden: true });
      this.at = h('time.dim');
      this.append(h('div.who', {}, kind === 'user' ? 'You' : 'Agent', this.at), this.cut, this.text);
    } else if (kind === 'thought') {
      this.text = h('div.prose');
      this.cut = h('p.dim', { hidden: true });
      this.append(h('details', {}, h('summary', {}, 'Thought'), this.cut, this.text));
    } else if (kind === 'tool') {
      this.mark = h('span.mark');
      this.label = h('span.label');
      this.facts = h('span.dim');
      this.inside = h('div.inside');
      this.fold = h('details', { ontoggle: () => this.unfold() }, h('summary', {}, this.mark, this.label, this.facts), this.inside);
      this.append(this.fold);
    }
  }

  /** @param {any} item */
  update(item) {
    if (this.text) this.flow(item);
    else if (this.kind === 'tool') this.tool(item);
    else if (this.kind === 'plan') fill(this, h('details', {}, h('summary', {}, planTitle(item.entries)), plan(item.entries)));
    else if (this.kind === 'question') this.question(item);
    else if (this.kind === 'turn_end') this.end(item);
    if (this.at) say(this.at, clock(item.ts));
    if (item.session) this.classList.add('below');
  }

  /** Replaces the blocks from the first one that has changed. @param {any} item */
  flow(item) {
    const from = item.from || 0;
    while (this.text.childNodes.length > from) this.text.lastChild.remove();
    for (const block of place(item.blocks)) {
      // One node a block: they are counted.
      this.text.append(block instanceof Element ? block : h('span', {}, block));
    }
    this.cut.hidden = !item.leftOut;
    say(this.cut, item.leftOut ? `${item.leftOut} bytes before this are left out.` : '');
  }

  /** @param {any} item */
  tool(item) {
    this.item = item;
    const status = item.status || 'pending';
    this.dataset.status = status;
    say(this.mark, MARKS.get(status) || '○');
    this.mark.title = status;
    const label = item.command || item.title || item.tool || 'tool';
    say(this.label, label);
    const places = item.places.map((/** @type {any} */ at) => `${below(at.path, this.cwd)}${at.line ? `:${at.line}` : ''}`);
    const where = places[0] && !label.includes(places[0]) ? places[0] : '';
    const exit = item.exit ? ` exit ${item.exit}` : '';
    say(this.facts, `${item.command && item.title && item.title !== item.command ? item.title : where}${exit}`);
    if (this.fold.open) this.unfold();
  }

  unfold() {
    const { item } = this;
    if (!this.fold.open || !item || this.drawn === item) return;
    this.drawn = item;
    const input = item.input ? h('pre', {}, item.input) : null;
    const shown = parts(item.parts, this.cwd, item.leftOut);
    fill(this.inside, input, shown, !input && !shown.length ? h('p.dim', {}, 'It has reported nothing.') : null);
  }

  /** @param {any} item */
  question(item) {
    const what = DECISIONS.get(item.event) || item.event;
    const decided = item.decision ? `${item.decision}${item.by ? ` by ${item.by === 'owner' ? 'you or who acts for you' : item.by}` : ''}` : item.reason || '';
    fill(
      this,
      h('p', {}, h('strong', {}, what === 'asks' ? 'Asks: ' : 'Asked: '), h('code', {}, item.about || item.message || ''), decided ? ` — ${decided}` : '', item.note ? ` (${item.note})` : ''),
      item.rule ? h('p.dim', {}, item.became ? 'Became the rule ' : 'By the rule ', h('code', {}, item.rule)) : null,
    );
  }

  /** @param {any} item */
  end(item) {
    const word = ENDS.get(item.event) || item.event;
    this.dataset.event = item.event;
    const why = item.error ? `${item.code || ''}: ${item.error}` : item.reason && item.reason !== 'end_turn' ? item.reason : '';
    fill(this, h('p', {}, h('span', {}, word), why ? h('span.why', {}, why) : null, h('time.dim', {}, clock(item.ts))));
  }
}

/** @param {any[]} entries */
export function planTitle(entries) {
  const done = entries.filter((entry) => entry.status === 'completed').length;
  return `Plan ${done}/${entries.length}`;
}

/** A plan with ticks. @param {any[]} entries */
export function plan(entries) {
  return h('ul.plan', {}, entries.map((entry) => h('li', { 'data-status': entry.status || '' }, h('span.mark', { role: 'img', 'aria-label': entry.status || '' }, MARKS.get(entry.status) || '○'), ` ${entry.text}`)));
}

/** A path as seen from a folder. @param {string} path @param {string} cwd */
function below(path, cwd) {
  return cwd && path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path;
}

/** What a tool call has reported. @param {any[]} list @param {string} [cwd] @param {number} [gone] bytes of an output that are not kept */
export function parts(list, cwd = '', gone = 0) {
  return (list || []).map((part) => {
    if (part.part === 'diff') return h('div.diff', {}, h('div.path', {}, `${below(part.path, cwd)}${part.new ? ' (new)' : ''}`), lines(part.patch));
    if (part.part === 'note') return h('p.dim', {}, part.text);
    const before = part.leftOut + gone;
    const cut = before ? h('p.dim', {}, `${before} bytes before this are left out.`) : null;
    return h('div', {}, cut, h('pre.output', { tabIndex: 0 }, place(part.spans)));
  });
}

const LOOKS = new Map([['+', '.add'], ['-', '.del'], ['@', '.hunk']]);

/** The lines of a patch. @param {any} patch @param {((text: string) => void) | null} [pick] takes a line that is chosen @param {string} [name] the file */
export function lines(patch, pick = null, name = '') {
  const isList = pick !== null && patch.lines.length > 0;
  const rows = patch.lines.map((/** @type {any} */ line) =>
    h(`span.line${LOOKS.get(line.k) || ''}`, isList ? { role: 'option', 'aria-selected': 'false' } : {}, line.k === '@' ? line.v : `${line.k}${line.v}`));
  const list = { role: 'listbox', 'aria-label': `Lines of ${name}: arrows choose one, Enter comments on it` };
  const view = h('pre.patch', { tabIndex: 0, ...(isList ? list : {}) }, rows);
  if (isList) choosable(view, rows, pick);
  const cut = patch.leftOut ? h('p.dim', {}, `${patch.leftOut} bytes more are left out.`) : null;
  return h('div', {}, view, cut);
}

let lineCount = 0;

/** Lines are chosen by a click, or by arrows and Enter. @param {any} view @param {any[]} rows @param {(text: string) => void} pick */
function choosable(view, rows, pick) {
  let at = -1;
  const choose = (/** @type {number} */ next) => {
    rows[at]?.setAttribute('aria-selected', 'false');
    at = Math.max(0, Math.min(rows.length - 1, next));
    const row = rows[at];
    row.id ||= `line-${++lineCount}`;
    row.setAttribute('aria-selected', 'true');
    view.setAttribute('aria-activedescendant', row.id);
    row.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  };
  view.addEventListener('click', (/** @type {Event} */ event) => {
    const found = rows.indexOf(/** @type {Element} */ (event.target).closest('.line'));
    if (found < 0) return;
    choose(found);
    pick(rows[found].textContent || '');
  });
  view.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) choose(at + step);
    else if (event.key === 'Enter' && at >= 0) pick(rows[at].textContent || '');
    else return;
    event.preventDefault();
  });
}

define('panel-story', PanelStory);
define('panel-item', PanelItem);
