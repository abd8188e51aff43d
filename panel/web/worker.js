// One worker: its head, its plan, its story and what stands beside it.

import { api, get } from './api.js';
import './compose.js';
import { define, fill, h, say } from './dom.js';
import { plan, planTitle } from './story.js';
import { changes, children, log, meter, queue, usage } from './tabs.js';
import { STATES, age, count, limits, parked, unreachable, used } from './words.js';

const TABS = ['Story', 'Changes', 'Children', 'Queue', 'Usage', 'Log'];

class PanelWorker extends HTMLElement {
  /** @param {import('./state.js').State} state */
  start(state) {
    this.state = state;
    state.addEventListener('change', () => this.update());
    this.timer = setInterval(() => this.tick(), 1000);
    this.show(null, null);
  }

  /** The story is stopped here and not when it leaves the page: it goes on while another tab is shown. */
  disconnectedCallback() {
    clearInterval(this.timer);
    this.story?.stop();
    this.at = null;
  }

  /** @param {string | null} place @param {string | null} worker */
  show(place, worker) {
    this.story?.stop();
    [this.story, this.shown, this.row] = [null, null, null];
    this.at = place && worker ? { place, worker, base: api(place, 'workers', worker) } : null;
    if (!this.at) {
      fill(this, h('div.blank', {}, h('p', {}, 'Choose a worker, or answer what stands in the inbox.'), h('p.dim', {}, 'Press ', h('kbd', {}, '?'), ' for keys.')));
      return;
    }
    this.update();
  }

  update() {
    if (!this.at) return;
    const row = this.state.row(this.at.place, this.at.worker);
    if (!row) {
      if (this.state.isKnown && !this.row) fill(this, h('div.blank', {}, h('p', {}, 'This worker is not there any more, or its daemon does not run.'), h('a', { href: '#' }, 'All workers')));
      return;
    }
    if (!this.row) this.build(row);
    this.sharing();
    if (this.row === row && this.shown) return;
    const isOther = !this.row || this.row.state !== row.state || this.row.turn !== row.turn || JSON.stringify(this.row.usage) !== JSON.stringify(row.usage);
    const isLonger = this.row && this.row.waiting !== row.waiting;
    this.row = row;
    this.head();
    this.compose.update(row);
    say(this.tabs.get('Queue').count, row.waiting ? ` ${row.waiting}` : '');
    const below = [...(this.state.places.get(this.at.place)?.rows.values() || [])].filter((other) => other.task?.parent === row.id).length;
    say(this.tabs.get('Children').count, below ? ` ${below}` : '');
    if (this.tab === 'Children' || this.tab === 'Usage' || (this.tab === 'Queue' && isLonger)) this.draw();
    if (isOther || !this.shown) this.ask();
  }

  /** @param {any} row */
  build(row) {
    this.row = null;
    this.parts = { name: h('bdi'), state: h('span.chip'), facts: h('div.facts'), meters: h('div.meters'), shared: h('p.problem', { hidden: true }), error: h('p.problem', { hidden: true }) };
    this.plan = h('div.planned', { hidden: true });
    this.panel = h('div.tab', { role: 'tabpanel', id: 'tab', tabIndex: -1 });
    this.compose = h('panel-compose');
    this.compose.start(this.at.place, this.at.base, row);
    /** @type {Map<string, any>} */
    this.tabs = new Map();
    const tabs = h('div.tabs', { role: 'tablist', 'aria-label': 'What to see of the worker' }, TABS.map((name) => {
      const number = h('span.number');
      const tab = h('button', { type: 'button', role: 'tab', 'aria-controls': 'tab', onclick: () => this.open(name), onkeydown: (/** @type {KeyboardEvent} */ event) => this.step(event, name) }, name, number);
      this.tabs.set(name, { tab, count: number });
      return tab;
    }));
    fill(this, h('div.head', {}, h('a.back', { href: '#', 'aria-label': 'All workers' }, '←'), h('h2', { tabIndex: -1 }, this.parts.name), this.parts.state, this.parts.facts, this.parts.meters, this.parts.shared, this.parts.error), this.plan, tabs, this.panel, this.compose);
    this.story = h('panel-story');
    this.story.start(this.at.base, row.cwd, (/** @type {any[] | null} */ entries) => this.planned(entries));
    this.open('Story');
  }

  /** @param {string} name */
  open(name) {
    this.tab = name;
    for (const [other, { tab }] of this.tabs) {
      tab.setAttribute('aria-selected', String(other === name));
      tab.tabIndex = other === name ? 0 : -1;
    }
    this.draw();
  }

