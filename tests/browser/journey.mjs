// One journey through the panel in a real Chromium: `node journey.mjs NAME LINK CHROMIUM [FOLDER]`.
//
// It says `ready` where the test has to do something, and `done` at the end. An error of the page or a violation of its
// Content Security Policy fails each journey.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(`${process.cwd()}/`);
const { chromium } = require('playwright-core');
const [name, link, executablePath, folder] = process.argv.slice(2);
const LIMIT = 20_000;

const problems = [];
/** Messages of the console that a journey causes itself. */
let expected = /^$/;
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
const say = (/** @type {string} */ word) => process.stdout.write(`${word}\n`);

/** A page of a context of its own. */
async function open(address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT);
  page.on('pageerror', (error) => problems.push(error.stack));
  page.on('console', (message) => message.type() === 'error' && !expected.test(message.text()) && problems.push(message.text()));
  await page.goto(address);
  return page;
}

const question = (page, text) => page.locator('panel-question', { hasText: text });
const gone = (locator) => locator.waitFor({ state: 'detached' });
const row = (page, worker) => page.locator('panel-row a', { hasText: worker });

/** No violation of WCAG 2.2 AA. */
async function accessible(page, where) {
  await page.evaluate(readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8'));
  const found = await page.evaluate(() => globalThis.axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }));
  for (const { id, nodes } of found.violations) problems.push(`${where}: ${id}: ${nodes[0].html}`);
}

const journeys = {
  /** A question comes while the page is open, is answered by button, and is gone. */
  async approve() {
    const page = await open(link);
    await row(page, 'demo').waitFor();
    if (page.url().includes('t=')) problems.push('the token is still in the address');
    say('ready');
    await question(page, 'make clean').getByRole('button', { name: /Allow once/ }).click();
    await gone(question(page, 'make clean'));
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

  /** Two pages, one answer: the other page sees it. The second browser comes in by a code. */
  async two() {
    const [address, code] = link.split(' ');
    const first = await open(address);
    await question(first, 'make clean').waitFor();
    const second = await open(new URL(address).origin);
    await second.getByLabel('Code').fill(code);
    await second.getByRole('button', { name: 'Pair' }).click();
    await question(second, 'make clean').getByRole('button', { name: /Reject/ }).click();
    await gone(question(first, 'make clean'));
  },

  /** A form of an agent. */
  async form() {
    const page = await open(link);
    const form = question(page, 'Who?');
    await form.getByLabel('Name *').fill('Ada');
    await form.getByLabel('Size').selectOption({ label: 'large' });
    await form.getByRole('button', { name: 'Answer' }).click();
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
    await page.getByLabel('Group workers').selectOption('job');
    await page.locator('h3.place', { hasText: 'job=login' }).waitFor();
    await row(page, 'auth').click();
    await page.getByRole('tab', { name: 'Changes' }).click();
    await page.locator('.patch', { hasText: 'it works' }).waitFor();
    await page.getByRole('button', { name: 'Land' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Land' }).click();
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
    await page.getByRole('link', { name: /^other/ }).click();
    await page.locator('panel-worker .head .problem', { hasText: 'is also edited by' }).waitFor();
    await accessible(page, 'shared');
    await page.getByRole('button', { name: 'Hand off' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Hand off' }).click();
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
    // A page of another origin: it can neither read, nor frame, nor change anything.
    const evil = await open('data:text/html,<h1>evil</h1>');
    const tried = await evil.evaluate(async (base) => {
      const read = await fetch(`${base}/api/live`).then(() => 'read', () => 'refused');
      const simple = await fetch(`${base}/api/session`, { method: 'POST', mode: 'no-cors', body: '{}' }).then((answer) => answer.type, () => 'refused');
      const frame = document.createElement('iframe');
      frame.src = base;
      document.body.append(frame);
      await new Promise((resolve) => { frame.onload = resolve; });
      let framed = 'empty';
      try { framed = frame.contentDocument?.body?.innerText || 'empty'; } catch { framed = 'empty'; }
      return [read, simple, framed];
    }, new URL(link).origin);
    if (tried[0] !== 'refused' || !['opaque', 'refused'].includes(tried[1]) || tried[2] !== 'empty') problems.push(`another origin: ${tried}`);
    // The errors of the evil page are its own.
    problems.splice(0, problems.length, ...problems.filter((problem) => !/CORS|Failed to load|frame|Refused to|net::ERR/.test(problem)));
  },

  /** Wide, narrow, light, dark: nothing stands out of the page, nothing breaks the rules for accessibility. */
  async looks() {
    const context = { bypassCSP: true };
    let session = null;
    for (const [width, height, colorScheme] of [[1440, 900, 'light'], [1440, 900, 'dark'], [800, 900, 'light'], [390, 844, 'dark'], [390, 844, 'light']]) {
      const page = await open(session ? new URL(link).origin : link, { ...context, viewport: { width, height }, colorScheme, ...(session ? { storageState: undefined } : {}) });
      if (session) {
        await page.evaluate((value) => sessionStorage.setItem('session', value), session);
        await page.reload();
      }
      const where = `${width}-${colorScheme}`;
      await row(page, 'fix-login').waitFor();
      session ||= await page.evaluate(() => sessionStorage.getItem('session'));
      await question(page, 'make').waitFor();
      await accessible(page, `${where} home`);
      if (folder && width === 390 && colorScheme === 'dark') await page.screenshot({ path: `${folder}/panel-phone-${colorScheme}.png` });
      await row(page, 'fix-login').click();
      await page.locator('panel-item.turn_end').first().waitFor();
      await page.locator('panel-worker .meters meter').first().waitFor();
      await accessible(page, `${where} story`);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 0) problems.push(`${where}: ${over} pixels stand out`);
      if (folder && width === 1440 && colorScheme === 'light') await page.screenshot({ path: `${folder}/panel-${colorScheme}.png` });
      for (const tab of ['Changes', 'Children', 'Queue', 'Usage', 'Log']) {
        await page.getByRole('tab', { name: tab }).click();
        await page.locator('.tab .skeletons').waitFor({ state: 'detached' });
        await accessible(page, `${where} ${tab}`);
      }
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
