// A new run: agent, task, worktree, sandbox.

import { api, get, post } from './api.js';
import { fill, h } from './dom.js';
import { problem } from './tabs.js';

const STATES = new Map([['fetchable', ' (is fetched first)'], ['missing', ' (not installed)']]);

/** Opens the dialog. @param {import('./state.js').State} state @param {(place: string, worker: string) => void} go */
export function openStart(state, go) {
  const places = [...state.places.values()].sort((one, other) => Number(other.own) - Number(one.own));
  const where = h('select', { id: 'start-place' }, places.map((place) => h('option', { value: place.id }, place.title)));
  const who = h('select', { id: 'start-who', required: true });
  const task = h('textarea', { id: 'start-task', rows: 5, required: true, placeholder: 'What is to be done' });
  const model = h('input', { id: 'start-model', placeholder: 'as the agent chooses' });
  const tree = h('input', { type: 'checkbox', id: 'start-tree' });
  const box = h('select', { id: 'start-box' });
  const said = h('div');
  const go_ = h('button.primary', { type: 'submit' }, 'Start');
  const field = (/** @type {string} */ label, /** @type {any} */ input) => h('div.field', {}, h('label', { for: input.id }, label), input);
  const boxField = field('Sandbox', box);
  const treeField = h('label.check', {}, tree, ' In a git worktree of its own');
  const form = h('form', { method: 'dialog' }, h('h2', {}, 'New run'), places.length > 1 ? field('Workspace', where) : null, field('Agent', who), field('Task', task), field('Model', model), boxField, treeField, said,
    h('div.buttons', {}, go_, h('button', { type: 'button', onclick: () => dialog.close() }, 'Back')));
  const dialog = h('dialog.start', { 'aria-label': 'New run', onclose: () => dialog.remove() }, form);

  const choose = async () => {
    fill(who, h('option', { value: '' }, 'Loading …'));
    fill(said);
    try {
      const data = await get(api(where.value, 'choices'));
      const option = (/** @type {string} */ kind, /** @type {any} */ one, /** @type {string} */ more) => h('option', { value: `${kind}:${one.name}`, disabled: one.state === 'missing' }, `${one.name}${more}`);
      const launchers = [...data.launchers].sort((one, other) => Number(other.own) - Number(one.own) || Number(one.state === 'missing') - Number(other.state === 'missing'));
      fill(who, h('optgroup', { label: 'Agents' }, launchers.map((one) => option('launcher', one, STATES.get(one.state) || ''))), data.agents.length ? h('optgroup', { label: 'Definitions' }, data.agents.map((/** @type {any} */ one) => option('agent', one, one.description ? ` – ${one.description.slice(0, 60)}` : ''))) : null);
      fill(box, h('option', { value: '' }, 'As in the config'), h('option', { value: 'none' }, 'none'), data.sandboxes.map((/** @type {string} */ name) => h('option', { value: name }, name)));
      boxField.hidden = data.sandboxes.length === 0;
      treeField.hidden = !data.git;
    } catch (error) {
      fill(who);
      fill(said, problem(error));
    }
  };
  where.addEventListener('change', choose);
  form.addEventListener('submit', async (/** @type {Event} */ event) => {
    event.preventDefault();
    const [kind, ...name] = who.value.split(':');
    go_.disabled = true;
    fill(said, h('p.note', { role: 'status' }, 'Starting …'));
    try {
      const started = await post(api(where.value, 'workers'), {
        [kind]: name.join(':'), text: task.value, ...(model.value ? { model: model.value } : {}), ...(tree.checked ? { worktree: {} } : {}), ...(box.value ? { sandbox: box.value } : {}),
      });
      dialog.close();
      go(where.value, started.workerId);
    } catch (error) {
      fill(said, problem(error));
    }
    go_.disabled = false;
  });
  document.body.append(dialog);
  dialog.showModal();
  if (places.length) choose();
  else fill(said, h('p.problem', {}, 'No daemon runs. Start the panel in a workspace, or start a worker in a terminal first.'));
}
