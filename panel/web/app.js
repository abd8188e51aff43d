// The page: lets a browser in, follows all workers, and knows the keys.

import { enter, follow, isKnown, isReadOnly, takeToken } from './api.js';
import { define, fill, h, say, types } from './dom.js';
import './inbox.js';
import './list.js';
import { openStart } from './start.js';
import { State } from './state.js';
import { openSums } from './sums.js';
import './story.js';
import './worker.js';

const KEYS = [
  ['i', 'The inbox: then y allows, n denies, a always, j and k move'], ['l', 'The list of workers: arrows move, Enter opens'],
  ['s', 'The story of the worker'], ['1 – 6', 'Its tabs, from story to log'], ['m', 'The message box'], ['w', 'New run'], ['/', 'Filter'], ['t', 'Tree or list'], ['u', 'Usage'], ['Esc', 'Back to the list'], ['?', 'These keys'],
];

class PanelApp extends HTMLElement {
  async connectedCallback() {
    addEventListener('signed-out', () => this.signIn('This page has no session any more.'));
    addEventListener('hashchange', () => this.hashed());
    const token = takeToken();
    if (!token && isKnown()) return this.open();
    if (!token) return this.signIn('');
    try {
      await enter({ token });
      this.open();
    } catch (error) {
      // A reload of the link by which the page came in.
      if (isKnown()) this.open();
      else this.signIn(/** @type {Error} */ (error).message);
    }
  }

  /** A token in an address that is opened in this page. */
  async hashed() {
    const token = takeToken();
    if (!token) return this.route();
    try {
      await enter({ token });
      this.open();
    } catch (error) {
      if (!isKnown()) this.signIn(/** @type {Error} */ (error).message);
    }
  }

  /** @param {string} why */
  signIn(why) {
    this.controller?.abort();
    this.state = null;
    // What is typed stays.
    if (this.said?.isConnected) {
      if (why) say(this.said, why);
      return;
    }
    const code = h('input', { id: 'code', required: true, autocomplete: 'off', autocapitalize: 'none', spellcheck: false, placeholder: 'abcd-2345', maxLength: 20 });
    const said = h('p.problem', { role: 'alert' }, why);
    this.said = said;
    const form = h('form.door', {}, h('h1', {}, 'subagent'), h('p', {}, 'Open the link that ', h('code', {}, 'subagent panel'), ' has printed; Enter in its terminal prints a new one. Or type the code of ', h('code', {}, 'subagent panel --pair'), ':'),
      h('div.field', {}, h('label', { for: 'code' }, 'Code'), code), said, h('button.primary', { type: 'submit' }, 'Pair'));
    form.addEventListener('submit', async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        await enter({ code: code.value });
        this.open();
      } catch (error) {
        say(said, /** @type {Error} */ (error).message);
      }
    });
    fill(this, h('main', { id: 'main' }, form));
    code.focus();
  }

  open() {
    this.controller?.abort();
    this.controller = new AbortController();
    this.state = new State();
    this.link = h('span.link', { role: 'status' });
    this.inbox = h('panel-inbox');
    this.list = h('panel-list');
    this.worker = h('panel-worker', { id: 'main', role: 'region', 'aria-label': 'Worker' });
    const top = h('header.top', {}, h('h1', {}, h('a.brand', { href: '#' }, 'subagent')), isReadOnly() ? h('span.chip', {}, 'read-only') : null, this.link, h('span.gap'),
      isReadOnly() ? null : h('button', { type: 'button', onclick: () => this.begin(), 'aria-keyshortcuts': 'w' }, 'New run', h('kbd', { 'aria-hidden': 'true' }, 'w')), h('button.quiet', { type: 'button', onclick: () => this.sums(), 'aria-keyshortcuts': 'u' }, 'Usage'), h('button.quiet', { type: 'button', onclick: () => this.keys(), 'aria-label': 'Keys' }, '?'));
    fill(this, top, h('main.body', {}, h('nav.side', { 'aria-label': 'Inbox and workers' }, this.inbox, this.list), this.worker));
    this.inbox.start(this.state);
    this.list.start(this.state);
    this.worker.start(this.state);
    follow(() => '/api/live', (line) => this.state?.take(line), (problem) => this.tell(problem), this.controller.signal);
    this.route();
    if (!document.body.dataset.keyed) {
      document.body.dataset.keyed = 'true';
      document.addEventListener('keydown', (event) => this.key(event));
    }
  }

  /** @param {Error | null} problem */
  tell(problem) {
    say(this.link, problem ? problem.message : '');
    this.classList.toggle('away', problem !== null);
  }

  route() {
    if (!this.state) return;
    const found = /^#\/([0-9a-z]+)\/([\w-]+)$/.exec(location.hash);
    this.classList.toggle('in-worker', found !== null);
    this.list.select(found ? `${found[1]}/${found[2]}` : '');
    this.worker.show(found?.[1] ?? null, found?.[2] ?? null);
    if (found) this.worker.focusTitle();
  }

  begin() {
    openStart(/** @type {State} */ (this.state), (place, worker) => { location.hash = `#/${place}/${worker}`; });
  }

  sums() {
    openSums(/** @type {State} */ (this.state));
  }

  keys() {
    const dialog = h('dialog', { 'aria-label': 'Keys', onclose: () => dialog.remove() }, h('h2', {}, 'Keys'), h('dl.keys', {}, KEYS.map(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)])), h('form', { method: 'dialog' }, h('button', {}, 'Back')));
    document.body.append(dialog);
    dialog.showModal();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.state || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape') {
      if (types(event)) /** @type {HTMLElement} */ (event.target).blur();
      else {
        location.hash = '#';
        this.list.move(1);
      }
      return;
    }
    if (types(event)) return;
    if (/^[1-6]$/.test(event.key)) {
      this.worker.focusTab(Number(event.key));
      return;
    }
    const act = {
      i: () => this.inbox.focusFirst(), l: () => this.list.move(1), s: () => this.worker.focusStory(), m: () => this.worker.focusMessage(), '/': () => this.list.search.focus(),
      t: () => this.list.turn(), w: () => !isReadOnly() && this.begin(), u: () => this.sums(), '?': () => this.keys(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}

define('panel-app', PanelApp);