  /** @param {KeyboardEvent} event @param {string} name */
  step(event, name) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = TABS[(TABS.indexOf(name) + step + TABS.length) % TABS.length];
    this.open(next);
    this.tabs.get(next).tab.focus();
  }

  draw() {
    const row = this.row || this.state.row(this.at.place, this.at.worker);
    const place = this.state.places.get(this.at.place);
    const { base } = this.at;
    this.classList.toggle('reads', this.tab === 'Story');
    /** @type {Record<string, () => any>} */
    const views = {
      Story: () => this.story, Changes: () => changes(base, row), Children: () => children(place, row),
      Queue: () => queue(base, this.at.place, row), Usage: () => usage(row, this.shown), Log: () => log(base),
    };
    this.panel.replaceChildren(views[this.tab]());
    if (this.tab === 'Story' && this.story.isAtEnd) this.story.toEnd();
  }

  /** @param {any[] | null} entries */
  planned(entries) {
    this.plan.hidden = !entries?.length;
    if (!entries?.length) return;
    const open = this.plan.firstChild?.open ?? false;
    const now = entries.find((entry) => entry.status === 'in_progress');
    fill(this.plan, h('details', { open }, h('summary', {}, planTitle(entries), now ? h('span.dim', {}, ` ${now.text}`) : null), plan(entries)));
  }

  /** Asks what the row does not have, at most once at a time. */
  async ask() {
    if (this.isAsking) return;
    this.isAsking = true;
    const { base } = this.at;
    try {
      const shown = await get(base);
      if (this.at?.base !== base) return;
      this.shown = shown;
      this.head();
      if (this.tab === 'Usage') this.draw();
    } catch {
      this.shown ||= {};
    } finally {
      this.isAsking = false;
    }
  }

  head() {
    const { row, shown } = this;
    if (!row) return;
    const agent = shown?.agent || {};
    say(this.parts.name, row.name);
    say(this.parts.state, STATES.get(row.state) || row.state);
    this.parts.state.className = `chip is-${row.state}`;
    const known = agent.name ? `${agent.name}${agent.version ? ` ${agent.version}` : ''}` : row.launcher;
    const facts = [['Agent', known], ['Model', agent.model], ['Mode', agent.mode], ['Branch', row.worktree?.branch], ['Folder', row.cwd], ['Used', used(row.usage)], ['Sandbox', shown?.sandbox?.name]];
    this.turnTime = h('span');
    fill(this.parts.facts, facts.filter(([, text]) => text).map(([name, text]) => h('span', { title: `${name}: ${text}` }, h('span.dim', {}, `${name} `), h('bdi', {}, text))), parked(row) ? h('span', {}, parked(row)) : null, unreachable(row) ? h('span', {}, unreachable(row)) : null, h('span', {}, h('span.dim', {}, row.turn ? 'Turn for ' : 'For '), this.turnTime));
    const meters = limits(row.budget).map((limit) => meter(limit.name, limit.text, limit.share));
    if (agent.contextUsed && agent.contextSize) meters.unshift(meter('context', `${count(agent.contextUsed)} of ${count(agent.contextSize)}`, agent.contextUsed / agent.contextSize));
    fill(this.parts.meters, meters);
    this.parts.error.hidden = !row.error || row.turn !== null;
    say(this.parts.error, row.error || '');
    this.tick();
  }

  /** Names the others that edit the same files. */
  sharing() {
    const found = this.state.shared(this.at.place, this.at.worker);
    this.parts.shared.hidden = !found.length;
    say(this.parts.shared, found.map(({ path, names }) => `${path} is also edited by ${names.join(', ')}.`).join(' '));
  }

  tick() {
    if (this.row && this.turnTime) say(this.turnTime, age(this.row.since));
  }

  /** Shows a tab by its number, from 1, with the focus on it. @param {number} number */
  focusTab(number) {
    const name = TABS[number - 1];
    if (!this.story || !name) return;
    this.open(name);
    this.tabs.get(name).tab.focus();
  }

  focusStory() {
    if (!this.story) return;
    this.open('Story');
    this.story.focus();
  }

  focusMessage() {
    this.compose?.text?.focus();
  }

  focusTitle() {
    /** @type {HTMLElement | null} */ (this.querySelector('h2'))?.focus();
  }
}

define('panel-worker', PanelWorker);
