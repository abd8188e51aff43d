// One journey through the panel in a real Chromium: `node journey.mjs NAME LINK CHROMIUM [FOLDER WHICH PLACE]`.
//
// It says `ready` where the test has to do something, and `done` at the end. An error of the page or a violation of its
// Content Security Policy fails each journey.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const require = createRequire(`${process.cwd()}/`);
const { chromium } = require('playwright-core');
const [name, link, executablePath, folder, which, sandbox] = process.argv.slice(2);
const LIMIT = 60_000;
/** The pictures that stand in the documents. */
const PICTURES = new Map([['story-1440-light', 'panel-light'], ['story-1440-dark', 'panel-dark'], ['home-390-light', 'panel-phone-light'], ['home-390-dark', 'panel-phone-dark']]);

const problems = [];
/** Messages of the console that a journey causes itself. */
let expected = /^$/;
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP evil.example 127.0.0.1'] });
const say = (/** @type {string} */ word) => process.stdout.write(`${word}\n`);

/** A page of a context of its own. Errors of pages that are not ours are expected. */
async function open(address, options = {}, isOurs = true) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT);
  if (isOurs) {
    page.on('pageerror', (error) => problems.push(error.stack));
    page.on('console', (message) => message.type() === 'error' && !expected.test(message.text()) && problems.push(message.text()));
  }
  await page.goto(address);
  return page;
}

const question = (page, text) => page.locator('panel-question', { hasText: text });
const gone = (locator) => locator.waitFor({ state: 'detached' });
const row = (page, worker) => page.locator('panel-row a', { hasText: worker });

/** Presses Tab until an element with this text, or this selector, has the focus. */
async function tabTo(page, text, selector = '*') {
  const is = ([text, selector]) => document.activeElement.matches(selector) && (text === null || document.activeElement.textContent === text);
  await tabUntil(page, () => page.evaluate(is, [text, selector]), text || selector);
}

