// What workers have used, by day or otherwise, of all workspaces.

import { api, asking, get } from './api.js';
import { fill, h } from './dom.js';
import { problem } from './tabs.js';
import { cost, count } from './words.js';

const BY = new Map([['day', 'Day'], ['worker', 'Worker'], ['agent', 'Agent'], ['model', 'Model']]);
const SPANS = new Map([['7', '7 days'], ['30', '30 days'], ['', 'All time']]);
const DAY = 86_400_000;

/** Opens the dialog. @param {import('./state.js').State} state */
export function openSums(state) {
  const choice = (/** @type {Map<string, string>} */ options) => [...options].map(([value, text]) => h('option', { value }, text));
  const by = h('select', { 'aria-label': 'Group by', onchange: () => draw() }, choice(BY));
  const span = h('select', { 'aria-label': 'Since', onchange: () => draw() }, choice(SPANS));
  const body = h('div', { 'aria-live': 'polite' });
  const dialog = h('dialog.sums', { 'aria-label': 'Usage', onclose: () => dialog.remove() }, h('h2', {}, 'Usage'), h('div.bar', {}, by, span), body, h('form', { method: 'dialog' }, h('button', {}, 'Back')));
  let latest = 0;
  const draw = () => {
    const now = ++latest;
    const since = span.value ? new Date(Date.now() - Number(span.value) * DAY).toISOString() : null;
    const parts = [...state.places.values()].map((place) => {
      const heading = () => h('h3', {}, h('bdi', {}, place.title));
      if (place.down) return h('section', {}, heading(), problem(place.down));
      const part = h('section', {}, heading(), h('p.empty', {}, 'Asking …'));
      // An answer that comes after that to a later choice is not shown. A slow host delays no other.
      const show = (/** @type {any[]} */ shown) => { if (now === latest) fill(part, ...shown); };
      const asked = async () => get(asking(api(place.id, 'usage'), { by: by.value, since }));
      asked().then((data) => show([heading(), ...rows(BY.get(by.value), data)]), (error) => show([heading(), problem(error)]));
      return part;
    });
    fill(body, parts.length ? parts : h('p.empty', {}, 'No workspace is known.'));
  };
  document.body.append(dialog);
  dialog.showModal();
  draw();
}

/** @param {string} title @param {any} data @returns {any[]} */
function rows(title, data) {
  if (!data.items.length) return [h('p.empty', {}, 'No turns.')];
  const most = Math.max(1, ...data.items.map((/** @type {any} */ item) => item.tokens.used ?? 0));
  const line = (/** @type {string} */ name, /** @type {any} */ sums, /** @type {boolean} */ drawn) => h('tr', {}, h('th', { scope: 'row' }, h('bdi', {}, name)), h('td', {}, count(sums.turns)),
    h('td', {}, count(sums.tokens.used), sums.tokens.unreported ? h('span.dim', {}, ` + ${sums.tokens.unreported} unreported`) : null),
    h('td', {}, drawn ? h('meter', { min: 0, max: most, value: sums.tokens.used ?? 0, 'aria-hidden': 'true' }) : null), h('td', {}, cost(sums.cost.used)));
  const names = data.items.map((/** @type {any} */ item) => item.name || item.key || 'unknown');
  return [h('table', {}, h('thead', {}, h('tr', {}, [title, 'Turns', 'Tokens', '', 'Cost'].map((text) => (text ? h('th', { scope: 'col' }, text) : h('td'))))),
    h('tbody', {}, data.items.map((/** @type {any} */ item, /** @type {number} */ at) => line(names[at], item, true)), line('All', data.total, false)))];
}
