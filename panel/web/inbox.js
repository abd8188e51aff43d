// The inbox: questions of all workers, the oldest first, answered in place.

import { Failed, api, isReadOnly, post } from './api.js';
import { define, fill, h, link, say, types } from './dom.js';
import { parts } from './story.js';
import { age, clock, meaning } from './words.js';

/** After a card went away, answers are ignored for this time (ms): a second press was meant for that card. */
const QUIET = 600;
let quietUntil = 0;

class PanelInbox extends HTMLElement {
  /** @param {import('./state.js').State} state */
  start(state) {
    this.state = state;
    /** @type {Map<string, any>} */
    this.cards = new Map();
    this.list = h('div.cards');
    this.badge = h('span.badge', { hidden: true });
    this.live = h('p.unseen', { role: 'status', 'aria-live': 'polite' });
    this.empty = h('p.empty', {}, 'Nothing waits for you.');
    fill(this, h('h2', { id: 'inbox-title' }, 'Inbox ', this.badge), this.list, this.empty, this.live);
    this.setAttribute('role', 'region');
    this.setAttribute('aria-labelledby', 'inbox-title');
    state.addEventListener('change', () => this.update());
    this.update();
  }

  update() {
    const all = this.state.questions();
    const open = new Set();
    const isFirst = !this.wasKnown;
    this.wasKnown = this.state.isKnown;
    let at = null;
    for (const { place, question } of all) {
      const key = `${place.id}/${question.id}`;
      open.add(key);
      let card = this.cards.get(key);
      if (!card) {
        card = h('panel-question');
        card.start(place, question);
        this.cards.set(key, card);
        if (!isFirst) say(this.live, `${question.name} asks: ${question.subject}`);
      }
      card.update(this.state.places.size > 1);
      const next = at ? at.nextSibling : this.list.firstChild;
      if (next !== card) this.list.insertBefore(card, next);
      at = card;
    }
    for (const [key, card] of this.cards) {
      if (open.has(key)) continue;
      quietUntil = Date.now() + QUIET;
      const hadFocus = card.contains(document.activeElement);
      card.remove();
      this.cards.delete(key);
      if (hadFocus) this.focusFirst();
    }
    this.badge.hidden = all.length === 0;
    say(this.badge, String(all.length));
    this.empty.hidden = all.length > 0 || !this.state.isKnown;
    document.title = all.length ? `(${all.length}) subagent` : 'subagent';
  }

  focusFirst() {
    const first = /** @type {HTMLElement | null} */ (this.list.firstElementChild);
    (first || document.querySelector('panel-list a'))?.focus();
  }
}

/** The name of the worker above all tasks of a worker, as the list has it. @param {any} place @param {string} worker */
function root(place, worker) {
  const row = place.rows.get(worker);
  return place.rows.get(row?.task?.root)?.name;
}

class PanelQuestion extends HTMLElement {
  /** @param {any} place @param {any} question */
  start(place, question) {
    this.place = place;
    this.question = question;
    this.tabIndex = 0;
    this.setAttribute('role', 'group');
    this.setAttribute('aria-label', `${question.name} asks: ${question.subject}`);
    this.where = h('span.dim');
    this.age = h('span.dim');
    this.problem = h('p.problem', { role: 'alert', hidden: true });
    const path = question.path.length ? [root(place, question.worker) || question.path[0], ...question.path.slice(1)].join(' / ') : question.name;
    fill(
      this,
      h('div.who', {}, h('a.name', { href: `#/${place.id}/${question.worker}` }, path), this.where, this.age),
      question.kind === 'elicitation' ? this.form() : this.permission(),
      this.problem,
    );
    this.addEventListener('keydown', (event) => this.key(event));
  }

  /** @param {boolean} isOneOfMany */
  update(isOneOfMany) {
    say(this.where, isOneOfMany ? this.place.title : '');
    const { since, deadline, onTimeout } = this.question;
    const left = deadline ? ` · ${onTimeout === 'cancel' ? 'canceled' : 'denied'} at ${clock(deadline)}` : '';
    say(this.age, `${age(since)}${left}`);
  }

  permission() {
    const { subject, message, call, rule, always, options, toolKind } = this.question;
    const shown = parts(call.parts, this.question.cwd);
    const input = call.input && call.input !== subject ? h('pre', {}, call.input) : null;
    /** @type {any[]} */
    const buttons = [];
    const answers = new Set();
    const rank = ['allow', 'deny', 'always'];
    for (const option of [...options].sort((one, other) => rank.indexOf(meaning(one)) - rank.indexOf(meaning(other)))) {
      const kind = meaning(option);
      const isFirst = !answers.has(kind);
      answers.add(kind);
      const key = isFirst && kind === 'allow' ? 'y' : isFirst && kind === 'deny' ? 'n' : null;
      const style = kind === 'allow' && isFirst ? 'button.primary' : 'button';
      buttons.push(this.button(style, option.label, key, { optionId: option.id }));
    }
    const mayAlways = always && (answers.has('allow') || answers.has('always')) && !isReadOnly();
    const rules = mayAlways ? [
      this.button('button', 'Always, this worker', 'a', { decision: 'allow', always: 'worker' }),
      this.button('button', 'Always, all workers', null, { decision: 'allow', always: 'controller' }),
    ] : [];
    return h(
      'div.permission',
      {},
      toolKind ? h('span.chip', {}, toolKind) : null,
      h('pre.subject', {}, subject || message),
      // The usual words around the subject say nothing more.
      message && subject && !message.includes(subject) ? h('p', {}, message) : null,
      shown.length || input ? h('details', { open: shown.length > 0 }, h('summary', {}, 'Details'), input, shown) : null,
      rule ? h('p.dim', {}, 'Asked because of the rule ', h('code', {}, rule)) : null,
      isReadOnly() ? null : h('div.buttons', {}, buttons),
      rules.length ? h('div.rules', {}, h('p.dim', {}, '“Always” allows it and adds the rule ', h('code', {}, always)), h('div.buttons', {}, rules)) : null,
    );
  }

