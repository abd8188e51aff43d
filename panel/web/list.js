// All workers: as a tree of tasks or as a list, by workspace or by a tag.

import { define, fill, h, say } from './dom.js';
import { STATES, activity, age, limits, parked } from './words.js';

class PanelList extends HTMLElement {
  /** @param {import('./state.js').State} state */
  start(state) {
    this.state = state;
    this.isTree = true;
    this.showsStopped = false;
    this.selected = '';
    /** The tags in the choice of groups. @type {string} */
    this.offered = '';
    /** @type {Map<string, any>} */
    this.rows = new Map();
    this.search = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter workers by name, agent, label or tag', oninput: () => this.update() });
    this.shape = h('button.quiet', { type: 'button', onclick: () => this.turn(), title: 'Tree or list (t)' });
    this.by = h('select', { 'aria-label': 'Group workers', onchange: () => this.update() });
    this.stopped = h('button.quiet', { type: 'button', onclick: () => this.toggleStopped() });
    this.body = h('div');
    fill(this, h('h2', { id: 'list-title' }, 'Workers'), h('div.tools', {}, this.search, this.by, this.shape, this.stopped), this.body);
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
    return words.every((/** @type {string} */ word) => text.includes(word));
  }

  update() {
    say(this.shape, this.isTree ? 'List' : 'Tree');
    const stopped = [...this.state.places.values()].flatMap((place) => [...place.rows.values()]).filter((row) => row.state === 'stopped').length;
    this.stopped.hidden = stopped === 0;
    say(this.stopped, this.showsStopped ? 'Hide stopped' : `Show ${stopped} stopped`);
    this.offer();
    const kept = new Set();
    const sections = this.by.value ? this.byTag(this.by.value, kept) : this.byPlace(kept);
    if (!kept.size && (this.by.value || this.state.places.size < 2)) sections.push(this.empty());
    for (const key of this.rows.keys()) if (!kept.has(key)) this.rows.delete(key);
    this.place(sections);
  }

  /** Offers to group by the tags that there are. */
  offer() {
    const tags = this.state.tags();
    this.by.hidden = !tags.length;
    const offered = ['', ...tags].join(' ');
    if (this.offered === offered) return;
    this.offered = offered;
    const chosen = this.by.value;
    fill(this.by, h('option', { value: '' }, 'By workspace'), tags.map((tag) => h('option', { value: tag }, `By ${tag}`)));
    this.by.value = tags.includes(chosen) ? chosen : '';
  }

  /** @param {Set<string>} kept the keys of the rows that are shown @returns {any[]} */
  byPlace(kept) {
    const places = [...this.state.places.values()];
    return places.flatMap((place) => {
      const items = this.items(place, () => true, kept);
      const heading = places.length > 1 || place.down ? [this.heading(place)] : [];
      const empty = !items.length && places.length > 1 ? [h('p.empty', {}, place.rows.size ? 'No worker fits.' : 'No workers.')] : [];
      return [...heading, ...items, ...empty];
    });
  }

  /** @param {string} tag @param {Set<string>} kept @returns {any[]} */
  byTag(tag, kept) {
    const places = [...this.state.places.values()];
    const of = (/** @type {any} */ row) => (Object.hasOwn(row.tags || {}, tag) ? row.tags[tag] : null);
    const values = [...new Set(places.flatMap((place) => [...place.rows.values()].map(of)))];
    // Those without the tag are last.
    values.sort((one, other) => Number(one === null) - Number(other === null) || String(one).localeCompare(String(other)));
    return values.flatMap((value) => {
      const items = places.flatMap((place) => this.items(place, (row) => of(row) === value, kept));
      return items.length ? [h('h3.place', {}, value === null ? `without ${tag}` : `${tag}=${value}`), ...items] : [];
    });
  }

  /** The rows of a place that fit. @param {import('./state.js').Place} place @param {(row: any) => boolean} isOf @param {Set<string>} kept */
  items(place, isOf, kept) {
    const editors = this.state.editors(place.id);
    return this.state.tree(place, (row) => isOf(row) && this.fits(row)).map(({ row, depth }) => {
      const key = `${place.id}/${row.id}`;
      kept.add(key);
      let view = this.rows.get(key);
      if (!view) {
        view = h('panel-row');
        view.start(key);
        this.rows.set(key, view);
      }
      view.update(row, this.isTree ? depth : 0, this.state.shared(place.id, row.id, editors));
      view.setCurrent(key === this.selected);
      return view;
    });
  }

  /** Only what is at another place is moved, and a row keeps the focus. @param {any[]} nodes */
  place(nodes) {
    const focused = /** @type {HTMLElement | null} */ (this.body.contains(document.activeElement) ? document.activeElement : null);
    const wanted = new Set(nodes);
    // Headings are new each time: rows behind an old one would be moved.
    for (const node of [...this.body.childNodes]) if (!wanted.has(node)) node.remove();
    let at = this.body.firstChild;
    for (const node of nodes) {
      if (node === at) at = at.nextSibling;
      else this.body.insertBefore(node, at);
    }
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
  }

  /** @param {any} place */
  heading(place) {
    const down = place.down ? h('span.problem', {}, ` ${place.down.message}`) : null;
    return h('h3.place', { title: place.title }, h('bdi', {}, place.title), down);
  }

  empty() {
    if (!this.state.isKnown) return h('div.skeletons', { role: 'status', 'aria-label': 'Loading' }, h('div'), h('div'), h('div'));
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
    // A choice has its own use for arrows and letters.
    if (!step || at === this.by || (at === this.search && event.key.length === 1)) return;
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
    this.clash = h('span.clash');
    this.link = h('a', { href: `#/${key}` }, this.dot, this.name, this.state, this.age, this.activity, this.more, this.clash);
    this.append(this.link);
  }

  /** @param {any} row @param {number} depth @param {{path: string, names: string[]}[]} shared the files that others edit too */
  update(row, depth, shared) {
    const mark = shared.map(({ path, names }) => `${path}: ${names.join(', ')}`).join('\n');
    if (this.shown === row && this.depth === depth && this.marked === mark) return;
    this.marked = mark;
    say(this.clash, mark ? `same file as ${[...new Set(shared.flatMap(({ names }) => names))].join(', ')}` : '');
    this.clash.title = mark;
    this.shown = row;
    this.depth = depth;
    this.className = `${row.group} is-${row.state} depth-${Math.min(depth, 6)}${row.error && !row.turn ? ' has-failed' : ''}`;
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
