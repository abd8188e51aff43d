// What stands beside the story of a worker: changes, children, queue, usage, log.

import { api, asking, get, isReadOnly, post, under } from './api.js';
import { fill, h } from './dom.js';
import { lines } from './story.js';
import { activity, age, clock, limits, used } from './words.js';

/** Loads something into a view, with a word while it waits and one if it fails. @param {any} view @param {() => Promise<any>} load @param {(data: any) => any} show */
async function load(view, load, show) {
  const wait = setTimeout(() => fill(view, h('div.skeletons', { role: 'status', 'aria-label': 'Loading' }, h('div'), h('div'))), 150);
  try {
    const data = await load();
    clearTimeout(wait);
    fill(view, show(data));
  } catch (error) {
    clearTimeout(wait);
    fill(view, problem(error), h('button', { type: 'button', onclick: () => view.refresh?.() }, 'Try again'));
  }
}

/** @param {any} error */
export function problem(error) {
  return h('p.problem', { role: 'alert' }, `${error.message} ${error.advice || ''}`);
}

/** A button whose action may fail: the error stands beside it. @param {string} label @param {() => Promise<any>} act @param {{style?: string, confirm?: string, label?: string}} [more] */
export function action(label, act, more = {}) {
  const said = h('span.problem', { role: 'alert' });
  const button = h(more.style || 'button', {
    type: 'button', 'aria-label': more.label || null,
    onclick: async () => {
      if (more.confirm && !(await sure(more.confirm, label))) return;
      button.disabled = true;
      fill(said);
      try {
        await act();
      } catch (error) {
        fill(said, ` ${/** @type {any} */ (error).message} ${/** @type {any} */ (error).advice || ''}`);
      }
      button.disabled = false;
    },
  }, label);
  return h('span.action', {}, button, said);
}