  /** @param {string} style @param {string} label @param {string | null} key @param {object} body */
  button(style, label, key, body) {
    const send = () => this.answer('approvals', body);
    const hint = key ? [h('kbd', { 'aria-hidden': 'true' }, key)] : [];
    return h(style, { type: 'button', onclick: send, 'data-key': key || '', 'aria-keyshortcuts': key }, label, hint);
  }

  form() {
    const { message, fields: asked, url, urlShown, mode } = this.question;
    const answer = (/** @type {string} */ action, /** @type {any} */ content) =>
      this.answer('elicitations', content ? { action, content } : { action });
    const rest = [
      h('button', { type: 'button', onclick: () => answer('decline', null), 'data-key': 'n' }, 'Decline', h('kbd', { 'aria-hidden': 'true' }, 'n')),
      h('button', { type: 'button', onclick: () => answer('cancel', null) }, 'Cancel'),
    ];
    if (mode === 'url') {
      const there = h('a', {}, urlShown || 'a place that is not on the web');
      link(there, url);
      const done = h('button.primary', { type: 'button', onclick: () => answer('accept', null) }, 'I have done it');
      return h('div', {}, h('p', {}, message), h('p.break', {}, there), isReadOnly() ? null : h('div.buttons', {}, done, rest));
    }
    const fields = formFields(asked);
    const form = h('form', {}, h('p', {}, message), fields.map((field) => field.view));
    form.addEventListener('submit', (/** @type {Event} */ event) => {
      event.preventDefault();
      answer('accept', Object.fromEntries(fields.map((field) => [field.name, field.value()]).filter(([, value]) => value !== undefined)));
    });
    if (!isReadOnly()) form.append(h('div.buttons', {}, h('button.primary', { type: 'submit' }, 'Answer'), rest));
    return form;
  }

  /** @param {string} kind @param {object} body */
  async answer(kind, body) {
    if (this.isSent || Date.now() < quietUntil) return;
    this.busy(true);
    this.problem.hidden = true;
    const { worker, id } = this.question;
    try {
      await post(api(this.place.id, 'workers', worker, kind, id), body);
    } catch (error) {
      this.busy(false);
      const failed = /** @type {Failed} */ (error);
      fill(this.problem, `${failed.message} ${failed.advice}`);
      this.problem.hidden = false;
    }
  }

  /** @param {boolean} is */
  busy(is) {
    this.isSent = is;
    this.setAttribute('aria-busy', String(is));
    for (const button of this.querySelectorAll('button')) button.disabled = is;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (types(event) || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = { j: 'nextElementSibling', k: 'previousElementSibling' }[event.key];
    if (next) {
      /** @type {any} */ (this)[next]?.focus();
      event.stopPropagation();
      return;
    }
    const button = [...this.querySelectorAll('button')].find((one) => one.dataset.key && one.dataset.key === event.key);
    // A held key answers once: also Enter on a button.
    if (event.repeat && (button || event.key === 'Enter')) {
      event.preventDefault();
      return;
    }
    if (!button) return;
    event.preventDefault();
    event.stopPropagation();
    button.click();
  }
}

/** Kinds of fields, by the format of a text. */
const FIELDS = new Map([['email', 'email'], ['uri', 'url'], ['date', 'date'], ['date-time', 'datetime-local']]);
let fieldCount = 0;

/** The fields of a form that an agent has described, and their values. @param {any[]} asked */
export function formFields(asked) {
  return asked.map(({ name, label, description, kind, format, required, choices, usual }) => {
    const id = `field-${++fieldCount}`;
    /** @type {any} */
    let field;
    let value;
    if (kind === 'yes') {
      field = h('input', { type: 'checkbox', id, checked: usual === true });
      value = () => field.checked;
    } else if (kind === 'many') {
      const boxes = choices.map((/** @type {any} */ choice) => ({ ...choice, box: h('input', { type: 'checkbox', checked: (usual || []).includes(choice.value) }) }));
      field = h('div.boxes', { id, role: 'group' }, boxes.map((/** @type {any} */ one) => h('label', {}, one.box, ` ${one.label}`)));
      value = () => boxes.filter((/** @type {any} */ { box }) => box.checked).map((/** @type {any} */ one) => one.value);
    } else if (kind === 'one') {
      field = h('select', { id, required }, required ? null : h('option', { value: '' }, '–'), choices.map((/** @type {any} */ choice, /** @type {number} */ at) =>
        h('option', { value: String(at), selected: choice.value === usual }, choice.label)));
      value = () => (field.value === '' ? undefined : choices[Number(field.value)].value);
    } else {
      const isNumber = kind === 'number' || kind === 'integer';
      field = h('input', { type: isNumber ? 'number' : FIELDS.get(format) || 'text', id, required, value: usual ?? '' });
      if (kind === 'number') field.step = 'any';
      value = () => (field.value === '' && !required ? undefined : isNumber ? Number(field.value) : field.value);
    }
    const view = h('div.field', {}, h('label', { for: id }, `${label}${required ? ' *' : ''}`), field, description ? h('small.dim', {}, description) : null);
    return { name, view, value };
  });
}

define('panel-inbox', PanelInbox);
define('panel-question', PanelQuestion);
