// All workers: as a tree of tasks or as a list, by workspace.

import { define, fill, h, say } from './dom.js';
import { STATES, activity, age, limits, parked } from './words.js';

class PanelList extends HTMLElement {
  /** @param {import('./state.js').State} state */
  start(state) {
    this.state = state;
    this.isTree = true;
    this.showsStopped = false;
    this.selected = '';
    /** @type {Map<string, any>} */
    this.rows = new Map();
    this.search = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter workers by name, agent, label or tag', oninput: () => this.update() });
    this.shape = h('button.quiet', { type: 'button', onclick: () => this.turn(), title: 'Tree or list (t)' });
    this.stopped = h('button.quiet', { type: 'button', onclick: () => this.toggleStopped() });
    this.body = h('div');
    fill(this, h('h2', { id: 'list-title' }, 'Workers'), h('div.tools', {}, this.search, this.shape, this.stopped), this.body);
    this.setAttribute('role', 'region');
    this.setAttribute('aria-labelledby', 'list-title');
    state.addEventListener('change', () => this.update());
    this.addEventListener('keydown', (event) => this.key(event));
    this.update();
    this.timer = setInterval(() => this.ages(), 1000);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
  }

  turn() {
    this.isTree = !this.isTree;
    this.update();
  }

  toggleStopped() {
    this.showsStopped = !this.showsStopped;
    this.update();
  }

  /** @param {string} key */
  select(key) {
    this.selected = key;
    for (const [id, row] of this.rows) row.setCurrent(id === key);
  }

  /** @param {any} row */
  fits(row) {
    if (row.state === 'stopped' && !this.showsStopped) return false;
    const words = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return true;
    const tags = Object.entries(row.tags || {}).map(([name, value]) => `${name}=${value}`);
    const text = [row.name, row.launcher, row.label, row.role, row.worktree?.branch, STATES.get(row.state), ...tags].join(' ').toLowerCase();
    return words.every((word) => text.includes(word));
  }

  update() {
    say(this.shape, this.isTree ? 'List' : 'Tree');
    const stopped = [...this.state.places.values()].flatMap((place) => [...place.rows.values()]).filter((row) => row.state === 'stopped').length;
    this.stopped.hidden = stopped === 0;
    say(this.stopped, this.showsStopped ? 'Hide stopped' : `Show ${stopped} stopped`);
    const kept = new Set();
    /** @type {any[]} */
    const sections = [];
    for (const place of this.state.places.values()) {
      const found = this.state.tree(place, (row) => this.fits(row));
      const items = found.map(({ row, depth }) => {
        const key = `${place.id}/${row.id}`;
        kept.add(key);
        let view = this.rows.get(key);
        if (!view) {
          view = h('panel-row');
          view.start(key);
          this.rows.set(key, view);
        }
        view.update(row, this.isTree ? depth : 0);
        view.setCurrent(key === this.selected);
        return view;
      });
      if (this.state.places.size > 1 || place.down) {
        sections.push(this.title(place));
      }
      sections.push(...items);
      if (!items.length && this.state.places.size > 1) sections.push(h('p.empty', {}, place.rows.size ? 'No worker fits.' : 'No workers.'));
    }
    if (this.state.places.size < 2 && !kept.size) sections.push(this.empty());
    for (const key of this.rows.keys()) if (!kept.has(key)) this.rows.delete(key);
    this.place(sections);
  }

  /** Only what is at another place is moved: a row keeps the focus. @param {any[]} nodes */
  place(nodes) {
    let at = this.body.firstChild;
    for (const node of nodes) {
      if (node === at) at = at.nextSibling;
      else this.body.insertBefore(node, at);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  /** @param {any} place */
  title(place) {
    const down = place.down ? h('span.problem', {}, ` ${place.down.message}`) : null;
    return h('h3.place', { title: place.title }, h('bdi', {}, place.title), down);
  }

  empty() {
    if (!this.state.isKnown) return h('div.skeletons', { 'aria-label': 'Loading' }, h('div'), h('div'), h('div'));
    const all = [...this.state.places.values()].reduce((sum, place) => sum + place.rows.size, 0);
    if (all) return h('p.empty', {}, this.search.value ? 'No worker fits.' : 'All workers are stopped.');
    return h('p.empty', {}, 'No workers yet. Start one with “New run”, or in a terminal: ', h('code', {}, 'subagent run -d AGENT \'TASK\''));
  }

  ages() {
    for (const row of this.rows.values()) row.tick();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    const at = /** @type {HTMLElement} */ (event.target);
    if (!step || (at === this.search && event.key.length === 1)) return;
    event.preventDefault();
    this.move(step);
  }

  /** @param {number} step */
  move(step) {
    const links = [...this.body.querySelectorAll('a')];
    const now = links.indexOf(/** @type {any} */ (document.activeElement));
    const next = now < 0 ? (step > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, now + step));
    links[next]?.focus();
  }
}

class PanelRow extends HTMLElement {
  /** @param {string} key */
  start(key) {
    this.dot = h('span.dot', { 'aria-hidden': 'true' });
    this.name = h('bdi.name');
    this.state = h('span.state');
    this.age = h('span.age');
    this.activity = h('span.activity');
    this.more = h('span.more');
    this.link = h('a', { href: `#/${key}` }, this.dot, this.name, this.state, this.age, this.activity, this.more);
    this.append(this.link);
  }

  /** @param {any} row @param {number} depth */
  update(row, depth) {
    if (this.shown === row && this.depth === depth) return;
    this.shown = row;
    this.depth = depth;
    this.className = `${row.group} is-${row.state} depth-${Math.min(depth, 6)}`;
    say(this.name, row.name);
    this.link.title = `${row.name} · ${row.launcher} · ${row.cwd}`;
    say(this.state, STATES.get(row.state) || row.state);
    say(this.activity, activity(row));
    const low = limits(row.budget).filter((limit) => limit.share !== null && limit.share >= 0.8);
    const facts = [parked(row), row.task && row.task.depth > 1 ? `depth ${row.task.depth}` : '', row.waiting && row.doing ? `${row.waiting} queued` : '', ...low.map((limit) => `${limit.name} ${Math.round((limit.share || 0) * 100)}%`)];
    say(this.more, facts.filter(Boolean).join(' · '));
    this.tick();
  }

  tick() {
    if (this.shown) say(this.age, age(this.shown.lastEventAt));
  }

  /** @param {boolean} is */
  setCurrent(is) {
    if (is) this.link.setAttribute('aria-current', 'true');
    else this.link.removeAttribute('aria-current');
  }
}

define('panel-list', PanelList);
define('panel-row', PanelRow);