/** Asks before something that cannot be taken back. @param {string} question @param {string} yes @returns {Promise<boolean>} */
export function sure(question, yes) {
  return new Promise((resolve) => {
    const dialog = h('dialog', { 'aria-label': question, onclose: () => { resolve(dialog.returnValue === 'yes'); dialog.remove(); } });
    fill(dialog, h('form', { method: 'dialog' }, h('p', {}, question), h('div.buttons', {}, h('button.danger', { value: 'yes' }, yes), h('button', { value: 'no', autofocus: true }, 'Back'))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** The whole worktree against where it began. @param {string} base @param {any} row */
export function changes(base, row) {
  const view = h('div.changes');
  const show = (/** @type {any} */ data) => {
    const from = data.source === 'events' ? h('p.note', {}, `As the agent has reported them: ${data.reason}`) : null;
    const left = data.truncated ? h('p.note', {}, 'Some files or patches are left out; `subagent diff` shows all.') : null;
    const head = h('div.bar', {}, h('span', {}, `${data.count} ${data.count === 1 ? 'file' : 'files'} `, h('span.plus', {}, `+${data.added}`), ' ', h('span.minus', {}, `−${data.deleted}`)),
      action('Refresh', async () => view.refresh(), { style: 'button.quiet' }),
      row.worktree && !isReadOnly() && data.files.length ? landing(base, row, view) : null);
    if (!data.files.length) return [head, from, h('p.empty', {}, 'Nothing has changed.')];
    return [head, from, left, data.files.map((/** @type {any} */ file) => fileView(base, file, data.files.length <= 5))];
  };
  view.refresh = () => load(view, () => get(under(base, 'diff')), show);
  view.refresh();
  return view;
}

/** @param {string} base @param {any} row @param {any} view */
function landing(base, row, view) {
  const into = row.worktree.source || 'the branch that it came from';
  return action('Land', async () => {
    const landed = await post(under(base, 'land'));
    fill(view, h('p.note', { role: 'status' }, `Landed on ${landed.into} as ${String(landed.commit).slice(0, 12)}.`));
  }, { style: 'button.primary', confirm: `Land the changes of ${row.name} on ${into}?` });
}

/** @param {string} base @param {any} file @param {boolean} open */
function fileView(base, file, open) {
  const numbers = file.added === null ? 'binary' : [h('span.plus', {}, `+${file.added}`), ' ', h('span.minus', {}, `−${file.deleted}`)];
  const name = file.oldPath ? `${file.oldPath} → ${file.path}` : file.path;
  const about = h('code.about', { hidden: true });
  const text = h('textarea', { rows: 2, 'aria-label': `Comment on ${file.path}`, placeholder: 'Comment for the agent; choose a line to quote it' });
  const pick = (/** @type {string} */ line) => { about.textContent = line; about.hidden = false; text.focus(); };
  const comment = isReadOnly() ? null : h('div.comment', {}, about, text, action('Send as a message', async () => {
    if (!text.value.trim()) return;
    const quoted = about.hidden ? '' : `\n> ${about.textContent}\n`;
    await post(under(base, 'turns'), { text: `About ${file.path}:${quoted}\n${text.value}`, ifBusy: 'queue' });
    text.value = '';
    about.hidden = true;
  }));
  const details = h('details.file', { open }, h('summary', {}, h('span.chip', {}, file.status), h('bdi', {}, name), h('span', {}, numbers)));
  // Large patches are drawn when they are unfolded.
  const draw = () => { if (details.open && details.children.length === 1) details.append(lines(file.patch, comment ? pick : null, file.path), comment || ''); };
  details.addEventListener('toggle', draw);
  draw();
  return details;
}

/** The tasks that a worker has given. @param {any} place @param {any} row */
export function children(place, row) {
  const below = [...place.rows.values()].filter((other) => other.task?.parent === row.id);
  if (!below.length) return h('p.empty', {}, 'This worker has given no tasks.');
  return h('table', {}, h('thead', {}, h('tr', {}, ['Task', 'Status', 'Last event', 'Now'].map((title) => h('th', { scope: 'col' }, title)))),
    h('tbody', {}, below.map((other) => h('tr', {}, h('td', {}, h('a', { href: `#/${place.id}/${other.id}` }, other.task.name || other.name)), h('td', {}, other.task.status.replace('cancelled', 'canceled').replaceAll('_', ' ')), h('td', {}, age(other.lastEventAt)), h('td.wide', {}, activity(other))))));
}

/** The messages that wait. @param {string} base @param {string} place @param {any} row */
export function queue(base, place, row) {
  const view = h('div.queue');
  const show = (/** @type {any} */ data) => {
    const waiting = data.items.filter((/** @type {any} */ turn) => turn.status === 'queued');
    const paused = data.queue.paused ? h('p.note', {}, `The queue is paused${data.queue.reason ? ` (${String(data.queue.reason).replaceAll('_', ' ')})` : ''}. `, isReadOnly() ? null : action('Resume', () => change(() => post(under(base, 'queue', 'resume'))))) : null;
    if (!waiting.length) return [paused, h('p.empty', {}, 'Nothing waits.')];
    const move = (/** @type {any} */ turn, /** @type {number} */ to) => change(() => post(api(place, 'turns', turn.turnId, 'move'), { to }));
    return [paused, h('ol.turns', {}, waiting.map((/** @type {any} */ turn, /** @type {number} */ at) => h('li', {}, h('p', {}, turn.text || '(not kept)', turn.textTruncated ? '…' : ''), isReadOnly() ? null : h('div.buttons', {},
      row.turn && !data.queue.paused ? action('Send now', () => change(async () => {
        // Fails if the message is sent already: then nothing is canceled. Only the turn that the person saw is.
        await post(api(place, 'turns', turn.turnId, 'move'), { to: 1 });
        await post(under(base, 'cancel'), { turnId: row.turn }).catch((/** @type {any} */ error) => { if (error.code !== 'TURN_NOT_OPEN') throw error; });
      }), { style: 'button.quiet', confirm: `Cancel the turn of ${row.name} and send this now?` }) : null,
      at > 0 ? action('Send next', () => move(turn, 1), { style: 'button.quiet' }) : null,
      at > 0 ? action('↑', () => move(turn, at), { style: 'button.quiet', label: 'Move up' }) : null,
      at < waiting.length - 1 ? action('↓', () => move(turn, at + 2), { style: 'button.quiet', label: 'Move down' }) : null,
      action('Drop', () => change(() => post(api(place, 'turns', turn.turnId, 'drop'))), { style: 'button.quiet' })))))];
  };
  const change = async (/** @type {() => Promise<any>} */ act) => { await act(); await view.refresh(); };
  view.refresh = () => load(view, () => get(under(base, 'turns')), show);
  view.refresh();
  view.dataset.waiting = row.waiting;
  return view;
}

/** What a worker has used, and may use. @param {any} row @param {any} shown */
export function usage(row, shown) {
  const agent = shown?.agent || {};
  const facts = [
    ['Used', used(row.usage)],
    ['Without a report', row.usage.tokens.unreported ? `tokens of ${row.usage.tokens.unreported} turns` : 'nothing'],
    ['Context', agent.contextUsed === null || agent.contextUsed === undefined ? 'not reported' : `${agent.contextUsed} of ${agent.contextSize ?? 'unknown'} tokens`],
    ['Memory now', agent.memoryBytes ? `${Math.round(agent.memoryBytes / 1_048_576)} MiB` : 'nothing runs'],
    ['Restarts', String(agent.restarts ?? 0)],
  ];
  const bounds = limits(row.budget);
  return h('div', {}, h('dl.facts', {}, facts.map(([name, text]) => [h('dt', {}, name), h('dd', {}, text)])),
    h('h3', {}, 'Budget'), bounds.length ? h('div.budget', {}, bounds.map((limit) => meter(limit.name, limit.text, limit.share))) : h('p.empty', {}, 'Nothing is limited.'));
}

/** @param {string} name @param {string} text @param {number | null} share */
export function meter(name, text, share) {
  const bar = h('meter', { min: 0, max: 1, low: 0.6, high: 0.8, optimum: 0, value: share ?? 0, 'aria-label': `${name}: ${text}` });
  return h('span.meter', {}, h('span.dim', {}, name), bar, h('span', {}, text));
}

/** What the agent wrote to its standard error. @param {string} base */
export function log(base) {
  const view = h('div.log');
  const show = (/** @type {any} */ data) => {
    const { text } = data;
    return [action('Refresh', async () => view.refresh(), { style: 'button.quiet' }), text ? h('pre.output', { tabIndex: 0 }, text) : h('p.empty', {}, 'The log is empty.'), h('p.dim', {}, `As of ${clock(new Date().toISOString())}`)];
  };
  view.refresh = () => load(view, () => get(asking(under(base, 'logs'), { tailBytes: '65536' })), show);
  view.refresh();
  return view;
}