/** Presses Tab until this holds. */
async function tabUntil(page, holds, what) {
  for (let tries = 0; tries < 80; tries += 1) {
    if (await holds()) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not reach ${what}`);
}

/** Presses Tab until this element has the focus. */
async function reach(page, locator) {
  await locator.waitFor();
  await tabUntil(page, () => locator.evaluate((element) => element === document.activeElement), locator);
}

/** Presses Enter on an element, without a pointer. */
async function press(page, locator) {
  await reach(page, locator);
  await page.keyboard.press('Enter');
}

/** A second page with the session of another one, as a browser makes it when a tab is duplicated. */
async function duplicate(page, options = {}) {
  const kept = await page.evaluate(() => ({ ...sessionStorage }));
  const context = await browser.newContext(options);
  await context.addInitScript((kept) => Object.entries(kept).forEach(([key, value]) => sessionStorage.setItem(key, value)), kept);
  const copy = await context.newPage();
  copy.setDefaultTimeout(LIMIT);
  copy.on('pageerror', (error) => problems.push(error.stack));
  await copy.goto(page.url());
  return copy;
}

/** No violation of WCAG 2.2 AA. */
async function accessible(page, where) {
  await page.evaluate(readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8'));
  const found = await page.evaluate(() => globalThis.axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
  for (const { id, nodes } of found.violations) problems.push(`${where}: ${id}: ${nodes[0].html}`);
}

/** What a hostile page tries. Each returns what it got, or nothing. `base` is the panel, `stop` stops a worker there. */
const ATTACKS = {
  read: ({ base }) => fetch(`${base}/api/live`).then(() => 'an answer', () => null),
  readWithCookies: ({ base }) => fetch(`${base}/api/live`, { credentials: 'include' }).then(() => 'an answer', () => null),
  readThePage: ({ base }) => fetch(base).then(() => 'the page', () => null),
  replay: ({ base, token }) => fetch(`${base}/api/session`, { method: 'POST', body: JSON.stringify({ token }), headers: { 'content-type': 'application/json' } }).then(() => 'a session', () => null),
  change: ({ base, stop }) => fetch(base + stop, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } }).then(() => 'an answer', () => null),
  simpleChange: ({ base, stop }) => fetch(base + stop, { method: 'POST', mode: 'no-cors', body: '{}' }).then(() => null, () => null),
  beacon: ({ base, stop }) => navigator.sendBeacon(base + stop, '{}') && null,
  events: ({ base }) => new Promise((resolve) => {
    const source = new EventSource(`${base}/api/live`);
    source.onopen = () => resolve('a stream');
    source.onerror = () => { source.close(); resolve(null); };
  }),
  socket: ({ base }) => new Promise((resolve) => {
    const socket = new WebSocket(`${base.replace('http', 'ws')}/api/live`);
    socket.onopen = () => resolve('a socket');
    socket.onerror = () => resolve(null);
  }),
  script: ({ base }) => new Promise((resolve) => {
    const script = Object.assign(document.createElement('script'), { src: `${base}/app.js`, type: 'module' });
    script.onload = () => resolve('a script');
    script.onerror = () => resolve(null);
    document.body.append(script);
  }),
  style: ({ base }) => new Promise((resolve) => {
    const style = Object.assign(document.createElement('link'), { href: `${base}/style.css`, rel: 'stylesheet' });
    style.onload = () => resolve('a style');
    style.onerror = () => resolve(null);
    document.head.append(style);
  }),
  frame: ({ base }) => new Promise((resolve) => {
    // What is in it is looked at from outside.
    const frame = Object.assign(document.createElement('iframe'), { src: base });
    frame.onload = () => resolve(null);
    document.body.append(frame);
  }),
  window: ({ base }) => new Promise((resolve) => {
    const opened = window.open(base);
    const look = () => {
      // The panel's window is cut off from its opener, which then sees it as closed.
      if (opened.closed) return resolve(null);
      return performance.now() > 10_000 ? resolve('a window') : requestAnimationFrame(look);
    };
    look();
  }),
};

/** Opens a page on another port of this host, and lets it try everything. */
async function attack(host, stop) {
  const server = createServer((_, response) => response.setHeader('content-type', 'text/html').end('<h1>evil</h1>'));
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', () => resolve(null)); });
  const evil = await open(`http://${host}:${server.address().port}/`, {}, false);
  const base = new URL(link).origin;
  const token = new URL(link).hash.slice('#t='.length);
  for (const [what, tries] of Object.entries(ATTACKS)) {
    const got = await evil.evaluate(tries, { base, stop, token });
    if (got) problems.push(`a page of ${host} got ${got} (${what})`);
  }
  for (const frame of evil.frames().slice(1)) {
    if (!frame.url().startsWith('chrome-error:')) problems.push(`a page of ${host} has ${frame.url()} in a frame`);
  }
  // A form leaves the page.
  const answered = evil.waitForResponse((response) => response.url() === base + stop);
  await evil.evaluate(({ base, stop }) => {
    const form = Object.assign(document.createElement('form'), { action: base + stop, method: 'post', enctype: 'text/plain' });
    form.append(Object.assign(document.createElement('input'), { name: '{"a":"', value: '"}' }));
    document.body.append(form);
    form.submit();
  }, { base, stop });
  const status = (await answered).status();
  if (status < 400) problems.push(`a form of ${host} got ${status}`);
  server.close();
  server.closeAllConnections();
}

const journeys = {
  /** A question comes while the page is open, is answered by button, and is gone. */
  async approve() {
    const page = await open(link);
    await row(page, 'demo').waitFor();
    if (page.url().includes('t=')) problems.push('the token is still in the address');
    say('ready');
    await question(page, 'make clean').waitFor();
    // A screen reader hears of it.
    await page.locator('[aria-live=polite]', { hasText: 'demo-1 asks: make clean' }).waitFor({ state: 'attached' });
    await page.waitForFunction(() => document.title === '(1) subagent');
    await question(page, 'make clean').getByRole('button', { name: /Allow once/ }).click();
    await gone(question(page, 'make clean'));
    await page.waitForFunction(() => document.title === 'subagent');
  },

  /** The same without a pointer, after a reload. */
  async keyboard() {
    const page = await open(link);
    await question(page, 'make clean').waitFor();
    await page.reload();
    await question(page, 'make clean').waitFor();
    await page.keyboard.press('i');
    await page.keyboard.press('y');
    await gone(question(page, 'make clean'));
    await page.keyboard.press('l');
    await page.keyboard.press('Enter');
    await page.locator('panel-worker h2').waitFor();
    await page.keyboard.press('m');
    await page.keyboard.type('Hello from the keys');
    await page.keyboard.press('Enter');
    await page.locator('panel-item.user', { hasText: 'Hello from the keys' }).waitFor();
  },

  /** A run is started, read, commented on and stopped without a pointer. */
  async keys() {
    const page = await open(link);
    await row(page, 'demo-1').waitFor();
    for (const key of ['s', 'm', '2']) await page.keyboard.press(key);
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    await accessible(page, 'keys');
    await page.keyboard.press('Escape');
    await gone(page.getByRole('dialog'));
    await page.keyboard.press('w');
    const dialog = page.getByRole('dialog', { name: 'New run' });
    await dialog.locator('option[value="launcher:demo"]').waitFor({ state: 'attached' });
    await page.keyboard.type('demo');
    await page.keyboard.press('Tab');
    await page.keyboard.type('Started by keys');
    await tabTo(page, 'Start');
    await page.keyboard.press('Enter');
    await page.locator('panel-item.user', { hasText: 'Started by keys' }).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    await page.keyboard.type('demo-1');
    await gone(row(page, 'demo-2'));
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.locator('panel-worker h2', { hasText: 'demo-1' }).waitFor();
    await page.keyboard.press('2');
    const file = page.getByRole('listbox', { name: /^Lines of notes.txt/ });
    await file.waitFor();
    await tabTo(page, null, '.patch');
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowUp', 'ArrowDown']) await page.keyboard.press(key);
    await accessible(page, 'a chosen line');
    await page.keyboard.press('Enter');
    await page.keyboard.type('Is this line needed?');
    await tabTo(page, 'Send as a message');
    await page.keyboard.press('Enter');
    await page.keyboard.press('1');
    await page.locator('panel-item.user', { hasText: /About notes.txt:[^]*one[^]*Is this line needed/ }).waitFor();
    await page.keyboard.press('t');
    await page.getByRole('button', { name: 'Tree' }).waitFor();
    await page.keyboard.press('u');
    await page.getByRole('dialog', { name: 'Usage' }).waitFor();
    await page.keyboard.press('Escape');
    await gone(page.getByRole('dialog', { name: 'Usage' }));
    await tabTo(page, 'Stop');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: /^Stop demo-1/ }).waitFor();
    await accessible(page, 'stop?');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await page.locator('p.note', { hasText: 'This worker is stopped' }).waitFor();
    await accessible(page, 'stopped');
    await tabTo(page, 'Go on');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: /^Start another worker/ }).waitFor();
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await page.locator('panel-worker h2', { hasNotText: 'demo-1' }).waitFor();
    await page.locator('panel-item.turn_end').first().waitFor();
  },

  /** A rule is shown before it is made; a message steers a turn, and a turn is canceled: all by keys. */
  async steers() {
    const page = await open(link);
    await question(page, 'make clean').locator('.rules code', { hasText: 'execute(make clean)' }).waitFor();
    await page.keyboard.press('i');
    await page.keyboard.press('a');
    await gone(question(page, 'make clean'));
    await page.keyboard.press('l');
    await page.keyboard.press('Enter');
    await page.locator('panel-item.question').first().waitFor();
    await page.keyboard.press('m');
    await page.keyboard.type('Rather this');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('!sleep 3600000');
    await tabTo(page, 'Steer');
    await page.keyboard.press('Enter');
    await page.locator('panel-item.user', { hasText: 'Rather this' }).waitFor();
    await page.locator('panel-item.turn_end', { hasText: 'Turn canceled' }).waitFor();
    await tabTo(page, 'Cancel turn');
    await page.keyboard.press('Enter');
    await page.locator('panel-item.turn_end', { hasText: 'Turn canceled' }).nth(1).waitFor();
  },

  /** A long transcript is loaded part by part, and what is read stays where it is. */
  async older() {
    const page = await open(link);
    await row(page, 'demo').click();
    await page.locator('panel-item.agent', { hasText: 'the end' }).waitFor();
    const older = page.getByRole('button', { name: 'Load earlier' });
    const items = page.locator('panel-item');
    for (let parts = 0; parts === 0 || await older.isVisible(); parts += 1) {
      const before = await items.count();
      const first = await items.first().elementHandle();
      const place = () => first.evaluate((item) => Math.round(item.getBoundingClientRect().top));
      await older.scrollIntoViewIfNeeded();
      const was = await place();
      await older.focus();
      await page.keyboard.press('Enter');
      await page.waitForFunction((count) => document.querySelectorAll('panel-item').length > count && !document.querySelector('.older').disabled, before);
      if (Math.abs(await place() - was) > 2) problems.push(`what was read has moved by ${await place() - was}`);
    }
    await page.locator('panel-item.user', { hasText: 'the begin' }).waitFor();
    const steps = (await page.locator('panel-item.tool').allTextContents()).map((text) => Number(/step-(\d+)/.exec(text)?.[1]));
    if (steps.join() !== [...steps.keys()].join() || steps.length < 300) problems.push(`the story has the steps ${steps}`);
  },

  /** A page that is older than the panel loads the files of the new one. */
  async old() {
    const page = await open('about:blank');
    const content = () => page.evaluate(() => document.querySelector('meta[name=page]').content);
    await page.route('**/*', async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, body: (await answer.text()).replace(/name="page" content="[^"]*"/, 'name="page" content="old"') });
    }, { times: 1 });
    let loads = 0;
    page.on('request', (request) => { loads += Number(request.isNavigationRequest()); });
    await page.goto(link);
    await row(page, 'demo').waitFor();
    if (loads !== 2 || !(await content())) problems.push(`the page was loaded ${loads} times, and is ${await content()}`);
  },

  /** A task of a worker appears below it while the page is open. */
  async tree() {
    const page = await open(link);
    await row(page, 'Root').waitFor();
    say('ready');
    await page.locator('panel-row.depth-1', { hasText: 'Scout-ing' }).waitFor();
    await row(page, 'Root').click();
    await page.getByRole('tab', { name: 'Children 1' }).click();
    await page.getByRole('row', { name: /^Scouting/ }).waitFor();
    await accessible(page, 'children');
  },

  /** Waiting messages are moved, dropped and sent now, by keys. */
  async queue() {
    const page = await open(link);
    await row(page, 'demo-1').click();
    await page.keyboard.press('5');
    await page.keyboard.press('4');
    const waiting = (text) => page.locator('.turns li', { hasText: text });
    await press(page, waiting('third').getByRole('button', { name: 'Move up' }));
    await page.locator('.turns li').nth(1).filter({ hasText: 'third' }).waitFor();
    await press(page, waiting('second').getByRole('button', { name: 'Drop' }));
    await gone(waiting('second'));
    await accessible(page, 'queue');
    await press(page, waiting('third').getByRole('button', { name: 'Send now' }));
    await press(page, page.getByRole('dialog', { name: /^Cancel the turn/ }).getByRole('button', { name: 'Send now' }));
    await page.locator('p.empty', { hasText: 'Nothing waits.' }).waitFor();
    await page.keyboard.press('s');
    await page.locator('panel-item.agent', { hasText: 'first' }).waitFor();
    const said = await page.locator('panel-item.user').allTextContents();
    if (!/third/.test(said[1]) || !/first/.test(said[2])) problems.push(`the order is another one: ${said}`);
  },

  /** Two pages, one answer: the other page sees it. The second browser comes in by a code. */
  async two() {
    const [address, code] = link.split(' ');
    const first = await open(address);
    await question(first, 'make clean').waitFor();
    const second = await open(new URL(address).origin);
    await second.getByLabel('Code').waitFor();
    await accessible(second, 'sign in');
    await reach(second, second.getByLabel('Code'));
    await second.keyboard.type(code);
    await press(second, second.getByRole('button', { name: 'Pair' }));
    await press(second, question(second, 'make clean').getByRole('button', { name: /Reject/ }));
    await gone(question(first, 'make clean'));
  },

  /** A form of an agent. */
  async form() {
    const page = await open(link);
    const form = question(page, 'Who?');
    await form.waitFor();
    await accessible(page, 'form');
    await reach(page, form.getByLabel('Name *'));
    await page.keyboard.type('Ada');
    await reach(page, form.getByLabel('Size'));
    await page.keyboard.type('large');
    await press(page, form.getByRole('button', { name: 'Answer' }));
    await gone(form);
  },

  /** A new worker appears while the page is open; its story is followed; another one is started in the page. */
  async grows() {
    const page = await open(link);
    await row(page, 'demo').first().waitFor();
    say('ready');
    await row(page, 'grown').click();
    await page.locator('panel-item.agent', { hasText: 'first words' }).waitFor();
    await page.getByRole('button', { name: 'New run' }).click();
    const dialog = page.getByRole('dialog', { name: 'New run' });
    await dialog.getByLabel('Agent').selectOption('launcher:demo');
    await dialog.getByLabel('Task').fill('Started in the page');
    await dialog.getByRole('button', { name: 'Start' }).click();
    await page.locator('panel-item.user', { hasText: 'Started in the page' }).waitFor();
  },

  /** A worker's changes are read and landed; workers are grouped by a tag, and what they used is summed. */
  async land() {
    const page = await open(link);
    await reach(page, page.getByLabel('Group workers'));
    await page.keyboard.press('ArrowDown');
    await page.locator('h3.place', { hasText: 'job=login' }).waitFor();
    await press(page, row(page, 'auth'));
    await page.getByRole('tab', { name: 'Changes' }).waitFor();
    await page.keyboard.press('2');
    await page.locator('.patch', { hasText: 'it works' }).waitFor();
    await press(page, page.getByRole('button', { name: 'Land' }));
    await press(page, page.getByRole('dialog').getByRole('button', { name: 'Land' }));
    await page.locator('p.note', { hasText: 'Landed on main' }).waitFor();
    await page.keyboard.press('u');
    const sums = page.getByRole('dialog', { name: 'Usage' });
    await sums.getByRole('row', { name: /^All 1/ }).waitFor();
    await accessible(page, 'usage');
    await sums.getByLabel('Group by').selectOption('worker');
    await sums.getByRole('rowheader', { name: 'auth' }).waitFor();
  },

  /** Two workers edit one file: both are marked. One of them is handed off. */
  async together() {
    const page = await open(link);
    await row(page, 'demo').locator('.clash', { hasText: 'same file as other' }).waitFor();
    await press(page, page.getByRole('link', { name: /^other/ }));
    await page.locator('panel-worker .head .problem', { hasText: 'is also edited by' }).waitFor();
    await accessible(page, 'shared');
    await press(page, page.getByRole('button', { name: 'Hand off' }));
    await press(page, page.getByRole('dialog').getByRole('button', { name: 'Hand off' }));
    // The worker that is handed off is still in its turn.
    await page.locator('panel-item.turn_end').first().waitFor();
  },

  /** The daemon is killed; the page says so or not, and goes on. */
  async killed() {
    expected = /the server responded with a status of 503/;
    const page = await open(link);
    await row(page, 'demo').click();
    await page.locator('panel-worker h2').waitFor();
    say('ready');
    await page.locator('panel-item.agent', { hasText: 'after the kill' }).waitFor();
  },

  /** The daemon is replaced by another one of its kind while a page is open. */
  async replaced() {
    expected = /the server responded with a status of 503/;
    const page = await open(link);
    await row(page, 'demo').click();
    await page.locator('panel-worker h2').waitFor();
    say('ready');
    await page.locator('panel-item.agent', { hasText: 'after the restart' }).waitFor();
    await press(page, page.getByLabel(/^Message/));
    await page.keyboard.type('To the new one');
    await page.keyboard.press('Enter');
    await page.locator('panel-item.agent', { hasText: 'To the new one' }).waitFor();
  },

  /** A page has no network for an hour. The tab was duplicated: the copy writes meanwhile. */
  async away() {
    expected = /ERR_INTERNET_DISCONNECTED|ERR_NETWORK_CHANGED/;
    const page = await open('about:blank');
    await page.clock.install();
    await page.goto(link);
    await row(page, 'demo').click();
    await page.locator('panel-worker h2').waitFor();
    const copy = await duplicate(page);
    await copy.locator('panel-worker h2').waitFor();
    await page.context().setOffline(true);
    await page.clock.fastForward('01:00:00');
    await page.locator('.link', { hasText: 'The connection to the panel was lost.' }).waitFor();
    await copy.keyboard.press('m');
    await copy.keyboard.type('While it was away');
    await copy.keyboard.press('Enter');
    await copy.locator('panel-item.turn_end').first().waitFor();
    await page.context().setOffline(false);
    await page.clock.fastForward(10_000);
    await page.locator('panel-item.turn_end').first().waitFor();
    await page.locator('.link:empty').waitFor({ state: 'attached' });
    const said = await page.locator('panel-item.user').allTextContents();
    if (said.length !== 1 || !said[0].includes('While it was away')) problems.push(`after an hour the page has ${said}`);
  },

  /** An agent writes faster than a slow page draws, and a line of 32 MiB. */
  async slow() {
    const page = await open(link);
    await row(page, 'demo').click();
    await page.locator('panel-worker h2').waitFor();
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Emulation.setCPUThrottlingRate', { rate: 6 });
    await devtools.send('Network.enable');
    await devtools.send('Network.emulateNetworkConditions', { offline: false, latency: 300, downloadThroughput: 500_000, uploadThroughput: 50_000 });
    say('ready');
    await page.locator('panel-item.agent', { hasText: 'the end' }).waitFor({ timeout: 2 * LIMIT });
    await page.locator('panel-item.agent', { hasText: /[1-9][0-9]* bytes before this are left out/ }).first().waitFor();
    const size = await page.evaluate(() => document.body.textContent.length);
    if (size > 5_000_000) problems.push(`the page has ${size} characters`);
    await page.keyboard.press('m');
    await page.keyboard.type('It still works');
    await page.keyboard.press('Enter');
    await page.locator('panel-item.user', { hasText: 'It still works' }).waitFor();
  },

  /** Workers of two workspaces of one user. */
  async workspaces() {
    const page = await open(link);
    await page.locator('h3', { hasText: 'elsewhere' }).waitFor();
    await row(page, 'demo-1').waitFor();
    await press(page, question(page, 'make there').getByRole('button', { name: /Allow once/ }));
    await gone(question(page, 'make there'));
    // A row keeps the focus while the list changes, also when it is moved.
    const [here, there] = [row(page, 'demo-1'), row(page, 'there')];
    for (const inFront of [false, true]) {
      await reach(page, here);
      await there.evaluate((link, inFront) => {
        const list = link.closest('panel-list');
        if (inFront) list.body.prepend(link.closest('panel-row'));
        list.update();
      }, inFront);
      if (!(await here.evaluate((element) => element === document.activeElement))) problems.push('a row has lost the focus');
    }
    await press(page, there);
    await page.locator('panel-item.agent', { hasText: 'went on there' }).waitFor();
    await accessible(page, 'workspaces');
  },

  /** What an agent writes is text: nothing of it runs, and nothing is fetched. */
  async hostile() {
    const page = await open(link);
    const foreign = [];
    page.on('request', (request) => request.url().startsWith(new URL(link).origin) || foreign.push(request.url()));
    await row(page, 'demo').click();
    await page.locator('panel-item.agent', { hasText: 'the end' }).waitFor();
    const seen = await page.evaluate(() => ({
      hit: globalThis.hit, elements: document.querySelectorAll('script:not([src]), img, iframe, svg, object, embed, link:not([rel=stylesheet]):not([rel=icon]):not([rel=modulepreload])').length,
      links: [...document.querySelectorAll('.prose a')].map((link) => [link.href, link.target, link.rel]), polluted: {}.hit,
    }));
    if (seen.hit || seen.elements || seen.polluted) problems.push(`it ran: ${JSON.stringify(seen)}`);
    for (const [href, target, rel] of seen.links) {
      if (!/^(https?|mailto):/.test(href) || target !== '_blank' || !rel.includes('noopener')) problems.push(`${href} ${target} ${rel}`);
    }
    if (foreign.length) problems.push(`fetched: ${foreign}`);
    const [place, worker] = new URL(page.url()).hash.slice(2).split('/');
    for (const host of ['127.0.0.1', 'evil.example']) await attack(host, `/api/${place}/workers/${worker}/stop`);
    // A name of the attacker that leads to the panel.
    const rebound = await open('about:blank', {}, false);
    const answer = await rebound.goto(link.replace('127.0.0.1', 'evil.example'));
    if (answer.status() < 400 || await rebound.locator('panel-app').count()) problems.push(`another name: ${answer.status()}`);
  },

  /** Wide, narrow, light, dark: nothing stands out of the page, nothing breaks the rules for accessibility. */
  async looks() {
    let session = null;
    /** The pictures of the documents, or all. The folders of the test do not stand in them. */
    const shoot = async (page, picture) => {
      if (which !== 'all' && !PICTURES.has(picture)) return;
      await page.evaluate((place) => {
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(`${place}/ws`, '~/shop').replaceAll(`${place}/data`, '~/.local/share').replace(/(shop|ws)-[0-9a-f]{8,}/g, 'shop-1f0c');
      }, sandbox);
      await page.screenshot({ path: `${folder}/${PICTURES.get(picture) || picture}.png` });
    };
    for (const [width, height, colorScheme] of [[1440, 900, 'light'], [1440, 900, 'dark'], [800, 900, 'light'], [800, 900, 'dark'], [390, 844, 'light'], [390, 844, 'dark']]) {
      const page = await open(session ? new URL(link).origin : link, { bypassCSP: true, locale: 'en-GB', viewport: { width, height }, colorScheme });
      if (session) {
        await page.evaluate((value) => sessionStorage.setItem('session', value), session);
        await page.reload();
      }
      const where = `${width}-${colorScheme}`;
      await row(page, 'fix-login').first().waitFor();
      session ||= await page.evaluate(() => sessionStorage.getItem('session'));
      await question(page, 'cargo test').waitFor();
      await accessible(page, `${where} home`);
      await shoot(page, `home-${where}`);
      await page.locator('panel-row a .name', { hasText: 'fix-login' }).first().click();
      await page.locator('panel-item.turn_end').first().waitFor();
      await page.locator('panel-worker .meters meter').first().waitFor();
      await page.locator('panel-item.tool summary', { hasText: 'Edit src/login.rs' }).click();
      await page.locator('panel-item .patch').first().waitFor();
      await accessible(page, `${where} story`);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 0) problems.push(`${where}: ${over} pixels stand out`);
      await page.locator('panel-story').evaluate((story) => { story.scrollTop = story.scrollHeight; });
      await page.locator('panel-item.tool', { hasText: 'task: tester' }).waitFor();
      await shoot(page, `story-${where}`);
      for (const tab of ['Changes', 'Children', 'Queue', 'Usage', 'Log']) {
        await page.getByRole('tab', { name: tab }).click();
        await page.locator('.tab .skeletons').waitFor({ state: 'detached' });
        await accessible(page, `${where} ${tab}`);
        await shoot(page, `${tab.toLowerCase()}-${where}`);
      }
      await page.keyboard.press('w');
      await page.getByRole('dialog').locator('option[value="launcher:demo"]').waitFor({ state: 'attached' });
      await accessible(page, `${where} new run`);
      await shoot(page, `start-${where}`);
      await page.context().close();
    }
  },
};

try {
  await journeys[name]();
} catch (error) {
  problems.push(error.stack);
}
await browser.close();
for (const problem of problems) process.stderr.write(`${problem}\n`);
if (problems.length) process.exit(1);
say('done');
