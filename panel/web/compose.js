// The message box: send, queue, steer, cancel, stop, hand off.

import { isReadOnly, post, under } from './api.js';
import { define, fill, h, say } from './dom.js';
import { sure } from './tabs.js';

/** Texts that were not sent, by worker: who looks elsewhere meanwhile finds them again. @type {Map<string, string>} */
const drafts = new Map();

/** Codes of answers that leave open what became of a request. */
const OPEN = ['UNREACHABLE', 'DAEMON_NOT_RUNNING', 'DAEMON_UNRESPONSIVE'];

/** @param {unknown} error */
const isOpen = (error) => OPEN.includes(/** @type {any} */ (error).code);

class PanelCompose extends HTMLElement {
  /** @param {string} place @param {string} base @param {any} row */
  start(place, base, row) {
    this.place = place;
    /** The message whose answer was lost. @type {{text: string, body: unknown, key: string} | null} */
    this.tried = null;
    /** The key of a hand-off whose answer was lost. @type {string | null} */
    this.passing = null;
    this.base = base;
    this.text = h('textarea', { rows: 2, 'aria-label': `Message to ${row.name}`, value: drafts.get(base) || '', oninput: () => { drafts.set(base, this.text.value); this.tried = null; this.grow(); } });
    this.text.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => this.key(event));
    this.send = h('button.primary', { type: 'button', onclick: () => this.say(this.first) });
    this.steer = h('button', { type: 'button', title: 'Cancel the turn and send this next', onclick: () => this.say('steer') }, 'Steer');
    this.cancel = h('button', { type: 'button', onclick: () => this.act(() => post(under(base, 'cancel'), { turnId: this.row.turn })) }, 'Cancel', h('span.long', {}, ' turn'));
    this.handOff = h('button', { type: 'button', title: 'Start another worker that takes over this work', onclick: () => this.pass() });
    this.halt = h('button.danger', { type: 'button', onclick: () => this.stop() }, 'Stop');
    this.problem = h('p.problem', { role: 'alert', hidden: true });
    this.over = h('p.note', { hidden: true });
    this.box = h('div.box', {}, this.text, h('div.buttons', {}, this.send, this.steer, h('span.gap'), this.handOff, this.cancel, this.halt));
    fill(this, this.problem, this.over, this.box);
    this.update(row);
    this.grow();
  }

  /** @param {any} row */
  update(row) {
    this.row = row;
    const busy = ['running', 'waiting_approval', 'canceling', 'starting'].includes(row.state);
    const stopped = row.state === 'stopped';
    this.first = busy ? 'queue' : null;
    say(this.send, busy ? 'Queue' : 'Send');
    this.text.placeholder = busy ? 'Goes to the queue; Enter sends, Shift+Enter breaks the line' : 'Message; Enter sends, Shift+Enter breaks the line';
    this.steer.hidden = !busy;
    this.cancel.hidden = !row.turn;
    // Nothing but another worker goes on from one that is stopped.
    for (const part of [this.text, this.send, this.halt]) part.hidden = stopped;
    say(this.handOff, stopped ? 'Go on' : 'Hand off');
    this.handOff.className = stopped ? 'primary' : 'quiet';
    this.box.hidden = isReadOnly();
    this.over.hidden = !stopped && !isReadOnly();
    say(this.over, stopped ? 'This worker is stopped. What it did can be read, and another worker can go on.' : 'This panel only shows.');
  }

  grow() {
    this.text.rows = Math.min(12, Math.max(2, this.text.value.split('\n').length));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.say(this.first);
  }

  /** @param {string | null} ifBusy */
  say(ifBusy) {
    const text = this.text.value;
    if (!text.trim()) return this.text.focus();
    // A message whose answer was lost is sent again as it was, under its key, so that it is there once.
    const isAgain = this.tried?.text === text && ifBusy !== 'steer';
    const message = isAgain ? this.tried : { text, body: ifBusy ? { text, ifBusy } : { text }, key: crypto.randomUUID() };
    this.tried = null;
    return this.act(async () => {
      try {
        await post(under(this.base, 'turns'), message.body, message.key);
      } catch (error) {
        if (isOpen(error)) this.tried = message;
        throw error;
      }
      this.text.value = '';
      drafts.delete(this.base);
      this.grow();
      this.text.focus();
    });
  }

  /** The new worker is opened, which reads what was done. */
  async pass() {
    if (!await sure(`Start another worker that takes over the work of ${this.row.name}?`, this.handOff.textContent)) return;
    this.act(async () => {
      // A hand-off whose answer was lost is asked for again under its key, so that it happens once.
      this.passing ??= crypto.randomUUID();
      let worker;
      try {
        ({ worker } = await post(under(this.base, 'hand-off'), {}, this.passing));
      } catch (error) {
        if (!isOpen(error)) this.passing = null;
        throw error;
      }
      this.passing = null;
      location.hash = `#/${this.place}/${worker.workerId}`;
    });
  }

  async stop() {
    if (await sure(`Stop ${this.row.name} for good? Its agent and all that it started end.`, 'Stop')) {
      this.act(() => post(under(this.base, 'stop')));
    }
  }

  /** @param {() => Promise<any>} act */
  async act(act) {
    const buttons = this.querySelectorAll('button');
    for (const button of buttons) button.disabled = true;
    this.problem.hidden = true;
    try {
      await act();
    } catch (error) {
      say(this.problem, `${/** @type {any} */ (error).message} ${/** @type {any} */ (error).advice || ''}`);
      this.problem.hidden = false;
    }
    for (const button of buttons) button.disabled = false;
  }
}

define('panel-compose', PanelCompose);
